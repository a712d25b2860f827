"""Name tables: which tensors of ours are which of theirs, read in either direction.

A table is a list of rows. Import and export walk the same rows, so that neither can know a name
that the other does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from headway.base.errors import UserError, visible


@dataclass(frozen=True)
class Form:
    """How a tensor of theirs is laid out, compared with ours.

    `transposed`: they multiply from the other side. `rows` and `columns`: our row i is their row
    rows[i], and so for columns; of a vector, rows count. `leading`: they have an axis of 1 before.
    `before`: they have so many rows more, before ours; they are read by nothing, and written as 0.
    """

    transposed: bool = False
    leading: bool = False
    before: int = 0
    rows: Tensor | None = None
    columns: Tensor | None = None

    def inward(self, tensor: Tensor) -> Tensor:
        """Theirs as ours."""
        if self.leading:
            tensor = tensor[0]
        tensor = tensor[self.before :]
        if self.transposed and tensor.dim() == 2:
            tensor = tensor.T
        if self.rows is not None:
            tensor = tensor[self.rows]
        if self.columns is not None:
            tensor = tensor[:, self.columns]
        return tensor.contiguous()

    def outward(self, tensor: Tensor) -> Tensor:
        """Ours as theirs."""
        if self.columns is not None:
            tensor = tensor[:, self.columns.argsort()]
        if self.rows is not None:
            tensor = tensor[self.rows.argsort()]
        if self.transposed and tensor.dim() == 2:
            tensor = tensor.T
        if self.before:
            tensor = F.pad(tensor, (0, 0, self.before, 0))
        return tensor[None] if self.leading else tensor.contiguous()


SAME = Form()


@dataclass(frozen=True)
class Row:
    """One tensor of theirs, and the one of ours, or those that theirs holds one after another."""

    ours: tuple[str, ...]
    theirs: str
    form: Form = SAME


def row(ours: str | tuple[str, ...], theirs: str, form: Form = SAME) -> Row:
    """A row; `{}` in its names stands for the number of a layer."""
    return Row((ours,) if isinstance(ours, str) else ours, theirs, form)


def layers(rows: Iterable[Row], n: int) -> Iterator[Row]:
    """The rows of one layer, for each of `n`."""
    made = list(rows)
    for number in range(n):
        for each in made:
            ours = tuple(name.format(number) for name in each.ours)
            yield Row(ours, each.theirs.format(number), each.form)


def linear(
    ours: str, theirs: str, *, bias: bool = True, weight: Form = SAME, of_bias: Form = SAME
) -> list[Row]:
    """The rows of a linear layer, or of a norm: weight, and bias where it has one."""
    found = [row(f"{ours}.weight", f"{theirs}.weight", weight)]
    return [*found, row(f"{ours}.bias", f"{theirs}.bias", of_bias)] if bias else found


def within(module: str, rows: Iterable[Row]) -> list[Row]:
    """The rows of a network that is a part of another of ours, under that name."""
    return [
        Row(tuple(f"{module}.{name}" for name in each.ours), each.theirs, each.form)
        for each in rows
    ]


def to_ours(
    rows: Iterable[Row],
    theirs: Mapping[str, Sequence[int]],
    read: Callable[[str], Tensor],
    shapes: Mapping[str, torch.Size],
    *,
    ignored: re.Pattern[str],
    where: str,
) -> dict[str, Tensor]:
    """Their tensors under our names; `theirs` are their shapes, `shapes` those of our model.

    Names that match `ignored` may be there. Raises UserError with all that is missing, left over
    or of another shape, before it reads any; and where two of theirs that are one of ours differ.
    """
    fitting: list[tuple[Row, list[int]]] = []
    missing, misshaped, used = [], [], set()
    for each in rows:
        if each.theirs not in theirs:
            missing.append(each.theirs)
            continue
        used.add(each.theirs)
        wanted = [shapes[name] for name in each.ours]
        parts = [shape[0] for shape in wanted]
        joined = torch.empty(sum(parts), *wanted[0][1:], device="meta")
        shape, given = tuple(each.form.outward(joined).shape), tuple(theirs[each.theirs])
        if given != shape:
            misshaped.append(f"{each.theirs} {given}, not {shape}")
        fitting.append((each, parts))
    surplus = [name for name in theirs if name not in used and not ignored.search(name)]
    _refuse(missing, surplus, misshaped, where)
    found: dict[str, Tensor] = {}
    for each, parts in fitting:
        whole = each.form.inward(read(each.theirs))
        for name, part in zip(each.ours, torch.split(whole, parts), strict=True):
            if name in found and not torch.equal(found[name], part):
                raise UserError(f"'{each.theirs}' is not the same as its copy", where=where)
            found[name] = part
    return found


def to_theirs(rows: Iterable[Row], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names."""
    return {
        each.theirs: each.form.outward(torch.cat([tensors[name] for name in each.ours]))
        for each in rows
    }


def _refuse(missing: list[str], surplus: list[str], misshaped: list[str], where: str) -> None:
    faults = {"missing": missing, "surplus": surplus, "of another shape": misshaped}
    told = [f"{what}: {_some(names)}" for what, names in faults.items() if names]
    if told:
        raise UserError(
            f"the tensors are not those of its config.json; {'; '.join(told)}",
            where=where,
            todo="the folder must hold one model, whole and unchanged",
        )


def _some(names: list[str], n: int = 5) -> str:
    more = f" and {len(names) - n} more" if len(names) > n else ""
    return ", ".join(visible(name) for name in names[:n]) + more
