"""headway tokenizer"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from headway.base.errors import UserError, unknown
from headway.base.files import refuse_same, write_atomic
from headway.base.progress import say
from headway.cli.options import JsonFile, refuse_inputs, write_json
from headway.data.lines import stream_lines
from headway.data.stream import line_windows

if TYPE_CHECKING:
    from headway.tokens.codec import Codec
    from headway.tokens.inspection import Piece, TextFacts, TokenizerFacts
    from headway.tokens.text import TextTokenizer
    from headway.tokens.tokenizer import Tokenizer

Side = Literal["source", "target"]
STANDARD_INPUT = "standard input"
BLOCK = 1000  # lines that are worked on together
_MOST_DIGITS = 40  # of an id; Python reads no number of thousands
COLOURS = ("black on bright_cyan", "black on bright_yellow")

Place = Annotated[
    Path,
    typer.Argument(
        metavar="TOKENIZER",
        help="A tokenizer.json, a list of words, or the folder of a run.",
        show_default=False,
    ),
]
SideOption = Annotated[
    str | None,
    typer.Option("--side", help="source or target, for a run that has a tokeniser for each."),
]

group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@group.callback()
def tokenizer() -> None:
    """Learn a tokeniser, use it, look into it.

    Example: headway tokenizer train text.fr text.en --size 8000 --out tokenizer.json
    """


@group.command()
def train(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Text, plain or .gz.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The tokenizer.json to write.")],
    kind: Annotated[str, typer.Option(help="character, word, bpe or wordpiece.")] = "bpe",
    size: Annotated[int, typer.Option(help="At most so many ids, 4 special ones included.")] = 8000,
    min_count: Annotated[
        int, typer.Option(help="Rarer characters or words are unknown, rarer pairs not merged.")
    ] = 1,
    rule: Annotated[str, typer.Option(help="By which bpe finds words: marks or gpt2.")] = "marks",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Make all small letters; accents stay.")
    ] = False,
    strip_accents: Annotated[
        bool, typer.Option("--strip-accents", help="Take accents off; case stays.")
    ] = False,
) -> None:
    """Learn a tokeniser from the lines of text files.

    The options are keys of the table tokenizer in a recipe.

    Example: headway tokenizer train text.fr text.en --kind bpe --size 8000 --out tokenizer.json
    """
    from headway.settings.base import parse
    from headway.settings.tokenizer import TokenizerSettings

    table = {"kind": kind, "size": size, "min_count": min_count, "rule": rule}
    table |= {"lowercase": lowercase, "strip_accents": strip_accents}
    settings = parse(TokenizerSettings, table, where="headway tokenizer train")
    refuse_same(out, *files)
    for file in files:
        if not file.exists():
            raise UserError("there is no such file", where=str(file), todo="check the path")
    from headway.tokens.training import train_tokenizer

    made = train_tokenizer(settings, itertools.chain.from_iterable(map(_file_lines, files)))
    write_atomic(out, made.to_json())
    say(f"{len(made)} ids; next: headway tokenizer inspect {out} {files[0]}")
    print(out)


@group.command()
def encode(
    place: Place,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Print readable pieces; a space is ▁.")
    ] = False,
    side: SideOption = None,
) -> None:
    """Turn lines of standard input into lines of ids.

    Line i of the output belongs to line i of the input. Each ends with the end symbol, as a
    translator sees it; the tokenisers of other runs give the ids of the text alone, since what
    frames it depends on the model.

    Example: headway tokenizer encode tokenizer.json < text.fr > ids.txt
    """
    made = _opened(place, side)
    for lines in _input_windows():
        rows = made.encode(lines)
        _print(" ".join(made.pieces(ids) if pieces else map(str, ids)) for ids in rows)


@group.command()
def decode(place: Place, side: SideOption = None) -> None:
    """Turn lines of ids on standard input back into lines of text.

    The inverse of encode, where the tokeniser loses nothing. A line end inside of a text becomes a
    space, so that line i of the output belongs to line i of the input.

    Example: headway tokenizer decode tokenizer.json < ids.txt > text.fr
    """
    made = _opened(place, side)
    first = 1
    for lines in _input_windows():
        rows = [_ids(line, number, len(made)) for number, line in enumerate(lines, first)]
        _print(text.replace("\n", " ") for text in made.decode(rows))
        first += len(lines)


@group.command()
def inspect(
    place: Place,
    text: Annotated[
        Path | None,
        typer.Argument(metavar="TEXTFILE", help="Text to cut, plain or .gz.", show_default=False),
    ] = None,
    lines: Annotated[int, typer.Option(min=0, help="Show the pieces of so many lines.")] = 20,
    side: SideOption = None,
    json: JsonFile = None,
) -> None:
    """Say what a tokeniser is, and how it cuts a text: pieces, rates, unknowns, what is not used.

    Example: headway tokenizer inspect tokenizer.json text.fr --json facts.json
    """
    refuse_inputs(json, place, text)
    made = _opened(place, side)
    from headway.tokens.inspection import inspect_texts, inspect_tokenizer

    facts = inspect_tokenizer(made)
    _show_tokenizer(facts)
    table = {"tokenizer": facts.to_table()}
    if text is not None:
        print()
        found = inspect_texts(made, _shown(made, _file_lines(text), lines))
        _show_text(found, made)
        table["text"] = found.to_table()
    write_json(json, table)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(group, name="tokenizer")


def _opened(place: Path, side: str | None) -> Tokenizer | TextTokenizer:
    """The tokeniser in a file or in the folder of a run."""
    if side is not None and side not in get_args(Side):
        raise unknown("side", side, get_args(Side), where="--side")
    if not (place / "recipe.toml").is_file():
        from headway.tokens.importing import import_tokenizer

        if side is not None:
            raise UserError("--side is for the folder of a run", where=str(place))
        found = import_tokenizer(place)
        for note in found.notes:
            say(f"{place}: {note}")
        return found.tokenizer
    from headway.checkpoint.run import RunFolder
    from headway.runs.text_tokenizers import run_tokenizer
    from headway.runs.tokenizers import Tokenizers

    folder = RunFolder(place)
    if "n_tokens" in folder.whole_config():  # a translator has two numbers of ids
        if side is not None:
            raise UserError("--side is for the run of a translator", where=str(place))
        return run_tokenizer(folder)
    both = Tokenizers.read(folder)
    if side is None and both.source is not both.target:
        raise UserError(
            "this run has a tokeniser for each side",
            where=str(place),
            todo="give --side source or --side target",
        )
    return both.target if side == "target" else both.source


def _file_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, plain or .gz, as they come. UserError if it cannot be read."""
    return (line for line in stream_lines(path) if isinstance(line, str))


