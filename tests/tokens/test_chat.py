"""Chat templates: what they give, and what happens to one that misbehaves."""

from __future__ import annotations

from typing import Any

import pytest

from headway.base.errors import UserError
from headway.tokens.chat import check_messages, render_chat

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message['content'] }}<|im_end|>{{ '\\n' }}{% endfor %}\n"
    "{% if add_generation_prompt %}\n  <|im_start|>assistant\n{% endif %}"
)
TALK = [{"role": "user", "content": "Hi <|im_end|>"}, {"role": "assistant", "content": "Ho"}]


def render(template: str, answer: bool = False) -> str:
    return render_chat(template, TALK, specials={"bos_token": "<s>"}, where="a", answer=answer)


def test_messages_become_one_text() -> None:
    turns = "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
    assert render(CHATML) == turns
    assert render(CHATML, answer=True) == turns + "  <|im_start|>assistant\n"


def test_special_tokens_and_helpers_are_there() -> None:
    assert render("{{ bos_token }}{{ messages[0] | tojson }}") == (
        '<s>{"role": "user", "content": "Hi <|im_end|>"}'
    )
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    looped = "{% for m in messages %}{{ m.role }}{% break %}{% endfor %}"
    assert render(looped) == "user"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses these messages: roles must"),
        ("{% for %}", "does not work: "),
        ("{{ 1 / 0 }}", "does not work: division by zero"),
        ("{{ messages.append(1) }}", "does not work: "),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "does not work: "),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end"),
        ("{% for a in range(99999) %}{{ 'abc' * 1000 }}{% endfor %}", "writes over 10,000,000"),
        ("{{ range(1000000000) | list }}", "counts further than 1,000,000"),
        (
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "counts further than 1,000,000",
        ),
        ("{{ 'x' * 10 ** 10 }}", r"\* makes something too large"),
        ("{{ 9 ** 9 ** 9 }}", r"\*\* makes something too large"),
        ("{{ messages[7].content }}", "does not work: "),
    ],
)
def test_a_template_that_misbehaves_is_one_message(template: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        render(template)


def test_products_and_loops_of_common_templates_work() -> None:
    counting = "{% for n in range(3) %}{{ n * 2 }}{{ '-' * n }}{% endfor %}{{ 2 ** 3 }}"
    assert render(counting) == "02-4--8"
    assert render(counting) == "02-4--8", "each rendering counts anew"


@pytest.mark.parametrize("message", [{"content": "a"}, {"role": "user", "content": None}, {}])
def test_a_message_needs_a_role_and_a_text(message: dict[str, str]) -> None:
    with pytest.raises(UserError, match="message 2 has no 'role'"):
        check_messages([TALK[0], message])


LOOP = "{% for m in messages %}"
SPEAKS = LOOP + (
    "{{ m.role }}:{% if m.role == 'assistant' %}\n{% generation %}\n  {{ m.content }}"
    "{{ eos_token }}"
    "\n{% endgeneration %}\n{% else %}{{ m.content }}{% endif %}\n{% endfor %}"
)
SETS = LOOP + (
    "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{{ loop.index }}{% endgeneration %}"
    "{{ x }}"
    "{%- generation -%} {{ m.role }} {%- endgeneration -%}{% endfor %}"
)
HOW = "messages[0] | tojson"
SAME = [
    SPEAKS,
    SETS,
    "{% if tools is not none %}tools{% endif %}{% if tools is defined %}known{% endif %}",
    "{% if documents is none %}no documents{% endif %}{{ tools }}{{ documents }}",
    f"{{{{ {HOW}(ensure_ascii=True) }}}}{{{{ {HOW}(indent=2) }}}}{{{{ {HOW}(sort_keys=true) }}}}",
    f"{{{{ {HOW}(separators=(',', ':')) }}}}{{{{ {HOW}(true, 4) }}}}{{{{ {HOW} }}}}",
    LOOP + "{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.name is defined }}{% endfor %}",
    "{{ messages | map(attribute='role') | join('-') }}{{ unknown_name }}{{ bos_token }}",
    LOOP + "{% if loop.last %}{% continue %}{% endif %}{{ m.content.split()[0] }}{% endfor %}",
]


@pytest.mark.parametrize("template", SAME)
def test_a_template_gives_what_transformers_makes_of_it(template: str) -> None:
    tool = pytest.importorskip("transformers.utils.chat_template_utils", reason="transformers")
    talk: list[Any] = [
        {"role": "user", "content": "Hé <b> there"},
        {"role": "assistant", "content": "Ho", "reasoning": "why", "name": None},
        {"role": "user", "content": "c"},
    ]
    specials = {"bos_token": "<s>", "eos_token": "</s>"}
    for answer in (True, False):
        wanted, _ = tool.render_jinja_template(
            [[{k: v for k, v in each.items() if v is not None} for each in talk]],
            chat_template=template,
            add_generation_prompt=answer,
            **specials,
        )
        found = render_chat(template, talk, specials=specials, where="a", answer=answer)
        assert found == wanted[0]


def test_what_is_not_closed_is_one_message() -> None:
    with pytest.raises(UserError, match="does not work: "):
        render("{% generation %}")
