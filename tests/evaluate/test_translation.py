from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.evaluate.translation import score_translations

REFERENCES = [
    "Tuesday, March 14, 2017 at 6:05 PM",
    "three hours and twenty minutes",
    "Swedish Krona, Japanese Yen, and Côte d’Ivoire",
    'It\'s "quoted" & costs €1,234.50 (about).',
    "",
    "SOUTH AFRICA",
]
TRANSLATIONS = [
    "Tuesday, March 14, 2017 at 6:05 PM",
    "three hours and thirty minutes",
    "Swedish Krona, Japanese Yen, and Ivory Coast  ",
    "It's quoted & costs €1,234.05 (about)!",
    "",
    "South Africa",
]
SOURCES = ["un deux", "trois", "a b c d e f g h", "a b c d e f g h i", "", " ".join("x" * 33)]


def command(tmp_path: Path, *options: str) -> list[dict[str, object]]:
    """What sacreBLEU's own command prints for the texts above."""
    (tmp_path / "ref").write_text("".join(f"{x}\n" for x in REFERENCES), encoding="utf-8")
    (tmp_path / "hyp").write_text("".join(f"{x}\n" for x in TRANSLATIONS), encoding="utf-8")
    call = [sys.executable, "-X", "utf8", "-m", "sacrebleu", "ref", "-i", "hyp", "-w", "10"]
    call += ["-m", "bleu", "chrf", "--format", "json", *options]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("lowercase", [False, True])
def test_corpus_scores_are_those_of_the_sacrebleu_command(tmp_path: Path, lowercase: bool) -> None:
    bleu, chrf = command(tmp_path, *(["-lc", "--chrf-lowercase"] if lowercase else []))
    ours = score_translations(SOURCES, TRANSLATIONS, REFERENCES, lowercase=lowercase)
    assert round(ours.bleu, 10) == bleu["score"]
    assert round(ours.chrf, 10) == chrf["score"]
    assert ours.signature == bleu["signature"]
    assert ours.chrf_signature == chrf["signature"]


def test_exact_match_counts_equal_strings_and_case_on_request() -> None:
    plain = score_translations(SOURCES, TRANSLATIONS, REFERENCES)
    lower = score_translations(SOURCES, TRANSLATIONS, REFERENCES, lowercase=True)
    assert plain.exact_match == pytest.approx(100 * 2 / 6)
    assert lower.exact_match == pytest.approx(100 * 3 / 6)


def test_buckets_end_inclusively_and_empty_ones_are_left_out() -> None:
    scores = score_translations(SOURCES, TRANSLATIONS, REFERENCES)
    shape = [(part.low, part.high, part.n) for part in scores.by_length]
    assert shape == [(1, 8, 4), (9, 16, 1), (33, None, 1)]  # nothing of 17 to 32 words
    assert scores.by_length[0].exact_match == 50.0
    alone = score_translations(SOURCES[3:4], TRANSLATIONS[3:4], REFERENCES[3:4])
    assert scores.by_length[1].bleu == alone.bleu
    assert scores.by_length[1].chrf == alone.chrf


def test_table_is_json_with_every_field() -> None:
    table = score_translations(SOURCES, TRANSLATIONS, REFERENCES).to_table()
    again = json.loads(json.dumps(table))
    assert again == table
    assert {"n", "bleu", "chrf", "exact_match", "signature", "by_length"} <= set(table)
    assert table["by_length"][-1]["high"] is None


def test_unequal_numbers_name_both_and_where_the_texts_part() -> None:
    references = ["one two", "three four", "five six", "seven eight"]
    with pytest.raises(UserError, match=r"3 translations for 4 references.*line 2"):
        score_translations(["a"] * 4, ["one two", "five six", "seven eight"], references)
    with pytest.raises(UserError, match="2 sources for 1 references"):
        score_translations(["a", "b"], ["one"], ["one"])
    with pytest.raises(UserError, match="nothing to score"):
        score_translations([], [], [])


@pytest.mark.parametrize("text", ["un@@ believable", "end@@", "▁the ▁end", "play ##ing"])
def test_subword_marks_are_warned_about(text: str) -> None:
    with pytest.warns(UserWarning, match="line 2: subword mark"):
        score_translations(["a", "b"], ["fine", text], ["fine", "fine"])


@pytest.mark.parametrize("text", ["the end .", "yes , no", "it &apos;s", "they do n't"])
def test_tokenised_text_is_warned_about(text: str) -> None:
    with pytest.warns(UserWarning, match="look pre-tokenised"):
        score_translations(["a", "b"], ["fine", text], ["fine", "fine"])


def test_text_as_people_write_it_gives_no_warning() -> None:
    french = ["Qui est là ? Moi ! Oui : moi ; « toi »", "1 234,5 €", "## titre", "a.m. et p.m."]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_translations(["a"] * 4, french, french)
        score_translations(["a"] * 20, ["fine"] * 20, ["odd , but rare", *["fine"] * 19])


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("今天天气很好，我们去公园。", "zh"),
        ("今日は天気がいいですね", "char"),
        ("오늘은 날씨가 좋습니다", "char"),
        ("The word 好 means good, as everybody knows", "13a"),
    ],
)
def test_tokeniser_follows_the_script_and_is_in_the_signature(text: str, tokenizer: str) -> None:
    scores = score_translations(["a"], [text], [text])
    assert f"tok:{tokenizer}" in scores.signature
    assert scores.bleu == pytest.approx(100.0)


def test_sacrebleu_is_imported_only_to_score() -> None:
    code = "import sys, headway.evaluate.translation; sys.exit('sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
