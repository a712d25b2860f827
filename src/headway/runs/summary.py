"""The end of a run: its score on the test part, its samples and pictures, its report."""

from __future__ import annotations

from dataclasses import replace

from headway.base.progress import say
from headway.base.runtime import processor
from headway.checkpoint.run import RunFolder
from headway.data.pairs import Pairs
from headway.evaluate.translation import LengthScores, TranslationScores
from headway.lens.alignment import Alignment
from headway.runs.evaluate import evaluate_pairs
from headway.runs.report import write_report
from headway.runs.report_parts import RunReport
from headway.runs.translator import Translator
from headway.settings.kinds import TranslationRecipe

SAMPLES = 8
ALIGNED_WORDS = (4, 12)  # words of the sources whose alignments are drawn: short enough to read


def summarise(folder: RunFolder, translator: Translator, pairs: Pairs | None, *, part: str) -> None:
    """Judge the translator on `pairs`, add the record to the log, write report.html.

    `part` says which part of the data the pairs are: the weights were chosen on "valid".
    """
    records = [record for record in folder.metrics.read() if record["kind"] != "test"]
    if pairs is not None:
        found = evaluate_pairs(translator, pairs, progress=True)
        step = max((record["step"] for record in records), default=0)
        test = {
            "kind": "test",
            "step": step,
            "part": part,
            **found.to_table(),
            "beam": translator.recipe.evaluate.beam,
            "samples": found.samples(SAMPLES),
        }
        records.append(test)
        say(
            f"{part}: BLEU {found.scores.bleu:.1f}  chrF {found.scores.chrf:.1f}  "
            f"exact match {found.scores.exact_match:.1f} %  ({found.scores.signature})"
        )
    folder.metrics.keep(records)
    report = run_report(folder, translator)
    write_report(folder.path / "report.html", folder.path.name, [report])


def run_report(folder: RunFolder, translator: Translator) -> RunReport:
    """What a report shows of a run, from its log and its model."""
    logged = logged_report(folder)
    return replace(
        logged,
        alignments=_alignments(translator, [sample["source"] for sample in logged.samples]),
        facts=_facts(translator, logged.metrics),
    )


def logged_report(folder: RunFolder) -> RunReport:
    """What the log alone says of a run."""
    records = folder.metrics.read()
    test = next((record for record in records if record["kind"] == "test"), None)
    return RunReport(
        name=folder.path.name,
        metrics=records,
        scores=_scores(test) if test and "by_length" in test else None,
        samples=test.get("samples", []) if test else [],
    )


def _scores(test: dict[str, object]) -> TranslationScores:
    names = ("n", "bleu", "chrf", "exact_match", "signature", "chrf_signature")
    by_length = test["by_length"]
    assert isinstance(by_length, list)
    return TranslationScores(
        **{name: test[name] for name in names},  # type: ignore[arg-type]
        by_length=[LengthScores(**bucket) for bucket in by_length],
    )


def _alignments(translator: Translator, sources: list[str]) -> list[Alignment]:
    if not translator.model.alignment_taps():
        return []
    low, high = ALIGNED_WORDS
    chosen = [source for source in sources if low <= len(source.split()) <= high]
    return [translator.attention(source) for source in (chosen or sources)[:2]]


def _facts(translator: Translator, records: list[dict[str, object]]) -> dict[str, str]:
    last = next((record for record in reversed(records) if record["kind"] == "train"), None)
    test = next((record for record in records if record["kind"] == "test"), None)
    facts = {"parameters": f"{translator.n_parameters:,}"}
    if test is not None:
        facts["scored on"] = f"the {test['part']} part"
    if last is not None:
        tokens, seconds = float(str(last["tokens"])), float(str(last["seconds"]))
        facts |= {
            "steps": f"{last['step']:,}",
            "training": f"{seconds:,.0f} s",
            "speed": f"{tokens / max(seconds, 1e-9):,.0f} target tokens/s",
        }
    if isinstance(translator.recipe, TranslationRecipe):
        facts["precision"] = translator.recipe.train.dtype
    return {**facts, "device": str(translator.device), "machine": processor()}
