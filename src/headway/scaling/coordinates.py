"""The coordinate check: do activations change as much in a wide model as in a narrow one?

Yang et al., 2022, section 8 and figure 5: after a few steps the change of each activation is
measured at several widths. Where it grows with the width, the best learning rate falls; where it
does not (μP), one rate serves all.

Of the logits it is what was learnt that is measured: how far those of the tokens that follow have
risen above the mean. Most of the first change of all of them is chance, through first weights that
are independent of it; that falls with the root of the width in any parametrisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.base.errors import UserError
from headway.lens.figures import Curves, Value, draw_panels
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.nn.attention import Attention
from headway.nn.block import Block
from headway.scaling.shapes import widened
from headway.settings.kinds import LanguageRecipe
from headway.settings.training import MupSettings
from headway.training.mup import begin_mup
from headway.training.optimizer import make_optimizers

STANDARD, MUP = "standard", "μP"
_ROWS, _LENGTH = 8, 32  # of the one batch


@dataclass(frozen=True)
class Coordinate:
    """How much a part's activations have changed after `step` steps: the root mean square; of the
    logits the mean rise of those that are right.
    """

    parametrisation: str
    width: int
    part: str
    step: int
    change: float


def coordinate_check(
    recipe: LanguageRecipe, widths: Sequence[int], *, steps: int = 5, seeds: int = 2
) -> list[Coordinate]:
    """The recipe's model at each width, standard and by μP, trained on one batch of random ids.

    The width grows by more heads of the same width, and the feed-forward part with it. The base of
    μP is the recipe's, or the least width. Each step is made at the full learning rate; the change
    is the mean of so many seeds. Raises UserError for widths that the model cannot have.
    """
    if len(set(widths)) < 2 or steps < 1 or seeds < 1:
        raise UserError("a check compares two widths at least, after one step", where="--widths")
    base = recipe.train.mup or MupSettings(base_width=min(widths))
    found = []
    for name, mup in ((STANDARD, None), (MUP, base)):
        train = recipe.train.model_copy(update={"mup": mup})
        for width in sorted(set(widths)):
            model = widened(recipe.model, width)
            own = recipe.model_copy(update={"model": model, "train": train})
            runs = [_changes(own, steps, seed) for seed in range(seeds)]
            for part, step in runs[0]:
                mean = sum(run[part, step] for run in runs) / seeds
                found.append(Coordinate(name, width, part, step, mean))
    return found


def slopes(found: Sequence[Coordinate]) -> dict[str, dict[str, float]]:
    """Parametrisation -> part -> the power of the width with which its change grows, at the end."""
    last = max(each.step for each in found)
    made: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for each in found:
        if each.step == last and each.change > 0:
            parts = made.setdefault(each.parametrisation, {})
            point = math.log(each.width), math.log(each.change)
            parts.setdefault(each.part, []).append(point)
    return {
        name: {part: _slope(points) for part, points in parts.items()}
        for name, parts in made.items()
    }


def coordinates_record(found: Sequence[Coordinate]) -> dict[str, Any]:
    """As JSON can hold it."""
    return {"slopes": slopes(found), "changes": [asdict(each) for each in found]}


def draw_coordinates(found: Sequence[Coordinate], path: Path) -> None:
    """Change against width after the last step, a panel for each parametrisation."""
    last = max(each.step for each in found)
    panels = []
    for name in (STANDARD, MUP):
        series: dict[str, list[tuple[float, Value]]] = {}
        for each in found:
            if each.step == last and each.parametrisation == name and each.change > 0:
                value = Value(each.change, each.change, each.change)
                series.setdefault(each.part, []).append((float(each.width), value))
        panels.append(
            Curves(name, "width", "change", series, log_x=True, at_points=True, log_y=True)
        )
    title = f"How much activations change in {last} steps"
    draw_panels(panels, path, title=title)


def _changes(recipe: LanguageRecipe, steps: int, seed: int) -> dict[tuple[str, int], float]:
    """Part and step -> the root mean square of what the steps so far have changed."""
    V = recipe.tokenizer.size
    model = build_decoder(recipe.model, n_tokens=V, seed=seed)
    begin_mup(model, recipe.train)
    model.eval()  # no dropout
    ids = torch.randint(V, (_ROWS, _LENGTH + 1), generator=torch.Generator().manual_seed(seed))
    length = min(_LENGTH, recipe.model.max_length)
    entered, following = ids[:, :length], ids[:, 1 : length + 1]
    optimizers = make_optimizers(model, recipe.train)
    first = _activations(model, entered)[0]
    found = {}
    for step in range(1, steps + 1):
        _, logits = _activations(model, entered)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        now = _activations(model, entered)[0]
        for part, values in now.items():
            change = torch.stack([a - b for a, b in zip(values, first[part], strict=True)])
            if part == "logits":
                found[part, step] = _risen(change[0], following)
            else:
                found[part, step] = float(change.square().mean().sqrt())
    return found


def _risen(change: Tensor, following: Tensor) -> float:
    """How much more the logits (B, T, V) of `following` (B, T) have changed than the others."""
    right = change.gather(-1, following.unsqueeze(-1)).squeeze(-1)
    return float((right - change.mean(dim=-1)).mean())


def _activations(model: Decoder, ids: Tensor) -> tuple[dict[str, list[Tensor]], Tensor]:
    """Part -> what it gives, in each layer; and the logits, to learn from."""
    kinds: dict[str, list[nn.Module]] = {
        "embedding": [model.embedding],
        "queries": [each.to_query for each in model.modules() if isinstance(each, Attention)],
        "attention": [each for each in model.modules() if isinstance(each, Attention)],
        "feed-forward": [each.feed_forward for each in model.modules() if isinstance(each, Block)],
    }
    found: dict[str, list[Tensor]] = {name: [] for name in kinds}

    def keep(name: str) -> Any:
        return lambda _module, _given, made: found[name].append(made.detach())

    hooks = [
        module.register_forward_hook(keep(name)) for name, them in kinds.items() for module in them
    ]
    logits = model(ids)
    for hook in hooks:
        hook.remove()
    return {**found, "logits": [logits.detach()]}, logits


def _slope(points: list[tuple[float, float]]) -> float:
    """Of the line of least squares."""
    n = len(points)
    x, y = (sum(values) / n for values in zip(*points, strict=True))
    spread = sum((a - x) ** 2 for a, _ in points)
    return float(sum((a - x) * (b - y) for a, b in points) / spread)
