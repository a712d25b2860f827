"""A look at a part of a recipe's data, as a training would see it, without training a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.base.errors import UserError, visible
from headway.base.files import refuse_same
from headway.data.notes import Finding
from headway.data.pair_stream import Block
from headway.data.pairs import open_part
from headway.data.report import PreparationReport, SideReport, lengths_label
from headway.data.rows import expand
from headway.data.tables import PartName
from headway.runs.beginning import begin
from headway.runs.encoding import Encoding
from headway.runs.prepare import longest
from headway.runs.preview_rows import RowPreview, preview_rows, refuse_part
from headway.runs.tokenizers import Tokenizers
from headway.settings.kinds import TranslationRecipe

_BAR = 24  # characters of the longest bar


@dataclass(frozen=True)
class Preview:
    """The report on a part, and its first pairs as text and as pieces."""

    report: PreparationReport
    first: Block
    pieces: tuple[list[list[str]], list[list[str]]]  # of the sources and of the targets

    def to_table(self) -> dict[str, Any]:
        """As JSON can hold it."""
        columns = zip(*self.first, *self.pieces, strict=True)
        names = ("line", "source", "target", "source_pieces", "target_pieces")
        pairs = [dict(zip(names, column, strict=True)) for column in columns]
        return {**self.report.to_table(), "pairs": pairs}

    def __rich__(self) -> RenderableType:
        """For a terminal."""
        parts: list[RenderableType] = [_heading(self.report)]
        for title, findings in (
            ("left out", self.report.dropped),
            ("kept, but look at them", self.report.noticed),
        ):
            if findings:
                parts.append(_findings(title, findings, self.report.read))
        parts += [_sides(self.report), _lengths(self.report), self._pairs()]
        return Group(*parts)

    def _pairs(self) -> Table:
        table = _table("the first pairs")
        for name in ("line", "", "text", "pieces"):
            table.add_column(name, justify="right" if name == "line" else "left")
        languages = self.report.source.language, self.report.target.language
        for index, number in enumerate(self.first.numbers):
            for side, texts in enumerate((self.first.sources, self.first.targets)):
                table.add_row(
                    "" if side else f"{number:,}",
                    Text(languages[side]),
                    Text(visible(texts[index])),
                    Text(" ".join(self.pieces[side][index]), style="dim"),
                    end_section=bool(side),
                )
        return table


def preview(
    recipe: str | Path,
    overrides: Mapping[str, Any],
    part: PartName,
    *,
    n: int,
    out: Path | None = None,
) -> Preview | RowPreview:
    """What a training would make of a part, with its first `n` rows.

    Raises UserError as a training does, if the recipe has no such part, and if `out`, which is to
    be written, is a file of the data.
    """
    settings, _ = begin(recipe, overrides)
    refuse_same(out, *_files(settings.data.to_table()))
    if isinstance(settings, TranslationRecipe):
        return preview_pairs(settings, part, n=n)
    refuse_part(part)
    return preview_rows(settings, n=n)


def _files(said: object) -> Iterator[Path]:
    """The files that settings name, with `${VARIABLES}` as the data's readers take them."""
    if isinstance(said, str):
        with suppress(UserError):  # a variable that is not set: whoever reads the file says so
            if os.path.isfile(path := expand(said, "data")):
                yield Path(path)
    elif isinstance(said, Mapping | list):
        for each in said.values() if isinstance(said, Mapping) else said:
            yield from _files(each)


def preview_pairs(recipe: TranslationRecipe, part: PartName, *, n: int) -> Preview:
    """Read a part, train the recipe's tokenisers on the training part, and count."""
    train = open_part(recipe.data, "train")
    stream = train if part == "train" else open_part(recipe.data, part)
    assert train is not None, "the settings require a training part"
    if stream is None:
        todo = f"set data.{part} or data.held_out"
        raise UserError(f"the recipe has no part '{part}'", where=f"data.{part}", todo=todo)
    made = Tokenizers.train(recipe.tokenizer, train)
    training = part == "train"
    # valid and test stay whole; what the model cannot read of them is cut when they are translated
    limit = longest(recipe) if training else recipe.model.max_length
    encoding = Encoding(stream, made, limit=limit, drop_long=training)
    first = _first(stream.blocks(), n)
    pieces = tuple(
        [tokenizer.pieces(ids) for ids in tokenizer.encode(texts)]
        for tokenizer, texts in ((made.source, first.sources), (made.target, first.targets))
    )
    return Preview(encoding.report(part, recipe.data), first, (pieces[0], pieces[1]))


def show(found: Preview | RowPreview) -> None:
    """Print it, as wide as the terminal."""
    Console(highlight=False).print(found)


def _first(blocks: Iterator[Block], n: int) -> Block:
    first = Block([], [], [])
    for block in blocks:
        more = n - len(first.numbers)
        first.numbers.extend(block.numbers[:more])
        first.sources.extend(block.sources[:more])
        first.targets.extend(block.targets[:more])
        if len(first.numbers) == n:
            break
    return first


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _heading(report: PreparationReport) -> Text:
    share = report.kept / report.read
    return Text.assemble(
        (f"{report.part}: {report.origin}\n", "bold"),
        f"{report.read:,} rows read, {report.kept:,} pairs kept ({share:.1%}); "
        f"{report.max_tokens} tokens a side are the limit",
    )


def _findings(title: str, findings: tuple[Finding, ...], read: int) -> Table:
    table = _table(title)
    for name in ("rows", "of all", "why", "line", "such as"):
        table.add_column(name, justify="left" if name in ("why", "such as") else "right")
    for finding in sorted(findings, key=lambda each: -each.count):
        counts = f"{finding.count:,}", f"{finding.count / read:.2%}", finding.kind
        for index, example in enumerate(finding.examples):
            cells = ("", "", "") if index else counts
            last = index == len(finding.examples) - 1
            text = Text(visible(example.text))
            table.add_row(*cells, f"{example.line:,}", text, end_section=last)
    return table


def _sides(report: PreparationReport) -> Table:
    table = _table("the two sides")
    for name in ("", "language", "tokens", "a pair", "longest", "unknown", "such as"):
        table.add_column(name, justify="left" if name in ("", "such as") else "right")
    for name, side in (("source", report.source), ("target", report.target)):
        table.add_row(
            name,
            Text(side.language),
            f"{side.tokens:,}",
            f"{side.tokens / report.kept:.1f}" if report.kept else "",
            f"{side.longest:,}",
            f"{side.unknown:.2%}",
            Text(", ".join(f"{visible(text)} ({count})" for text, count in side.examples)),
        )
    return table


def _lengths(report: PreparationReport) -> Table:
    sides = report.source, report.target
    table = _table("pairs by tokens")
    table.add_column("tokens", justify="right")
    for side in sides:
        table.add_column("pairs", justify="right")
        table.add_column(Text(side.language), min_width=_BAR)
    most = max(count for side in sides for count in side.lengths)
    for power in range(max(len(side.lengths) for side in sides)):
        cells: list[str] = []
        for side in sides:
            count = _at(side, power)
            # whatever is there shows, be it ever so little
            cells += [f"{count:,}", "█" * max(bool(count), round(_BAR * count / most))]
        table.add_row(lengths_label(power), *cells)
    return table


def _at(side: SideReport, power: int) -> int:
    return side.lengths[power] if power < len(side.lengths) else 0
