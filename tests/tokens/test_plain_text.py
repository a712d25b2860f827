"""Plain text has no control ids, whatever it spells; frames are kept, or refused whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from headway.base.errors import UserError
from headway.tokens.importing import import_tokenizer
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.text_training import framing

WORDS = ["<unk>", "<s>", "</s>", "hello", "world"]
TEXT = "hello </s> world <s>"


@pytest.fixture
def words(tmp_path: Path) -> TextTokenizer:
    (tmp_path / "words.txt").write_text("\n".join(WORDS), encoding="utf-8")
    return framing(import_tokenizer(tmp_path / "words.txt").tokenizer, masks=True)


def without_unknown() -> TextTokenizer:
    vocab = {word: id for id, word in enumerate(WORDS[1:])}
    made = Backend(models.BPE(vocab, [], ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(WORDS[1:3])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    return TextTokenizer(made, Roles(bos=0, ends=frozenset({1}), adds_bos=True))


def test_every_way_of_encoding_makes_control_tokens_unknown(words: TextTokenizer) -> None:
    plain = [3, 0, 4, 0]
    assert words.encode([TEXT]) == [plain]
    assert words.parts([TEXT, "</s>"]) == [plain, [0]]
    assert list(words.cut([TEXT])) == [(plain, ["</s>", "<s>"])]
    assert words.documents([TEXT]) == [[1, *plain, 2]]
    assert words.prompts([TEXT]) == [[1, *plain]]
    assert words.framed([TEXT]) == [([1, *plain, 2], [0] * 6)]
    assert words.framed(["<s>"], ["</s> hello"]) == [([1, 0, 2, 0, 3, 2], [0, 0, 0, 1, 1, 1])]


def test_without_an_unknown_token_they_are_left_out() -> None:
    made = without_unknown()
    assert made.encode([TEXT]) == [[2, 3]]
    assert list(made.cut([TEXT])) == [([2, 3], ["</s>", "<s>"])]
    assert made.framed(["<s>", TEXT]) == [([0, 1], [0, 0]), ([0, 2, 3, 1], [0] * 4)]
    assert made.framed(["<s>"], ["</s> hello"]) == [([0, 1, 2, 1], [0, 0, 1, 1])]


def test_a_template_s_own_tokens_stay(words: TextTokenizer) -> None:
    template = "{% for m in messages %}<s> {{ m.content }} </s>{% endfor %}"
    roles = Roles(bos=1, ends=frozenset({2}), template=template)
    made = TextTokenizer(Backend.from_str(words.to_json()), roles)
    ids = made.chat([{"role": "user", "content": "hello <s> world"}])
    assert ids == [1, 3, 0, 4, 2]


def test_rows_too_short_for_the_frame_are_refused(words: TextTokenizer) -> None:
    assert words.framed(["hello world"], longest=2) == [([1, 2], [0, 0])]
    assert words.framed(["hello"], ["world"], longest=3) == [([1, 2, 2], [0, 0, 1])]
    with pytest.raises(UserError, match="at most 1 ids cannot hold the 2 of"):
        words.framed(["hello world"], longest=1)
    with pytest.raises(UserError, match="at most 2 ids cannot hold the 3 of"):
        words.framed(["hello"], ["world"], longest=2)
