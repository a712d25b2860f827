"""Translate the test sets of Multi30k and score them in two ways: sacreBLEU's and the papers'.

    .venv-bench/bin/python benchmarks/moses.py runs/tiny --json scores.json

sacreBLEU (lower-cased, its own tokens) is what to compare by. Papers on Multi30k score the text as
the data set's authors tokenised it: lower-cased, punctuation normalised, split by Moses' rules,
which part "l'" from its noun; that gives some points more. Both are made of the same translations.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from sacrebleu import corpus_bleu
from sacremoses import MosesPunctNormalizer, MosesTokenizer

import headway
from headway.base.files import to_json, write_atomic
from headway.data.lines import read_lines
from headway.runs.translator import Translator

SETS = ("test_2016_flickr", "test_2017_flickr")


def moses(texts: list[str], language: str) -> list[str]:
    """Lower-cased, with plain punctuation, tokens parted by spaces."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [
        str(tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True))
        for text in texts
    ]


def scores(translator: Translator, folder: Path, name: str, beam: int) -> dict[str, Any]:
    """BLEU of one test set, twice."""
    data = translator.recipe.data
    sources, references = (
        read_lines(folder / f"{name}.{language}.gz")
        for language in (data.source_language, data.target_language)
    )
    translations = translator.translate(sources, beam=beam)
    plain = corpus_bleu(translations, [references], lowercase=True)
    tokens, wanted = (moses(texts, data.target_language) for texts in (translations, references))
    by_moses = corpus_bleu(tokens, [wanted], tokenize="none", force=True)
    return {
        "n": len(sources),
        "beam": beam,
        "bleu_lowercased": round(plain.score, 2),
        "bleu_moses_lowercased": round(by_moses.score, 2),
        "length_ratio": round(plain.sys_len / plain.ref_len, 4),
    }


def main() -> None:
    """Score the sets that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(os.environ["HEADWAY_DATA"]) / "multi30k"
    translator = headway.load(arguments.run)
    found = {name: scores(translator, folder, name, arguments.beam) for name in SETS}
    write_atomic(arguments.json, to_json(found))
    for name, each in found.items():
        print(name, each)


if __name__ == "__main__":
    main()
