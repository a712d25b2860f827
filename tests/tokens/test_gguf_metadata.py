"""A tokeniser written as GGUF metadata is the same when read; what would not be is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.gguf import CUTS, PROBES, gguf_tokenizer, named_ends
from headway.tokens.gguf_metadata import TEXTS, gguf_metadata
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.text_training import train_text_tokenizer

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = [("1", "2"), ("12", "3"), ("h", "i"), ("Ġ", "hi"), ("Ġ", "1")]
ROLES = Roles(bos=261, ends=frozenset({262, 261}), adds_bos=True, template="{{ messages }}")
KEY = "tokenizer.ggml."
ByteLevel = pre_tokenizers.ByteLevel
CUTTERS: dict[str, Any] = {  # as Hugging Face folders of GPT-2, SmolLM2 and Llama 3 have them
    "gpt-2": ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    ),
    "llama-bpe": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CUTS["llama-bpe"][0]), "isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}


def made(cutter: Any, *, whole: bool = False, roles: Roles = ROLES) -> TextTokenizer:
    tokens = [*LETTERS, *(left + right for left, right in MERGES)]
    vocab = {token: id for id, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab, MERGES, ignore_merges=whole))
    backend.pre_tokenizer, backend.decoder = cutter, decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<s>"), AddedToken("<|end|>")])
    return TextTokenizer(backend, roles, where="tokenizer.json")


@pytest.mark.parametrize("name", CUTTERS)
def test_a_rule_is_known_by_what_it_does(name: str) -> None:
    tokenizer = made(CUTTERS[name], whole=name == "llama-bpe")
    found = gguf_metadata(tokenizer, 265)
    assert found[f"{KEY}pre"] == name
    again = TextTokenizer(gguf_tokenizer(found, "a.gguf"), ROLES)
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert found[f"{KEY}tokens"][261:] == ["<s>", "<|end|>", "[PAD263]", "[PAD264]"]
    assert found[f"{KEY}token_type"][260:] == [1, 3, 3, 5, 5]
    ids = {name: found[f"{KEY}{name}_token_id"] for name in ("bos", "eos", "eot")}
    assert ids == {"bos": 261, "eos": 261, "eot": 262}
    assert found[f"{KEY}add_bos_token"] is True
    assert found["tokenizer.chat_template"] == "{{ messages }}"


@pytest.mark.parametrize(
    "cutter",
    [
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), ByteLevel(add_prefix_space=False)]),
        ByteLevel(add_prefix_space=True),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{N}{1,2}"), "isolated"),
                ByteLevel(add_prefix_space=False),
            ]
        ),
    ],
)
def test_a_rule_without_a_name_is_refused(cutter: Any) -> None:
    with pytest.raises(UserError, match="has no name in GGUF files; those with a name: gpt-2"):
        gguf_metadata(made(cutter), 263)


def test_what_changes_text_before_is_refused() -> None:
    tokenizer = made(CUTTERS["gpt-2"])
    backend = Backend.from_str(tokenizer.to_json())
    backend.normalizer = normalizers.NFC()
    with pytest.raises(UserError, match="GGUF files cannot say how this tokeniser cuts text"):
        gguf_metadata(TextTokenizer(backend, ROLES), 263)
    words = Backend(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    with pytest.raises(UserError, match="of the kind BPE with merges, this one is WordLevel"):
        gguf_metadata(TextTokenizer(words, Roles()), 2)


def test_sentence_pieces_keep_their_order_of_merging() -> None:
    metadata = {
        "model": "llama",
        "tokens": ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b"],
        "add_space_prefix": True,
    }
    metadata["tokens"] += ["ab", "▁ab", "ba"]  # type: ignore[operator]
    metadata["scores"] = [0.0] * 257 + [-9.0, -9.0, -9.0, -2.0, -3.0, -1.0]
    metadata["token_type"] = [2] + [6] * 256 + [1] * 6
    table = {KEY + name: value for name, value in metadata.items()}
    for space in (True, False):
        table[f"{KEY}add_space_prefix"] = space
        tokenizer = TextTokenizer(gguf_tokenizer(table, "a.gguf"), Roles())
        found = gguf_metadata(tokenizer, 263)
        assert found[f"{KEY}add_space_prefix"] is space
        assert found[f"{KEY}token_type"] == metadata["token_type"]
        again = TextTokenizer(gguf_tokenizer(found, "b.gguf"), Roles())
        texts = [*TEXTS, "abab baba", "aba"]
        assert again.encode(texts) == tokenizer.encode(texts)


def test_a_name_that_was_changed_is_noticed() -> None:
    found = gguf_metadata(made(CUTTERS["gpt-2"]), 263)
    with pytest.raises(UserError, match="does not give the ids that it was written with"):
        gguf_tokenizer(found | {f"{KEY}pre": "smollm"}, "a.gguf")


@pytest.mark.parametrize(
    "probes", ["", "{", "[1]", "[[1, 2]]", '[["a"]]', "[" * 10_000, 5, json.dumps([["\ud800", []]])]
)
def test_probes_that_are_none_are_one_message(probes: Any) -> None:
    found = gguf_metadata(made(CUTTERS["gpt-2"]), 263)
    with pytest.raises(UserError, match="not texts with their ids"):
        gguf_tokenizer(found | {PROBES: probes}, "a.gguf")


def test_the_end_that_is_written_stays_the_one_and_the_others_are_kept() -> None:
    ends = Roles(bos=261, ends=frozenset({256, 257, 262}), eos=262)
    found = gguf_metadata(made(CUTTERS["gpt-2"], roles=ends), 263)
    assert [found[f"{KEY}{name}_token_id"] for name in ("eos", "eot", "eom")] == [262, 256, 257]
    many = Roles(ends=frozenset({256, 257, 258, 262}), eos=262)
    with pytest.raises(UserError, match="hold 3 end symbols, this tokeniser has more"):
        gguf_metadata(made(CUTTERS["gpt-2"], roles=many), 263)


def test_what_is_learnt_with_gpt2_s_rule_can_go_there() -> None:
    texts = [*TEXTS, "the cat, the dog; 12 of them"] * 3
    learnt = {
        rule: train_text_tokenizer(TokenizerSettings(size=300, rule=rule), texts, masks=False)
        for rule in ("gpt2", "marks")
    }
    found = gguf_metadata(learnt["gpt2"], 300)
    assert found[f"{KEY}pre"] == "gpt-2"
    again = TextTokenizer(gguf_tokenizer(found, "a.gguf"), learnt["gpt2"].roles)
    long = ["x" * 1000 + " " * 200, "हिन्दी"]
    assert again.encode(long) == learnt["gpt2"].encode(long)
    with pytest.raises(UserError, match="has no name in GGUF files"):
        gguf_metadata(learnt["marks"], 300)


def test_ends_that_are_known_by_name_need_no_key() -> None:
    names = ["<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>"]
    backend = Backend.from_str(made(CUTTERS["gpt-2"]).to_json())
    backend.add_special_tokens([AddedToken(name, normalized=False) for name in names])
    ends = frozenset(range(256, 258)) | frozenset(range(263, 267))
    found = gguf_metadata(TextTokenizer(backend, Roles(ends=ends, eos=265)), 267)
    assert [found[f"{KEY}{name}_token_id"] for name in ("eos", "eot", "eom")] == [265, 256, 257]
    again = named_ends(gguf_tokenizer(found, "a.gguf").token_to_id)
    assert again | {256, 257, 265} == ends | {262}  # "<|end|>" is one of these names too


def test_more_ids_than_rows_are_refused() -> None:
    with pytest.raises(UserError, match=r"has 263 ids, .* only 261 rows: '<s>' \(id 261\) has no"):
        gguf_metadata(made(CUTTERS["gpt-2"]), 261)
