from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from headway.base.errors import UserError
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.tokenizer import Tokenizer
from headway.tokens.training import SmallVocabulary, train_tokenizer

KINDS = ("character", "word", "bpe", "wordpiece")


def corpus() -> list[str]:
    """Many words and pairs of equal frequency, so that every choice is a tie."""
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyzéèàçœ"
    words = ["".join(rng.choice(letters) for _ in range(rng.randint(2, 8))) for _ in range(300)]
    return [" ".join(words[i : i + 3]) + ", 3 < 14 </s>" for i in range(0, 300, 2)]


def learn(kind: str, texts: list[str], size: int = 500, **more: object) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_tokenizer(TokenizerSettings(kind=kind, size=size, **more), texts)


def digests(texts: list[str]) -> list[str]:
    return [hashlib.sha256(learn(kind, texts).to_json().encode()).hexdigest() for kind in KINDS]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return digests(corpus())


def test_order_of_the_texts_does_not_matter(expected: list[str]) -> None:
    """C6: 20 trainings of each kind, each in another order."""
    texts = corpus()
    for seed in range(20):
        random.Random(seed).shuffle(texts)
        assert digests(texts) == expected, seed


def test_workers_and_hash_seed_do_not_matter(expected: list[str]) -> None:
    started = []
    for workers, seed in ((1, 0), (2, 1), (8, 2)):
        parallel = {"RAYON_NUM_THREADS": str(workers), "TOKENIZERS_PARALLELISM": str(workers > 1)}
        environment = os.environ | parallel | {"PYTHONHASHSEED": str(seed)}
        command = [sys.executable, __file__]
        started.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8")
        )
    for process in started:
        printed, _ = process.communicate(timeout=120)
        assert json.loads(printed) == expected


def test_ties_go_to_the_smaller_code_point() -> None:
    for kind, text in (("character", "dcab"), ("word", "d c a b")):
        tokenizer = learn(kind, [text], size=6)
        assert [piece.strip("▁") for piece in tokenizer.pieces([4, 5])] == ["a", "b"]


def test_wordpiece_learns_what_its_counts_say() -> None:
    """The words are counted here and learned there: 2500 times "ab" must outweigh "cd" and "ef"."""
    texts = ["ab"] * 2500 + ["cd"] * 1001 + ["ef"] * 1000
    letters = 4 + 6 + 3
    assert learn("wordpiece", texts, size=letters + 1).pieces([letters]) == ["ab"]
    assert learn("wordpiece", texts, size=letters + 2).pieces([letters + 1]) == ["cd"]
    assert learn("wordpiece", texts, min_count=1001).unknowns(["cd ef"]) == (0.5, {"ef": 1})


def test_wordpiece_counts_the_same_however_often_it_settles(
    expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.tokens.training._DISTINCT", 10)
    assert (
        hashlib.sha256(learn("wordpiece", corpus()).to_json().encode()).hexdigest()
        == expected[KINDS.index("wordpiece")]
    )


@pytest.mark.parametrize("kind", ["character", "word"])
def test_size_and_count_cut_off_the_rare(kind: str) -> None:
    texts = ["a a a b b c"]
    space = kind == "character"  # which is the most frequent character
    by_size = learn(kind, texts, size=4 + 2 + space)
    assert len(by_size) == 6 + space
    assert by_size.unknowns(["a b c"])[1] == {"c": 1}
    by_count = learn(kind, texts, min_count=3)
    assert by_count.unknowns(["a b c"])[1] == {"b": 1, "c": 1}


def test_bpe_merges_only_what_is_seen_often_enough() -> None:
    assert len(learn("bpe", ["abab"], min_count=3)) == 260
    assert len(learn("bpe", ["ababab"], min_count=3)) == 261


def test_bytes_alone_are_learnt_without_reading_on() -> None:
    """There is no room for a merge, and to count the words of a large text takes long."""

    def texts() -> Iterator[str]:
        yield "abab"
        raise AssertionError("it was read on")

    bytes_alone = train_tokenizer(TokenizerSettings(kind="bpe", size=260), texts())
    unmerged = learn("bpe", ["abab"], min_count=3)
    assert bytes_alone.to_json() == unmerged.to_json()


@pytest.mark.parametrize("kind", KINDS)
def test_larger_than_the_data_shrinks_with_a_warning(kind: str) -> None:
    settings = TokenizerSettings(kind=kind, size=4321)
    with pytest.warns(SmallVocabulary, match="not of 4321") as caught:
        tokenizer = train_tokenizer(settings, ["some little text"])
    assert f"a vocabulary of {len(tokenizer)}," in str(caught[0].message)
    assert caught[0].filename == __file__
    assert len(tokenizer) < 4321
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_tokenizer(settings.model_copy(update={"size": len(tokenizer)}), ["some little text"])


@pytest.mark.parametrize(
    ("kind", "least"), [("character", 5), ("word", 5), ("bpe", 260), ("wordpiece", 4 + 5 + 3)]
)
def test_too_small_a_size_names_the_least(kind: str, least: int) -> None:
    texts = ["abcd", "abc", "e"]
    with pytest.raises(UserError, match=rf"tokenizer\.size: .* at least {least}$"):
        learn(kind, texts, size=least - 1)
    assert len(learn(kind, texts, size=least)) == least


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_is_an_error(kind: str, texts: list[str]) -> None:
    with pytest.raises(UserError, match="there is no text"):
        learn(kind, texts)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("character", "abc"),
        ("word", "a b c"),
        ("wordpiece", "a b c"),
        ("wordpiece", "x" * 101 + "\t"),
    ],
)
def test_nothing_that_passes_the_cut_off_is_an_error(kind: str, text: str) -> None:
    with pytest.raises(UserError, match="nothing in the text can be learned"):
        learn(kind, [text], min_count=2)


def test_a_long_text_loses_nothing() -> None:
    """A text is learned from in parts, which must be the whole text: each character occurs once."""
    ideographs = "".join(map(chr, range(0x4E00, 0x9FFF)))
    for text in (ideographs, ideographs[:9_000] + " " + ideographs[9_000:]):
        assert len(learn("character", [text], size=30_000)) == 4 + len(text)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_reader_comes_through(kind: str) -> None:
    def broken() -> Iterator[str]:
        yield "fine"
        raise UserError("not UTF-8", where="data.fr:2")

    with pytest.raises(UserError, match=r"data\.fr:2: not UTF-8"):
        train_tokenizer(TokenizerSettings(kind=kind), broken())


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_surrogate_pair_is_an_error(kind: str) -> None:
    with pytest.raises(UserError, match="not valid Unicode"):
        learn(kind, ["fine", "a\ud800"])


def measure(kind: str) -> tuple[float, int]:
    """Growth of the peak memory in MB and the longest piece, for a line of 1 MB without a space."""
    import resource

    def peak() -> float:
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

    line = random.Random(0).randbytes(500_000).translate(bytes(97 + i % 7 for i in range(256)))
    texts = [line.decode() + "a" * 500_000, "some words"]
    before = peak()
    tokenizer = learn(kind, texts, size=300)
    return peak() - before, max(map(len, tokenizer.pieces(range(len(tokenizer)))))


@pytest.mark.parametrize("kind", KINDS)
def test_one_long_line_without_a_space_stays_small(kind: str) -> None:
    """C7: uncut, the library alone would take 16 bytes a character several times over."""
    command = [sys.executable, __file__, kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    megabytes, longest = json.loads(done.stdout)
    print(kind, megabytes, longest)
    assert megabytes < 64
    assert longest <= 65


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1]) if sys.argv[1:] else digests(corpus())))
