"""Documents that are nearly the same as one before: found, counted, left out."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.data.documents import DocumentStream, document_streams
from headway.data.near import NearSeen
from headway.settings.documents import DocumentSettings

datasketch = pytest.importorskip("datasketch", reason="datasketch is not installed")


def words(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [f"w{draw.randrange(5000)}" for _ in range(n)]


def varied(text: list[str], every: int) -> list[str]:
    """Every so many words another one."""
    return [f"x{n}" if n % every == every - 1 else word for n, word in enumerate(text)]


def jaccard(one: list[str], other: list[str]) -> float:
    runs = [{tuple(text[n : n + 5]) for n in range(len(text) - 4)} for text in (one, other)]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def lines(path: Path, texts: list[str], **table: Any) -> DocumentStream:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    source = {"files": str(path), "document": "line"}
    settings = {"kind": "documents", "train": {"it": source}, "duplicates": "near", **table}
    return document_streams(DocumentSettings.model_validate(settings), "train")["it"]


def test_what_is_nearly_the_same_is_left_out_and_counted(tmp_path: Path) -> None:
    base = words(400, 1)
    near, far = varied(base, 100), varied(base, 12)
    assert jaccard(base, near) > 0.9
    assert jaccard(base, far) < 0.5
    texts = [" ".join(each) for each in (base, near, far, words(400, 2), base)]
    texts.append(texts[0].upper() + "  ")
    stream = lines(tmp_path / "a.txt", texts)
    assert [text.strip() for text in stream.texts()] == [texts[0], texts[2], texts[3]]
    assert {each.kind: (each.count, each.dropped) for each in stream.notes.found.values()} == {
        "nearly the same as one before": (2, True),
        "seen before": (1, True),
    }
    first = stream.digest()
    list(stream.texts())
    assert stream.digest() == first


def test_it_is_a_function_of_the_texts_and_their_order() -> None:
    base = words(300, 1)
    texts = [" ".join(each) for each in (base, varied(base, 200), varied(base, 150), words(300, 3))]

    def kept(order: list[int]) -> list[int]:
        seen = NearSeen("here")
        return [place for place in order if not seen.add(texts[place])]

    assert kept([0, 1, 2, 3]) == kept([0, 1, 2, 3]) == [0, 3]
    assert kept([2, 1, 0, 3]) == [2, 3]


def test_most_pairs_above_the_border_are_found_and_few_below() -> None:
    found: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(40):
        base = words(300, seed)
        for every in (110, 14):
            other = varied(base, every)
            seen = NearSeen("here")
            seen.add(" ".join(base))
            found[jaccard(base, other) >= 0.8].append(seen.add(" ".join(other)))
    assert len(found[True]) == len(found[False]) == 40
    assert sum(found[True]) >= 38
    assert sum(found[False]) == 0


def test_pairs_close_above_the_border_are_found() -> None:
    """What shares no bucket is never compared: they must be narrow enough."""
    found = []
    for seed in range(40):
        base = words(400, seed)
        other = varied(base, 57)
        assert 0.84 < jaccard(base, other) < 0.86
        seen = NearSeen("here")
        seen.add(" ".join(base))
        found.append(seen.add(" ".join(other)))
    assert sum(found) >= 34


def test_short_texts_are_compared_whole(tmp_path: Path) -> None:
    stream = lines(tmp_path / "a.txt", ["one two", "One  two", "one three", "one"])
    assert [text.strip() for text in stream.texts()] == ["one two", "one three", "one"]


def test_without_the_package_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = lines(tmp_path / "a.txt", ["one"])
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(UserError, match=r"pip install 'headway\[near\]'"):
        list(stream.texts())


def test_what_is_nearly_the_same_as_a_held_out_document_is_not_learnt(tmp_path: Path) -> None:
    texts = [" ".join(words(200, seed)) for seed in range(80)]
    near = [" ".join(varied(text.split(), 150)) for text in texts]
    path = tmp_path / "a.txt"
    train = lines(path, texts + near, held_out=0.1)
    settings = DocumentSettings.model_validate(
        {
            "kind": "documents",
            "train": {"it": {"files": str(path), "document": "line"}},
            "duplicates": "near",
            "held_out": 0.1,
        }
    )
    held = [text.strip() for text in document_streams(settings, "valid")["it"].texts()]
    learnt = {text.strip() for text in train.texts()}
    pairs = dict(zip(texts + near, near + texts, strict=True))
    assert len(held) > 3
    assert not learnt & {pairs[text] for text in held}
