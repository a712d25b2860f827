"""House rules that no linter knows: sizes, imports, places, formats. CONTRIBUTING.md tells them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
REASON = re.compile(r"#\s*long:\s*\S+")
LONGEST_FILE, LONGEST_FUNCTION = 300, 50
PICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
IMPORT_NAMES = {"pyyaml": "yaml", "pillow": "PIL"}


def trees(files: list[Path]) -> Iterator[tuple[str, str, ast.Module]]:
    for file in files:
        text = file.read_text(encoding="utf-8")
        yield file.relative_to(ROOT).as_posix(), text, ast.parse(text)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def committed_files() -> list[Path]:
    """What git keeps or would keep; every file of these folders where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = listed.stdout.decode("utf-8").split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    folders = ("src", "tests", "docs", ".ci", ".github")
    found = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    return [file for file in found if "__pycache__" not in file.parts] + [
        file for file in ROOT.iterdir() if file.is_file()
    ]


def too_long(name: str, text: str, tree: ast.Module) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > LONGEST_FILE and not REASON.search(lines[0]):
        yield f"{name}: {len(lines)} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION and not REASON.search(lines[node.lineno - 1]):
                yield f"{name}:{node.lineno}: {node.name} has {length} lines"


def test_files_and_functions_are_short() -> None:
    found = [line for each in trees(SOURCES + TESTS) for line in too_long(*each)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("first", "def_end", "count"), [("", "", 2), ("# long: a table", "", 1), ("", "  # long: x", 1)]
)
def test_the_size_rule_sees_what_is_long(first: str, def_end: str, count: int) -> None:
    text = f"{first}\ndef run():{def_end}\n" + "    pass\n" * 310
    assert len(list(too_long("made.py", text, ast.parse(text)))) == count


def test_import_contracts_hold() -> None:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_import_in_no_circle() -> None:
    graph = grimp.build_graph("headway", cache_dir=None)
    # The package itself only re-exports, and looks its names up when they are first used.
    modules = graph.modules - {"headway"}
    assert len(modules) > 20
    TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in modules}
    ).prepare()


def test_third_party_imports_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [re.split(r"[^\w.-]", line)[0].lower() for line in project["dependencies"]]
    allowed = {IMPORT_NAMES.get(name, name) for name in named} | {"headway"}
    found = [
        f"{name}: {module}"
        for name, _, tree in trees(SOURCES)
        for node in ast.walk(tree)
        for module in imported(node)
        if (top := module.partition(".")[0]) not in allowed and top not in sys.stdlib_module_names
    ]
    assert not found, "\n".join(found)


def test_nothing_is_unpickled() -> None:
    found = []
    for name, _, tree in trees(SOURCES):
        tensors_alone = {
            node.func
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and any(ast.unparse(given) == "weights_only=True" for given in node.keywords)
        }
        for node in ast.walk(tree):
            if node in tensors_alone:
                continue
            if PICKLERS & {module.partition(".")[0] for module in imported(node)}:
                found.append(f"{name}:{node.lineno}: imports a pickler")  # type: ignore[attr-defined]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called = f"{node.value.id}.{node.attr}"
                if called in {"torch.load", "torch.save", "np.save", "np.load", "numpy.load"}:
                    found.append(f"{name}:{node.lineno}: {called}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                found.append(f"{name}:{node.value.lineno}: allow_pickle")
    assert not found, "\n".join(found)


def opens_without_encoding(node: ast.AST) -> bool:
    """Whether this is a call that reads or writes text in the encoding of the machine."""
    if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
        return False
    given = {word.arg: word.value for word in node.keywords}
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"read_text", "write_text"}:
        return len(node.args) <= (node.func.attr == "write_text")
    if isinstance(given.get("text"), ast.Constant):
        return isinstance(node.func, ast.Attribute) and given["text"].value is True  # type: ignore[attr-defined]
    if isinstance(node.func, ast.Name) and node.func.id == "open":
        mode = node.args[1] if len(node.args) > 1 else given.get("mode", ast.Constant("r"))
        return not (isinstance(mode, ast.Constant) and "b" in str(mode.value))
    return False


def test_text_files_name_their_encoding() -> None:
    found = [
        f"{name}:{node.lineno}"  # type: ignore[attr-defined]
        for name, _, tree in trees(SOURCES + TESTS)
        for node in ast.walk(tree)
        if opens_without_encoding(node)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ("open('a')", True),
        ("open('a', 'w')", True),
        ("open('a', 'rb')", False),
        ("open('a', mode='wb')", False),
        ("open('a', encoding='utf-8')", False),
        ("path.read_text()", True),
        ("path.write_text(text)", True),
        ("path.write_text(text, 'utf-8')", False),
        ("subprocess.run(['a'], text=True)", True),
    ],
)
def test_the_encoding_rule_sees_what_is_open(code: str, bad: bool) -> None:
    assert opens_without_encoding(ast.parse(code, mode="eval").body) is bad


def test_no_file_names_this_machine() -> None:
    # Written in pieces, so that this file passes its own rule.
    homes = "|".join(("work", "home", "Users", "root"))
    pattern = re.compile(rf"(?<![\w.:/~$}}-])/({homes})/[\w.]|[.][.]/" + "shared")
    found = []
    for file in committed_files():
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        name = file.relative_to(ROOT).as_posix()
        if name != ".ci/run":
            found += [f"{name}:{n}: {s}" for n, s in enumerate(lines, 1) if pattern.search(s)]
    assert not found, "\n".join(found)


def test_nothing_is_left_for_later() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b|\braise NotImplementedError\b")
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text, _ in trees(SOURCES)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_lock_serves_every_platform() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert "torch==2.13.0" in pins
    # No options, addresses or hashes, no local builds, nothing that only one platform has.
    shape = re.compile(r"[a-z0-9-]+==[\w.]+( ; .+)?")
    assert [line for line in pins if not shape.fullmatch(line)] == []
    assert [line for line in pins if re.match(r"nvidia|triton|cuda|pywin32", line)] == []
    names = {line.partition("==")[0] for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [
        line for extra in extras if extra != "all" for line in extras[extra]
    ]
    assert {re.split(r"[^\w.-]", line)[0].lower() for line in wanted} <= names
