"""Marian folders with SentencePiece models: ids, texts and translations equal transformers."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.marian import settings_of
from headway.runs.marian import start_id
from headway.runs.translator import Translator

sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SYLLABLES = ["ka", "lo", "mi", "ré", "sun", "té", "vor", "ça", "œu", "x"]
TEXTS = [
    "karé lomi sun",
    "Vor-té, 12 ça?",
    "日本 ka  lo",
    "ﬁ ½ ka\u200blo",
    ">>fra<< sunvor mi",
    "a <pad> b",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Marian: two SentencePiece models, a vocabulary in an order of its own, weights."""
    path = tmp_path_factory.mktemp("marian")
    draw = random.Random(1)
    pieces: set[str] = set()
    for side, prefix in (("source", ""), ("target", "o")):
        lines = [
            " ".join(
                prefix + "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) for _ in "abcd"
            )
            for _ in range(400)
        ]
        (path / "text").write_text("\n".join(lines), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(path / "text"),
            model_prefix=str(path / side),
            vocab_size=60,
            bos_id=-1,
            minloglevel=2,
            normalization_rule_name="nmt_nfkc",
        )
        (path / f"{side}.model").rename(path / f"{side}.spm")
        read = sentencepiece.SentencePieceProcessor(str(path / f"{side}.spm"))
        plain = [id for id in range(len(read)) if not (read.is_control(id) or read.is_unknown(id))]
        pieces |= {read.id_to_piece(id) for id in plain}
    write_model(path, write_vocabulary(path, pieces))
    return path


def write_vocabulary(path: Path, pieces: set[str]) -> int:
    """Most of the pieces, in an order of their own; gives how many there are with the specials."""
    draw, ordered = random.Random(2), sorted(pieces - {"▁x", "sun"})
    draw.shuffle(ordered)
    vocabulary = ["</s>", "<unk>", *ordered, ">>fra<<", "<pad>"]
    table = {token: id for id, token in enumerate(vocabulary)}
    (path / "vocab.json").write_text(json.dumps(table), encoding="utf-8")
    return len(vocabulary)


