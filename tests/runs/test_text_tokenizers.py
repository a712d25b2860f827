"""The roles of special tokens, as folders and GGUF files say them or leave them out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.runs.text_tokenizers import file_tokenizer, folder_tokenizer, tokenizer_files
from headway.tokens.folder_files import text_files
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.text import TextTokenizer

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*LETTERS, "hi", "<s>", "</s>"]
HI, BOS, EOS = 256, 257, 258
KEY = "tokenizer.ggml."


def of_file(**said: Any) -> TextTokenizer:
    """The tokeniser of a GGUF file with these keys."""
    table = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": TOKENS,
        "merges": ["h i"],
        "token_type": np.array([1] * HI + [1, 3, 3]),
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    metadata = {KEY + name: value for name, value in (table | said).items()}
    file = SimpleNamespace(metadata=metadata, path=Path("a.gguf"))
    return file_tokenizer(cast(GGUF, file))


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ({}, False),
        ({"pre": "smollm"}, False),
        ({"pre": "llama-bpe"}, True),
        ({"pre": "llama-v3"}, True),
        ({"pre": "llama3"}, True),
        ({"pre": "llama3", "add_bos_token": False}, False),
        ({"add_bos_token": True}, True),
    ],
)
def test_a_prompt_begins_as_llama_cpp_begins_it(said: dict[str, Any], begins: bool) -> None:
    assert of_file(**said).prompts(["hi"]) == [[BOS, HI] if begins else [HI]]


def test_the_end_of_a_whole_text_is_the_one_that_the_file_wants(tmp_path: Path) -> None:
    made = of_file(add_eos_token=True, eot_token_id=BOS, add_bos_token=True)
    assert made.whole(["hi"]) == [[BOS, HI, EOS]]
    assert made.prompts(["hi"]) == [[BOS, HI]]  # nothing comes after an end
    assert of_file().whole(["hi"]) == of_file(add_eos_token=False).whole(["hi"]) == [[HI]]
    again = gguf_metadata(made, len(TOKENS))
    assert (again[f"{KEY}add_eos_token"], again[f"{KEY}eos_token_id"]) == (True, EOS)
    files, _ = text_files(made, max_length=32, continues=True)
    for each in (files, tokenizer_files(made)):
        for name, content in each.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        found = folder_tokenizer(tmp_path)
        assert found.roles == made.roles
        assert found.whole(["hi"]) == [[BOS, HI, EOS]]


def test_transformers_frames_a_whole_text_as_we_do(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for begins in (True, False):
        made = of_file(add_eos_token=True, add_bos_token=begins)
        for name, content in text_files(made, max_length=32, continues=True)[0].items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert [theirs("hi").input_ids] == made.whole(["hi"])


@pytest.mark.parametrize("key", ["add_bos_token", "add_eos_token"])
def test_a_switch_that_is_none_is_one_message(key: str) -> None:
    with pytest.raises(UserError, match=f"'tokenizer.ggml.{key}' is "):
        of_file(**{key: np.arange(3)})


SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert_folder(path: Path, **files: Any) -> TextTokenizer:
    """A folder with a WordPiece and these files; none of them is bert-base-uncased's own way."""
    made = Backend(
        models.WordPiece({each: id for id, each in enumerate(SPECIALS)}, unk_token="[UNK]")
    )
    made.add_special_tokens([AddedToken(each, normalized=False) for each in SPECIALS])
    made.save(str(path / "tokenizer.json"))
    for name, table in files.items():
        (path / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")
    return folder_tokenizer(path)


@pytest.mark.parametrize(
    ("files", "mask"),
    [
        ({}, 4),  # by its usual name
        ({"tokenizer_config": {"do_lower_case": True}}, 4),
        ({"special_tokens_map": {"mask_token": "[SEP]"}}, 3),
        ({"special_tokens_map": {"mask_token": {"content": "[SEP]"}}}, 3),
        (
            {
                "tokenizer_config": {"mask_token": "[CLS]"},
                "special_tokens_map": {"mask_token": "[SEP]"},
            },
            2,
        ),
        ({"tokenizer_config": {"mask_token": None}}, None),  # that is said as well
    ],
)
def test_a_role_that_one_file_leaves_out_is_in_the_next(
    tmp_path: Path, files: dict[str, Any], mask: int | None
) -> None:
    found = bert_folder(tmp_path, **files)
    assert found.roles.mask == mask
    assert (found.roles.pad, found.roles.ends) == (0, frozenset({3}))
    for name, content in tokenizer_files(found).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert folder_tokenizer(tmp_path).roles == found.roles


def test_an_end_that_another_file_gives_is_the_only_one(tmp_path: Path) -> None:
    found = bert_folder(tmp_path, generation_config={"eos_token_id": 2})
    assert found.roles.ends == frozenset({2})


def test_only_special_tokens_are_known_by_their_names(tmp_path: Path) -> None:
    made = Backend(models.WordLevel({"[MASK]": 0, "a": 1, "[UNK]": 2}, unk_token="[UNK]"))
    made.save(str(tmp_path / "tokenizer.json"))
    assert folder_tokenizer(tmp_path).roles.mask is None


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja"])
def test_what_is_not_utf_8_is_one_message(tmp_path: Path, name: str) -> None:
    bert_folder(tmp_path)
    (tmp_path / name).write_bytes(b'{"\xff\xfe"}')
    with pytest.raises(UserError, match=rf"{name}: not UTF-8"):
        folder_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["generation_config", "config"])
