"""Every command and every Python block of the README and of docs/ runs as it is written there.

The convention, for each page: blocks fenced as `console` (lines that begin with `$ `, carried on by
lines that begin with `> `; anything else is output) and as `python` run in order, in one empty
folder, with `.venv` in it. `make` lines need the clone itself, so only their targets are checked.
Blocks fenced as `text`, `toml`, `json` and the like are for reading, but one with a title
(`toml title="mine.toml"`) is a file of that name, which the reader is told to save. No other shell
fence exists, so that no command escapes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<kind>[^\s`]*)(?P<rest>.*)$")
TITLE = re.compile(r'title="([\w.-]+)"')
READ_ONLY = {"text", "toml", "json", "html", "yaml", "mermaid", "diff", "makefile"}
SECONDS_A_PAGE = 240


def blocks(page: str) -> Iterator[tuple[str, str, list[str]]]:
    """The fenced blocks of a page, in order: kind, title and lines without the indentation."""
    opening, lines = None, []
    for line in page.splitlines():
        match = FENCE.match(line)
        if opening is None and match:
            opening, lines = match, []
        elif opening is not None and match and match["fence"].startswith(opening["fence"]):
            title = TITLE.search(opening["rest"])
            yield opening["kind"], title[1] if title else "", lines
            opening = None
        elif opening is not None:
            lines.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise ValueError(f"a fence is never closed: {opening[0]}")


def commands(lines: list[str]) -> Iterator[str]:
    """The commands of a console block, continuation lines joined; output is left out."""
    command: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield "\n".join(command)
            command = [line[2:]]
        elif command and (line.startswith("> ") or line == ">"):
            command.append(line[2:])
        elif command:
            yield "\n".join(command)
            command = []
    if command:
        yield "\n".join(command)


def script(page: str, python_files: Path) -> tuple[str, set[str]]:
    """The page as one bash script, and the make targets that it names.

    Python blocks and files to save are written to `python_files`. Raises ValueError for a
    fence of unknown kind.
    """
    steps, targets = [], set()
    for number, (kind, title, lines) in enumerate(blocks(page), 1):
        file = python_files / f"block{number}.py"
        if kind == "python" or title:
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if title:
            steps.append(f"cp '{file}' '{title}'")
        elif kind == "python":
            steps.append(f"python '{file}'")
        elif kind == "console":
            for command in commands(lines):
                if command.split()[0] == "make":
                    targets |= {word for word in command.split()[1:] if "=" not in word}
                else:
                    steps.append(command)
        elif kind not in READ_ONLY:
            raise ValueError(f"block {number} is fenced as '{kind}'")
    return "\n".join(steps), targets


def run(steps: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / ".venv").symlink_to(sys.prefix)
    environment = {key: value for key, value in os.environ.items() if key != "HEADWAY_DATA"} | {
        "OMP_NUM_THREADS": "1",  # two threads wait for each other on a busy machine
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", steps],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=SECONDS_A_PAGE,
    )


@pytest.fixture(scope="module")
def followed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Path, Future[None]]]:
    """The pages that are asked for, each being followed: as many at a time as there are cores."""
    asked = [
        item.callspec.params["page"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "followed" in item.fixturenames
    ]
    places = {page: tmp_path_factory.mktemp("page") for page in asked}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {page: pool.submit(follow, page, place) for page, place in places.items()}


def follow(page: Path, place: Path) -> None:
    """Do what a page says."""
    folder, python_files = place / "page", place / "python"
    folder.mkdir()
    python_files.mkdir()
    steps, targets = script(page.read_text(encoding="utf-8"), python_files)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    if steps:
        result = run(steps, folder)
        assert result.returncode == 0, f"{steps}\n--- said:\n{result.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs_as_written(page: Path, followed: dict[Path, Future[None]]) -> None:
    followed[page].result()


SAMPLE = """
1. In a list:

   ```console
   $ printf '%s\\n' one two \\
   >   three > words.txt
   this is output
   $ make demo PYTHON=python3.12
   $ cat <<'END' >> words.txt
   > four
   > END
   ```

```text
$ false
```

```toml title="key.toml"
key = "value"
```

~~~python
import tomllib

assert tomllib.load(open("key.toml", "rb")) == {"key": "value"}
assert open("words.txt", encoding="utf-8").read().split() == ["one", "two", "three", "four"]
print("seen")
~~~
"""


def test_the_runner_runs_what_a_page_says(tmp_path: Path) -> None:
    steps, targets = script(SAMPLE, tmp_path)
    result = run(steps, tmp_path)
    assert (result.returncode, result.stdout, targets) == (0, "seen\n", {"demo"})


def test_the_runner_stops_at_the_first_failure(tmp_path: Path) -> None:
    steps, _ = script("```console\n$ false | cat\n$ echo late\n```\n", tmp_path)
    result = run(steps, tmp_path)
    assert result.returncode != 0
    assert "late" not in result.stdout


@pytest.mark.parametrize("page", ["```bash\nls\n```", "```\nls\n```", "```console\n$ ls"])
def test_no_command_escapes_the_runner(page: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fence"):
        script(page, tmp_path)
