"""Exports that nothing could open, or that --verify held against a folder's own way to generate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.models.build import build_decoder
from headway.runs.export import write_portable
from headway.runs.portable import Portable
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.sides import Sides
from headway.tokens.text import Roles, TextTokenizer

N_TOKENS = 264
SETTINGS = DecoderSettings(
    **PRESETS["smollm2-135m"]
    | {"n_layers": 2, "d_model": 64, "d_feed_forward": 96, "n_heads": 4, "n_kv_heads": 2}
    | {"max_length": 64}
)


def tokenizer() -> TextTokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: id for id, token in enumerate([*letters, "hi", "Ġhi", "12"])}
    made = Backend(models.BPE(vocab, [("h", "i"), ("Ġ", "hi"), ("1", "2")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    return TextTokenizer(made, Roles(bos=259, pad=260, ends=frozenset({260})))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = build_decoder(SETTINGS, n_tokens=N_TOKENS, seed=3)
    portable = Portable.of_text_model(model, SETTINGS, tokenizer())
    write_portable(portable, tmp_path / "llama", format="hf")
    return tmp_path / "llama"


def change(path: Path, work: Callable[[dict[str, Any]], object]) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    work(table)
    path.write_text(json.dumps(table), encoding="utf-8")


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_tokeniser_with_more_ids_than_rows_is_refused(
    folder: Path, tmp_path: Path, rows: int
) -> None:
    """As where tokens were added and the embedding was not made larger."""
    made = Backend.from_file(str(folder / "tokenizer.json"))
    made.add_tokens([f"<more{n}>" for n in range(rows)])
    made.save(str(folder / "tokenizer.json"))
    if rows <= 3:  # there were 261 ids
        headway.export(folder, tmp_path / "a.gguf", format="gguf")
        assert headway.load(tmp_path / "a.gguf", device="cpu").tokenizer.token(261) == "<more0>"
        return
    told = (
        r"tokenizer\.json: the tokeniser has 265 ids, .* 264 rows: '<more3>' \(id 264\) has no row"
    )
    with pytest.raises(UserError, match=told):
        headway.export(folder, tmp_path / "a.gguf", format="gguf")
    assert {path.name for path in tmp_path.iterdir()} == {"llama"}


@pytest.mark.parametrize("side", ["source", "target"])
def test_so_is_that_of_a_translator_s_side(
    trained: Callable[[str], Path], tmp_path: Path, side: str
) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    portable = Portable.open(trained("transformer"))
    assert portable.sides is not None

    class Larger:
        """The tokeniser of a side with an id more."""

        def __init__(self, of: Any) -> None:
            self.of = of

        def __len__(self) -> int:
            return len(self.of) + 1

        def pieces(self, _ids: Any) -> list[str]:
            return ["<more>"]

        def tokens(self) -> list[str]:
            return [*self.of.tokens(), "<more>"]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.of, name)

    sides = {name: getattr(portable.sides, name) for name in ("source", "target")}
    larger: Any = Sides(**sides | {side: Larger(sides[side])})
    with pytest.raises(UserError, match=f"{side} embedding: .* '<more>' "):
        write_portable(replace(portable, sides=larger), tmp_path / "a", format="ctranslate2")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_s_own_way_to_generate_is_not_the_model_s(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    settings = {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "min_new_tokens": 5,
        "suppress_tokens": list(range(2, N_TOKENS)),
    }
    for name, value in settings.items():
        change(
            folder / "generation_config.json", lambda table, n=name, v=value: table.update({n: v})
        )
        found = headway.export(folder, tmp_path / name, format="hf", verify=True)
        assert found is not None
        assert found.tokens > 4
        kept = json.loads((tmp_path / name / "generation_config.json").read_text(encoding="utf-8"))
        assert kept[name] == value


@pytest.fixture
def unknown_rule(tmp_path: Path) -> Path:
    """A file whose rule of cutting has a name that Headway does not know."""
    model = build_decoder(SETTINGS, n_tokens=N_TOKENS, seed=3)
    metadata = gguf_metadata(tokenizer(), N_TOKENS) | {"tokenizer.ggml.pre": "my-own"}
    del metadata["headway.tokenizer.probes"]
    write_gguf(tmp_path / "own.gguf", model, SETTINGS, metadata, storage="F32")
    return tmp_path / "own.gguf"


def test_a_rule_can_be_named_in_place_of_the_file_s(
    unknown_rule: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    said = cli("import", unknown_rule, tmp_path / "a")
    assert said.code == 2
    assert "unknown tokenizer.ggml.pre 'my-own'" in said.error
    assert "headway import FILE DST --pre NAME" in said.error
    text, cut = "12 hi", {}
    for pre in ("gpt-2", "smollm"):
        said = cli("import", unknown_rule, tmp_path / pre, "--pre", pre)
        assert said.code == 0, said
        cut[pre] = headway.load(tmp_path / pre, device="cpu").tokenizer.encode([text])
    assert cut["gpt-2"] == tokenizer().encode([text]) != cut["smollm"]
    headway.export(unknown_rule, tmp_path / "b", format="hf", pre="gpt-2")
    again = headway.load(tmp_path / "b", device="cpu")
    assert again.tokenizer.encode([text]) == cut["gpt-2"]


def test_what_no_rule_can_be_named_for_is_one_message(
    folder: Path, unknown_rule: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="pre: unknown pre 'gpt2'; did you mean 'gpt-2'"):
        headway.export(unknown_rule, tmp_path / "a", format="hf", pre="gpt2")
    with pytest.raises(UserError, match="pre: only GGUF files name the rule"):
        headway.export(folder, tmp_path / "a", format="hf", pre="gpt-2")
    assert {path.name for path in tmp_path.iterdir()} == {"llama", "own.gguf"}
