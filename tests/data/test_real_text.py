"""Multi30k as it circulates: gzip files of captions, under HEADWAY_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.data.lines import ODD, read_lines
from headway.data.pairs import Pairs, read_pairs
from headway.settings.tokenizer import PairTokenizerSettings
from headway.tokens.training import train_tokenizer

DATA = os.environ.get("HEADWAY_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="HEADWAY_DATA names no folder of real data")
COUNTS = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000, "test_2017_flickr": 1_000}


def part(name: str) -> Pairs:
    folder = Path(DATA or "") / "multi30k"
    return read_pairs(str(folder / f"{name}.en.gz"), str(folder / f"{name}.fr.gz"))


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_every_pair_is_read(name: str, count: int) -> None:
    pairs = part(name)
    assert len(pairs) == count
    assert pairs.notices == ()
    assert not any(map(ODD.search, pairs.sources))


def test_a_plain_copy_reads_the_same(tmp_path: Path) -> None:
    pairs = part("val")
    plain = tmp_path / "val.en"
    plain.write_text("\r\n".join(pairs.sources) + "\r\n", encoding="utf-8-sig", newline="")
    assert read_lines(plain) == pairs.sources


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_captions_come_back_from_their_ids(kind: str) -> None:
    train, unseen = part("val"), part("test_2016_flickr")
    settings = PairTokenizerSettings.model_validate({"kind": kind, "size": 5000, "joint": True})
    tokenizer = train_tokenizer(settings, train.texts())
    texts = list(unseen.texts())
    back = tokenizer.decode(tokenizer.encode(texts))
    known = [not tokenizer.unknowns([text])[1] for text in texts]
    same = [one == other for one, other in zip(texts, back, strict=True)]
    assert all(same[index] for index, is_known in enumerate(known) if is_known)
    assert sum(known) > {"bpe": 1999, "word": 300, "character": 1900}[kind]
