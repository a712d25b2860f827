"""Does what a language model of code writes parse? Bodies of held-out functions, completed.

A function of a held-out module is cut after its head (and its docstring, where it has one); the
model writes on, greedily and once by draws. What it wrote up to the first line that leaves the
function's indentation is its body; with the head before it, it parses as Python or it does not.
Beside it the true bodies of the same length, and the model's body of another function put in its
place: what parses by luck.

    .venv/bin/python benchmarks/completions.py runs/lm-stdlib --json lm-stdlib.json
"""

from __future__ import annotations

import argparse
import ast
import random
import textwrap
from pathlib import Path
from typing import Any

import headway
from headway.base.files import to_json, write_atomic
from headway.base.runtime import environment
from headway.checkpoint.run import RunFolder
from headway.data.documents import document_streams
from headway.runs.language_model import LanguageModel, Sampling
from headway.settings.recipe import load_recipe

FUNCTIONS = 100
NEW_TOKENS = 96
SHOWN = 6


def heads(text: str) -> list[tuple[str, str]]:
    """(what stands before the body, the body's indentation) of the functions of a module."""
    found = []
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            end = first.end_lineno if documented else first.lineno - 1
            if end is None or first.lineno == node.lineno or (documented and len(node.body) < 2):
                continue
            begin = max(0, node.lineno - 1 - len(node.decorator_list))
            indent = " " * first.col_offset
            # no line end: as a token of its own before an indentation, it is in no text
            found.append(("".join(lines[begin:end]).removesuffix("\n"), indent))
    return found


def body(written: str, indent: str) -> str:
    """What stands up to the first line that leaves the function; the last one may be cut off."""
    first, *lines = written.splitlines(keepends=True)[:-1] or [""]  # the limit cut the last
    kept = [first]
    for line in lines:
        if line.strip() and not line.startswith(indent):
            break
        kept.append(line)
    return "".join(kept)


def parses(head: str, written: str) -> bool:
    """Whether a function with a body stands there; an empty body does not."""
    try:
        ast.parse(textwrap.dedent(head + written))
    except (SyntaxError, ValueError):
        return False
    return bool(written.strip())


def held_out(folder: RunFolder) -> list[tuple[str, str]]:
    """Functions of the run's held-out modules, drawn by lot."""
    recipe = load_recipe(folder.recipe())
    found = []
    for stream in document_streams(recipe.data, "test").values():  # type: ignore[arg-type]
        for text in stream.texts():
            try:
                found += heads(text)
            except SyntaxError:
                continue
    random.Random(1).shuffle(found)
    return [each for each in found if len(each[0]) < 1000][:FUNCTIONS]


def complete(
    model: LanguageModel, functions: list[tuple[str, str]], sampling: Sampling
) -> list[str]:
    """The body that the model writes for each."""
    made = model.generate([head for head, _ in functions], sampling)
    return [body(each.text, indent) for each, (_, indent) in zip(made, functions, strict=True)]


def main() -> None:
    """Complete, parse, count, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    model, functions = headway.load(arguments.run), held_out(folder)
    assert isinstance(model, LanguageModel)
    rows: dict[str, Any] = {}
    ways = {
        "greedy": Sampling(max_new_tokens=NEW_TOKENS, temperature=0.0),
        "drawn at 0.8": Sampling(max_new_tokens=NEW_TOKENS, temperature=0.8, top_p=0.95),
    }
    for way, sampling in ways.items():
        bodies = complete(model, functions, sampling)
        good = [parses(head, each) for (head, _), each in zip(functions, bodies, strict=True)]
        turned = zip(functions, bodies[1:] + bodies[:1], strict=True)
        rows[way] = {
            "functions": len(good),
            "parse": sum(good) / len(good),
            "another function's parses": sum(parses(head, each) for (head, _), each in turned)
            / len(good),
            "shown": [
                {"given": head, "written": each, "parses": fine}
                for (head, _), each, fine in list(zip(functions, bodies, good, strict=True))[:SHOWN]
            ],
        }
        print(way, {name: value for name, value in rows[way].items() if name != "shown"})
    test = next(r for r in reversed(folder.metrics.read()) if r["kind"] == "test")
    last = next(r for r in reversed(folder.metrics.read()) if r["kind"] == "train")
    found = {
        "machine": environment(),
        "recipe": folder.recipe()["description"],
        "training": {name: last[name] for name in ("step", "tokens", "seconds", "tokens_per_s")},
        "test": {name: test[name] for name in ("bits_per_byte", "perplexity", "tokens")},
        "completions": rows,
    }
    if arguments.json:
        write_atomic(arguments.json, to_json(found))


if __name__ == "__main__":
    main()
