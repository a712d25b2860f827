"""Records survive torn lines and full disks."""

from __future__ import annotations

import json
import math
import resource
from pathlib import Path

import pytest

from headway.base.errors import UserError
from headway.base.records import Records


def test_records_come_back_in_order(tmp_path: Path) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    assert records.read() == []
    wanted = [{"step": 1, "nll": 0.1 + 0.2}, {"text": "a\nb\u2028c\x85é"}]
    for record in wanted:
        records.append(record)
    assert records.read() == wanted
    records.keep(wanted[1:])
    assert records.read() == wanted[1:]


def test_a_diverged_run_can_say_so(tmp_path: Path) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    records.append({"nll": math.nan, "grad_norm": math.inf})
    (back,) = records.read()
    assert math.isnan(back["nll"])
    assert back["grad_norm"] == math.inf


@pytest.mark.parametrize("torn", ['{"step": 3, "nl', "x" * 10_000])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path: Path, torn: str) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    for start in ("", '{"step": 1}\n'):
        records.path.write_text(start + torn, encoding="utf-8")
        before = [{"step": 1}] if start else []
        assert records.read() == before
        records.append({"step": 2})
        assert records.read() == [*before, {"step": 2}]


@pytest.mark.parametrize("line", ["{", "[1]", "\x00\x00", "[" * 100_000])
def test_a_broken_line_in_the_middle_names_its_place(tmp_path: Path, line: str) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    records.path.write_text('{"step": 1}\n\n' + line + '\n{"step": 2}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"metrics\.jsonl:3: not a record; delete that line"):
        records.read()


def test_a_full_disk_leaves_whole_records(tmp_path: Path) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    records.append({"step": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(UserError, match=r"metrics\.jsonl: no space left"):
            records.append({"step": 2, "text": "x" * 3000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert records.path.read_text(encoding="utf-8") == json.dumps({"step": 1}) + "\n"
    records.append({"step": 3})
    assert [record["step"] for record in records.read()] == [1, 3]