@pytest.mark.parametrize(
    "ids", [[[1], 2], {"a": 1}, "</s>", [2, "</s>"], 1.0, True, -1, 10**30, [2, 5], [[]]], ids=ascii
)
def test_ends_that_cannot_be_obeyed_are_one_message(tmp_path: Path, name: str, ids: Any) -> None:
    with pytest.raises(UserError, match=rf"{name}\.json: 'eos_token_id' .*no token has that id"):
        bert_folder(tmp_path, **{name: {"eos_token_id": ids}})


@pytest.mark.parametrize("ids", [None, [], [None]], ids=ascii)
def test_no_ends_are_no_fault(tmp_path: Path, ids: Any) -> None:
    found = bert_folder(tmp_path, generation_config={"eos_token_id": ids}, config={})
    assert found.roles.ends == frozenset({3})  # by its usual name


@pytest.mark.parametrize("role", ["bos", "eos"])
@pytest.mark.parametrize("token", ["<nope>", 5, {"content": "<nope>"}, {}, [], "\ud800"], ids=ascii)
def test_a_role_of_no_token_is_one_message(tmp_path: Path, role: str, token: Any) -> None:
    with pytest.raises(UserError, match=f"'{role}_token' is .*, and tokenizer.json has no such"):
        bert_folder(tmp_path, tokenizer_config={f"{role}_token": token})


@pytest.mark.parametrize("role", ["pad", "mask"])
def test_a_token_that_is_not_unicode_has_no_role(tmp_path: Path, role: str) -> None:
    found = bert_folder(tmp_path, special_tokens_map={f"{role}_token": "\ud800"})
    assert getattr(found.roles, role) is None


TURN = 259
CHATS = {"tokens": [*TOKENS, "<|im_end|>"], "token_type": np.array([1] * HI + [1, 3, 3, 3])}


@pytest.mark.parametrize("type", [1, 3, 4])  # of the vocabulary alone, control, defined by a user
def test_what_is_spelled_as_the_end_of_a_turn_ends_it(type: int) -> None:
    made = of_file(**CHATS | {"token_type": np.array([1] * HI + [1, 3, 3, type])})
    assert (made.roles.ends, made.end()) == (frozenset({EOS, TURN}), EOS)
    text = "say <|im_end|> now"
    (ids,) = made.encode([text])
    assert TURN not in ids
    assert made.decode([ids, [HI, TURN]]) == [text, "hi"]


@pytest.mark.parametrize(
    ("names", "ends"),
    [
        (["<|end|>", "<|return|>"], {"<|end|>", "<|return|>"}),
        (["<|end|>", "<|return|>", "<|call|>"], {"<|return|>", "<|call|>"}),
        (["<|tool_response>", "<turn|>"], {"<|tool_response>", "<turn|>"}),
        (["<|im_start|>", "<end_of_turn>"], {"<end_of_turn>"}),
    ],
)
def test_ends_that_exclude_one_another_do_as_in_llama_cpp(names: list[str], ends: set[str]) -> None:
    types = np.array([1] * (HI + 3) + [3] * len(names))
    made = of_file(tokens=[*TOKENS, *names], token_type=types, eos_token_id=BOS)
    spelled = {made.token(id) for id in made.roles.ends - {BOS}}
    assert spelled == (ends if "<|tool_response>" in names else ends | {"</s>"})


@pytest.mark.parametrize("id", [-1, 2**32, 2**63, True, 10**6, 1.0], ids=ascii)
def test_an_id_that_no_token_can_have_is_none(id: Any) -> None:
    made = of_file(bos_token_id=id, padding_token_id=id, eot_token_id=id)
    assert (made.roles.bos, made.roles.pad) == (None, None)
    assert made.roles.ends == frozenset({EOS})


def byte_folder(path: Path, *more: AddedToken, **files: Any) -> TextTokenizer:
    """A folder with bytes, "hi" and these added tokens."""
    made = Backend(models.BPE({each: id for id, each in enumerate(TOKENS[:257])}, [("h", "i")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens(list(more))
    made.save(str(path / "tokenizer.json"))
    for name, table in files.items():
        (path / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")
    return folder_tokenizer(path)


TEMPLATE = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"


def test_a_token_with_a_role_is_special_whatever_the_file_says(tmp_path: Path) -> None:
    tokens = [AddedToken(name, normalized=False) for name in ("<|im_end|>", "<s>", "<m>", "<p>")]
    roles = {"eos_token": "<|im_end|>", "bos_token": "<s>", "mask_token": "<m>", "pad_token": "<p>"}
    found = byte_folder(tmp_path, *tokens, tokenizer_config=roles | {"chat_template": TEMPLATE})
    for name in roles.values():
        text = f"say {name} now"
        (ids,) = found.encode([text])
        assert max(ids) < 257, name
        assert found.decode([ids]) == [text]
    told = found.chat([{"role": "user", "content": "say <|im_end|> now"}])
    assert [id for id in told if id >= 257] == [257] == told[-1:]


def test_a_line_end_that_ends_a_text_is_text_still(tmp_path: Path) -> None:
    line_end = TOKENS.index("Ċ")
    found = byte_folder(tmp_path, generation_config={"eos_token_id": [HI, line_end]})
    assert found.roles.ends == {HI, line_end}
    assert found.decode(found.encode(["hi\nhi"])) == ["hi\nhi"]
