"""Tensors in files: wrappers, ties, modes of files, damage, and no pickle."""

from __future__ import annotations

import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from headway.base.errors import UserError
from headway.checkpoint.weights import fill, plain_name, read_tensors, write_tensors

WRAPPERS = ("plain", "compiled", "distributed", "both")


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.head = nn.Linear(2, 3, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.randn(1))


@pytest.fixture(scope="module", autouse=True)
def one_rank() -> Iterator[None]:
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


def wrapped(how: str) -> nn.Module:
    module: nn.Module = Tied()
    if how in {"compiled", "both"}:
        module = torch.compile(module, backend="eager")
    if how in {"distributed", "both"}:
        module = DistributedDataParallel(module)
    return module


@pytest.mark.parametrize("writer", WRAPPERS)
@pytest.mark.parametrize("reader", WRAPPERS)
def test_every_wrapper_reads_every_other(tmp_path: Path, writer: str, reader: str) -> None:
    one, two = wrapped(writer), wrapped(reader)
    write_tensors(tmp_path / "w", one.state_dict())
    tensors = read_tensors(tmp_path / "w")
    assert sorted(tensors) == ["embedding.weight", "head.weight", "scale"]
    fill(two, tensors, where="w")
    for mine, other in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a.weight", "a.weight"),
        ("_orig_mod.a.weight", "a.weight"),
        ("module._orig_mod.a.weight", "a.weight"),
        ("_orig_mod.module.a.weight", "a.weight"),
        ("stack._orig_mod.a", "stack.a"),
        ("inner.module.a", "inner.module.a"),
        ("module", "module"),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_two_tensors_of_one_plain_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same name"):
        write_tensors(tmp_path / "w", {"a": torch.zeros(1), "module.a": torch.ones(1)})


def test_tied_weights_are_written_once_and_come_back_as_one(tmp_path: Path) -> None:
    big = torch.randn(1000)
    write_tensors(tmp_path / "w", {"a": big, "b": big, "c": big.view(1000)})
    assert (tmp_path / "w").stat().st_size < 5000
    back = read_tensors(tmp_path / "w")
    assert back.keys() == {"a", "b", "c"}
    assert back["a"].data_ptr() == back["b"].data_ptr() == back["c"].data_ptr()
    assert torch.equal(back["b"], big)


def test_views_that_only_share_memory_stay_apart(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    views = {
        "base": base,
        "first": base[0],
        "row": base[1],
        "square": base[:, :3],
        "square turned": base[:, :3].t(),
        "turned": base.t(),
        "flat": base.view(12),
        "wide": base[0].expand(2, 4),
        "none": base[:0],
        "nothing": torch.zeros(0),
    }
    write_tensors(tmp_path / "w", views)
    back = read_tensors(tmp_path / "w")
    assert back.keys() == views.keys()
    for name, view in views.items():
        assert back[name].shape == view.shape
        assert torch.equal(back[name], view), name
    back["base"].zero_()
    assert back["row"].tolist() == [4, 5, 6, 7]


def test_equal_tensors_are_equal_files_that_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    contents = set()
    for n in range(8):
        tensor = torch.arange(5.0)
        write_tensors(tmp_path / f"w{n}", {"a": tensor, "b": tensor, "c": torch.ones(2)})
        contents.add((tmp_path / f"w{n}").read_bytes())
        mode = (tmp_path / f"w{n}").stat().st_mode
        assert stat.S_IMODE(mode) == stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    assert len(contents) == 1


def test_changing_what_was_read_leaves_the_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"a": torch.ones(1000)})
    read_tensors(tmp_path / "w")["a"].zero_()
    assert read_tensors(tmp_path / "w")["a"].sum() == 1000


@pytest.mark.parametrize("cut", [1, 8, 390, 500, 507])
def test_a_file_cut_short_is_a_user_error(tmp_path: Path, cut: int) -> None:
    write_tensors(tmp_path / "w", {"a": torch.ones(110)})
    content = (tmp_path / "w").read_bytes()
    (tmp_path / "w").write_bytes(content[:-cut])
    with pytest.raises(UserError, match=r"no weights to read.*copy it again"):
        read_tensors(tmp_path / "w")


def test_missing_and_folder_are_user_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_tensors(tmp_path / "w")
    with pytest.raises(UserError, match="no weights to read"):
        read_tensors(tmp_path)


class Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("with_torch", [True, False])
def test_a_pickle_is_refused_and_does_not_run(tmp_path: Path, with_torch: bool) -> None:
    bomb = Payload(tmp_path / "touched")
    if with_torch:
        torch.save({"a": bomb}, tmp_path / "w")
    else:
        (tmp_path / "w").write_bytes(pickle.dumps(bomb))
    with pytest.raises(UserError, match="no weights to read"):
        read_tensors(tmp_path / "w")
    assert not (tmp_path / "touched").exists()


def test_weights_of_another_model_are_user_errors() -> None:
    module = nn.Linear(2, 3)
    good = {"weight": torch.ones(3, 2), "bias": torch.ones(3)}
    fill(module, good, where="w")
    with pytest.raises(UserError, match="lack 'bias'"):
        fill(module, {"weight": good["weight"]}, where="w")
    with pytest.raises(UserError, match="a surplus 'x'"):
        fill(module, good | {"x": torch.ones(1)}, where="w")
    with pytest.raises(UserError, match=r"'bias' has the shape \(4,\), the model has \(3,\)"):
        fill(module, good | {"bias": torch.ones(4)}, where="w")


@pytest.mark.parametrize(
    "tied",
    ['{"a": []}', '{"b": {}}', '{"b": null}', '{"b": "c"}', "[]", "5", "{", "[" * 100_000],
    ids=lambda text: text[:12],
)
def test_a_crafted_list_of_tied_weights_is_a_user_error(tmp_path: Path, tied: str) -> None:
    safetensors.torch.save_file({"a": torch.ones(3)}, tmp_path / "w", {"tied": tied})
    with pytest.raises(UserError, match=r"its list of tied weights is broken.*copy it again"):
        read_tensors(tmp_path / "w")