def _input_windows() -> Iterator[list[str]]:
    """The lines of standard input, as they come: whoever types is answered."""
    return line_windows(cast(BufferedReader, sys.stdin.buffer), size=BLOCK, where=STANDARD_INPUT)


def _ids(line: str, number: int, size: int) -> list[int]:
    ids = []
    for word in line.split():
        short = word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS
        id = int(word) if short else -1
        if not 0 <= id < size:
            shown = word if len(word) <= _MOST_DIGITS else f"{word[:_MOST_DIGITS]}…"
            raise UserError(
                f"'{shown}' is not an id from 0 to {size - 1}", where=f"{STANDARD_INPUT}:{number}"
            )
        ids.append(id)
    return ids


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()


def _show_tokenizer(facts: TokenizerFacts) -> None:
    what = {"pad": "padding", "unk": "unknown", "bos": "start", "eos": "end"}
    for_what = {token: what[role] for role, token in facts.roles.items()}
    specials = [
        f"{token} {id}" + (f" ({for_what[token]})" if token in for_what else "")
        for token, id in facts.specials.items()
    ]
    print(f"kind            {facts.kind}")
    print(f"ids             {facts.size}")
    print(f"lossless        {'no: ' + '; '.join(facts.losses) if facts.losses else 'yes'}")
    print(f"special tokens  {', '.join(specials)}")
    print(f"longest tokens  {_listed(facts.longest)}")


def _shown(made: Codec, lines: Iterable[str], n: int) -> Iterator[str]:
    """`lines` as they pass, the pieces of the first `n` shown."""
    for number, line in enumerate(lines):
        if number < n:
            ((ids, _),) = made.cut([line])
            _show_pieces(made.pieces(ids))
        yield line


def _show_pieces(pieces: Sequence[str]) -> None:
    """A line of pieces: on a terminal in two colours by turns, elsewhere with bars between them."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal or console.no_color:
        print("|".join(pieces))
        return
    parts = [(piece, COLOURS[place % 2]) for place, piece in enumerate(pieces)]
    console.print(Text.assemble(*parts))


def _show_text(found: TextFacts, made: Codec) -> None:
    rates = found.rates()
    print()
    print(f"lines           {found.lines:,}")
    print(f"tokens          {found.tokens:,}")
    print(f"                {rates['characters_per_token']:.2f} characters a token")
    print(f"                {rates['bytes_per_token']:.2f} bytes a token")
    print(f"                {rates['tokens_per_word']:.2f} tokens a word (fertility)")
    print(f"unknown         {rates['unknown_share']:.2%} of the tokens")
    for each in found.most_unknown:
        print(f"                {each.text!r} {each.count:,} times, first in line {each.line:,}")
    print(f"most used       {_listed(found.most_used)}")
    never = found.never_used
    share = len(never) / max(1, len(made.ordinary()))
    some = " ".join(map("{} {}".format, made.pieces(never[:8]), never))
    print(f"never used      {len(never):,} ids ({share:.0%}){': ' if some else ''}{some}")


def _listed(pieces: Sequence[Piece]) -> str:
    return ", ".join(
        f"{each.piece} {each.id}" + (f" ({each.count:,})" if each.count else "") for each in pieces
    )
