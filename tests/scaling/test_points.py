"""Runs as they come: tables of anybody's, folders of Headway's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.scaling.points import read_csv, read_curves, read_runs


def table(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "params,tokens,loss\n1e8,2e9,3.5\n2e8,4e9,3.25\n",
        "\ufeffModel Size;Training Tokens;Loss\r\n1e8;2e9;3.5\r\n\r\n2e8;4e9;3.25\r\n",
        "x\tLOSS\tsize\tflops\n1\t3.5\t1e8\t1.2e18\n2\t3.25\t2e8\t4.8e18",
        'loss,"C",D\n3.5,1.2e18,2e9\n3.25,4.8e18,4e9\n',
    ],
)
def test_two_quantities_give_the_third(tmp_path: Path, text: str) -> None:
    found = read_csv(table(tmp_path, text))
    assert found["params"].tolist() == pytest.approx([1e8, 2e8])
    assert found["tokens"].tolist() == pytest.approx([2e9, 4e9])
    assert found["flop"].tolist() == pytest.approx([1.2e18, 4.8e18])
    assert found["loss"].tolist() == [3.5, 3.25]


def test_columns_can_be_named_and_the_highest_losses_left_out(tmp_path: Path) -> None:
    path = table(tmp_path, "loss,N,who,D,nats\n9,1e8,a,2e9,3\n9,2e8,b,2e9,5\n9,3e8,c,2e9,4\n")
    found = read_csv(path, {"loss": "nats"}).without_highest(1)
    assert found["loss"].tolist() == [3.0, 4.0]
    assert found["params"].tolist() == [1e8, 3e8]
    assert found.names == [f"{path}:2", f"{path}:4"]
    with pytest.raises(UserError, match="3 of 3 runs cannot be left out"):
        read_csv(path).without_highest(3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no header in the first line"),
        ("params,tokens,loss\n", "a header but no row"),
        ("a,b\n1,2\n", "no column of losses; name it with --loss-column; there are: a, b"),
        ("params,tokens,loss\n1e8,1e9,3\n1e8,two,3\n", ":3: 'two' in column 'tokens' is not a"),
        ("params,tokens,loss\n1e8,1e9,3\n\n1e8,-1e9,3\n", ":4: '-1e9' in column 'tokens'"),
        ("params,tokens,loss\n1e8,1e9,0\n", ":2: '0' in column 'loss'"),
        ("params,tokens,loss\n1e8,1e9,nan\n", ":2: 'nan' in column 'loss'"),
        ("params,tokens,loss\n1e8,1e9,inf\n", ":2: 'inf' in column 'loss'"),
        ("params,tokens,loss\n1e8,1e9,\n", ":2: '' in column 'loss'"),
        ("params,tokens,loss\n1e300,1e9,3\n", ":2: '1e300' in column 'params'"),
        ("params,tokens,loss\n1e8,1e9\n", ":2: there is no cell in column 'loss'"),
    ],
)
def test_broken_tables_are_refused_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        read_csv(table(tmp_path, text))
    assert said in str(refused.value)
    assert "runs.csv" in str(refused.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = table(tmp_path, "params,loss\n1e8,3\n")
    with pytest.raises(UserError, match="unknown column 'sise'; did you mean"):
        read_csv(table(tmp_path, "size,tokens,loss\n1,1,1\n"), {"params": "sise"})
    path = table(tmp_path, "params,loss\n1e8,3\n")
    assert read_csv(path)["params"].tolist() == [1e8]
    with pytest.raises(UserError, match="nothing to know the training tokens by"):
        read_csv(path)["tokens"]
    with pytest.raises(UserError, match="there is no such file"):
        read_csv(tmp_path / "other.csv")
    path.write_bytes(b"params,loss\n1e8,3\xff\n")
    with pytest.raises(UserError, match="not UTF-8"):
        read_csv(path)


def run(folder: Path, parameters: int, records: list[dict[str, Any]], tokens: int) -> Path:
    folder.mkdir()
    config = {"format": 1, "parameters": parameters}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    data = {"books": {"tokens": tokens, "passes": 1.0}}
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def train(step: int, nll: float) -> dict[str, Any]:
    return {"kind": "train", "step": step, "tokens": 100 * step, "nll": nll}


def test_runs_give_their_size_tokens_and_last_validation_loss(tmp_path: Path) -> None:
    valid = [{"kind": "valid", "step": step, "nll": nll} for step, nll in ((20, 4.0), (40, 3.0))]
    records = [train(10, 5), train(20, 4), valid[0], train(30, 3.5), train(40, 3), valid[1]]
    runs = [run(tmp_path / "a", 1000, [*records, train(50, 1)], 10**6)]
    runs.append(run(tmp_path / "b", 2000, records[:3], 1500))
    found = read_runs(runs)
    assert found["params"].tolist() == [1000, 2000]
    assert found["tokens"].tolist() == [4000, 2000]
    assert found["loss"].tolist() == [3.0, 4.0]
    assert found["flop"].tolist() == [6 * 1000 * 4000, 6 * 2000 * 2000]
    assert found.unique is not None
    assert found.unique.tolist() == [4000, 1500]
    assert read_runs(runs[:1]).unique is None
    curves = read_curves(runs[:1], window=2)
    assert curves["loss"].tolist() == [4.5, 3.75, 3.25, 2.0]
    assert curves["tokens"].tolist() == [1500, 2500, 3500, 4500]


def test_what_is_no_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this is no run and no table"):
        read_runs([tmp_path])
    started = run(tmp_path / "a", 1000, [train(10, 5)], 100)
    with pytest.raises(UserError, match="no validation loss yet"):
        read_runs([started])
    with pytest.raises(UserError, match="no run has enough records"):
        read_curves([started])
    (started / "config.json").write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(UserError, match="does not say how many parameters"):
        read_runs([started])