def write_model(path: Path, n_tokens: int) -> None:
    pad = n_tokens - 1
    config = transformers.MarianConfig(
        vocab_size=n_tokens,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        max_position_embeddings=40,
        scale_embedding=True,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.copy_(torch.randn_like(weight) * 0.3)
        model.final_logits_bias[0, [1, pad]] = -1e4  # which Headway never writes
    model.save_pretrained(path)


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    opened = headway.load(folder, device="cpu")
    assert isinstance(opened, Translator)
    return opened


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    with pytest.warns(UserWarning, match="sacremoses"):
        return transformers.MarianTokenizer.from_pretrained(folder)


def test_texts_have_the_same_ids(translator: Translator, theirs: Any) -> None:
    texts = TEXTS[:-1]  # to them a text can spell a special token
    assert translator.tokenizers.source.encode(texts) == theirs(texts).input_ids
    assert translator.tokenizers.target.encode(texts) == theirs(text_target=texts).input_ids
    (ids,) = translator.tokenizers.source.encode(TEXTS[-1:])
    assert not {translator.tokenizers.source.pad, 0} & set(ids[:-1])


def test_ids_have_the_same_texts(translator: Translator, theirs: Any) -> None:
    rows = torch.randint(2, 60, (20, 9), generator=torch.Generator().manual_seed(1)).tolist()
    rows.append(translator.tokenizers.source.encode(TEXTS[:1])[0])
    wanted = theirs.batch_decode(rows, skip_special_tokens=True)
    assert translator.tokenizers.target.decode(rows) == wanted
    assert wanted[-1] == TEXTS[0]


def test_translations_are_the_same(translator: Translator, theirs: Any, folder: Path) -> None:
    model = transformers.MarianMTModel.from_pretrained(folder)
    for text in TEXTS[:3]:
        given = theirs([text], return_tensors="pt")
        limit = min(2 * given.input_ids.shape[1] + 10, 40)
        (wanted,) = model.generate(**given, num_beams=1, do_sample=False, max_new_tokens=limit)
        (ours,) = translator.translate([text], beam=1)
        assert ours == theirs.decode(wanted, skip_special_tokens=True)


def test_unknown_words_and_their_places_are_told(translator: Translator) -> None:
    source = translator.tokenizers.source
    ((_, unknown),) = source.cut(["ka 日 lo"])
    assert "日" in unknown
    for text, spans in zip(TEXTS[:2], source.spans(TEXTS[:2]), strict=True):
        assert spans[-1] == (0, 0)
        assert "".join(text[begin:end] for begin, end in spans).replace(" ", "") == text.replace(
            " ", ""
        )
    alignment = translator.attention("karé lomi", "oka omi")
    assert alignment.weights.shape == (len(alignment.target), len(alignment.source))


def test_the_command_line_takes_it(cli: Any, folder: Path, translator: Translator) -> None:
    said = cli("translate", folder, "--beam", 2, stdin="karé lomi sun\n".encode())
    assert said.out.decode().strip() == translator.translate(["karé lomi sun"], beam=2)[0]
    assert "no test part" in cli("evaluate", folder).error


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("source.spm", b"no model", r"source\.spm: not a SentencePiece model"),
        ("source.spm", None, r"there is no source\.spm"),
        ("vocab.json", b"[1]", "not a table of tokens with their ids"),
        ("vocab.json", b'{"a": 1}', "there is no '<unk>' in its vocabulary"),
        ("vocab.json", None, "there is no such file"),
    ],
)
def test_what_is_wrong_is_one_message(
    folder: Path, tmp_path: Path, file: str, content: bytes | None, told: str
) -> None:
    shutil.copytree(folder, tmp_path / "a")
    (tmp_path / "a" / file).unlink()
    if content is not None:
        (tmp_path / "a" / file).write_bytes(content)
    with pytest.raises(UserError, match=told):
        headway.load(tmp_path / "a")


@pytest.mark.parametrize("start", [-1, 9999, 2**40])
def test_a_start_that_the_model_has_no_row_for_is_one_message(
    folder: Path, tmp_path: Path, start: int, cli: Any
) -> None:
    shutil.copytree(folder, tmp_path / "a")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["decoder_start_token_id"] = start
    (tmp_path / "a" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    told = f"'decoder_start_token_id' is {start}; its target has the ids 0 to "
    said = cli("translate", tmp_path / "a", stdin=b"ka\n")
    assert (said.code, told in said.error) == (2, True)
    for format in ("hf", "ctranslate2"):
        with pytest.raises(UserError, match=told):
            headway.export(tmp_path / "a", tmp_path / "b", format=format)


def test_the_ids_of_a_start_are_those_of_the_target() -> None:
    """A source of more ids than the target makes none of the latter."""
    two = {"vocab_size": 50, "decoder_vocab_size": 9}
    assert start_id(Config(two | {"decoder_start_token_id": 8}, "config.json")) == 8
    with pytest.raises(UserError, match="is 9; its target has the ids 0 to 8"):
        start_id(Config(two | {"decoder_start_token_id": 9}, "config.json"))


def test_exports_go_along_with_the_models_of_sentencepiece(folder: Path, tmp_path: Path) -> None:
    headway.export(folder, tmp_path / "a", format="hf", verify=True)
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (tmp_path / "a" / name).read_bytes() == (folder / name).read_bytes()
    again = headway.load(tmp_path / "a")
    assert isinstance(again, Translator)
    pytest.importorskip("ctranslate2")
    headway.export(tmp_path / "a", tmp_path / "b", format="ctranslate2", verify=True)
    assert (tmp_path / "b" / "source.spm").exists()


def test_a_length_that_a_config_leaves_out_is_transformers_s() -> None:
    table = transformers.MarianConfig().to_dict()
    wanted = table.pop("max_position_embeddings")
    assert settings_of(Config(table, "config.json")).max_length == wanted
