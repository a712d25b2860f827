"""Pictures of fits and of laws, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.lens.charts import COLOURS
from headway.lens.figures import draw_figure
from headway.scaling.frontier import FrontierFit
from headway.scaling.huber import INSIDE
from headway.scaling.laws import TRAINING, Allocation, ParametricLaw
from headway.scaling.parametric import ParametricFit
from headway.scaling.points import QUANTITIES, Floats, Points
from headway.scaling.powers import PowerFit
from headway.scaling.published import CHINCHILLA_TABLE, LAWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DARK = "#1f2933"
_FLOPS = "training FLOPs, 6 · N · D"
_FURTHER = 10.0  # beyond the greatest compute, lines are drawn on
_APPROACH = 3


def draw_parametric(fit: ParametricFit, path: Path) -> None:
    """Runs and the best size for a compute; how far each run is from the law."""
    law, points = fit.law, fit.points

    def draw(figure: Figure, places: Sequence[Axes]) -> None:
        sizes, residuals = places
        flop = _reach(points.flop_6nd)
        best = np.array([law.optimum(c).params for c in flop.tolist()])
        if len(fit.draws):
            drawn = [_optima(row, flop) for row in fit.draws]
            _band(sizes, flop, np.array(drawn))
        sizes.plot(flop, best, color=_DARK, linewidth=1.5, label="best size by the law")
        _runs(figure, sizes, points)
        _name(sizes, "Runs, and the best size for a compute", _FLOPS, "parameters")
        sizes.set_yscale("log")
        sizes.legend(loc="upper left", frameon=False, fontsize=8.5)
        _residuals(residuals, points.flop_6nd, fit.residuals, _FLOPS)
        figure.tight_layout(w_pad=2.0)

    draw_figure(2, path, draw)


def draw_frontier(fit: FrontierFit, path: Path) -> None:
    """Losses of each budget (or training curves), their lowest places, the line through these."""

    def draw(figure: Figure, places: Sequence[Axes]) -> None:
        valleys, sizes = places
        budgets = fit.law.name == "isoflop"
        for place, group in enumerate(fit.groups):
            colour = _shade(place, len(fit.groups))
            x = group["params"] if budgets else group.flop_6nd
            order = np.argsort(x)
            if budgets:
                valleys.plot(x, group["loss"], "o", color=colour, markersize=3)
                logs = np.log(x[order])
                smooth = np.linspace(logs[0], logs[-1], 50)
                curve = np.polyfit(logs, group["loss"][order], 2)
                valleys.plot(np.exp(smooth), np.polyval(curve, smooth), color=colour, linewidth=1.2)
            else:
                valleys.plot(x[order], group["loss"][order], color=colour, linewidth=1.2)
        at = [choice.params if budgets else choice.flop for choice in fit.best]
        losses = [choice.loss for choice in fit.best if choice.loss is not None]
        valleys.plot(at, losses, "v", color=_DARK, markersize=5)
        title = "A parabola for each compute" if budgets else "Training curves"
        _name(valleys, title, "parameters" if budgets else _FLOPS, "loss")
        if not budgets:
            valleys.set_yscale("log")
            _plain(valleys)
        flop = np.array([choice.flop for choice in fit.best])
        wide = _reach(flop)
        if fit.draws.size:
            lines = np.exp(np.multiply.outer(fit.draws[0], np.log(wide)) + fit.draws[1][:, None])
            _band(sizes, wide, lines)
        sizes.plot(wide, fit.law.k * wide**fit.law.a, color=_DARK, linewidth=1.5)
        sizes.plot(flop, [choice.params for choice in fit.best], "o", color=COLOURS[0])
        _name(sizes, f"Best size ∝ C^{fit.law.a:.3f}", _FLOPS, "parameters")
        sizes.set_yscale("log")
        figure.tight_layout(w_pad=2.0)

    draw_figure(2, path, draw)


def draw_powers(fits: Sequence[PowerFit], path: Path) -> None:
    """Losses with the power laws through them; how far each run is from the last of these."""

    def draw(figure: Figure, places: Sequence[Axes]) -> None:
        curves, residuals = places
        x, points = fits[0].law.x, fits[0].points
        curves.plot(points[x], points["loss"], "o", color=COLOURS[1], markersize=3.5)
        wide = _reach(points[x])
        for fit, colour in zip(fits, (COLOURS[0], _DARK), strict=False):
            line = [fit.law.loss(value) for value in wide.tolist()]
            said = f"with a floor of {fit.law.E:.3g}" if fit.law.E else "without a floor"
            curves.plot(wide, line, color=colour, linewidth=1.4, label=said)
        _name(curves, "Loss and power laws", QUANTITIES[x], "loss")
        curves.set_yscale("log")
        _plain(curves)
        curves.legend(loc="upper right", frameon=False, fontsize=8.5)
        _residuals(residuals, points[x], fits[-1].residuals, QUANTITIES[x])
        figure.tight_layout(w_pad=2.0)

    draw_figure(2, path, draw)


def draw_laws(path: Path) -> None:
    """The published laws: the tokens of the best size, and its loss, for a compute."""

    def draw(figure: Figure, places: Sequence[Axes]) -> None:
        ratios, losses = places
        flop = np.geomspace(1e18, 1e26, 60)
        shown = [law for law in LAWS.values() if isinstance(law, ParametricLaw | Allocation)]
        for place, law in enumerate(shown):
            best = [law.optimum(c) for c in flop.tolist()]
            style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linewidth": 1.5}
            style["linestyle"] = "-" if place < len(COLOURS) else (0, (4, 2))
            ratio = [choice.tokens_per_param for choice in best]
            ratios.plot(flop, ratio, label=law.name, **style)
            if isinstance(law, ParametricLaw):
                losses.plot(flop, [law.loss(each.params, each.tokens) for each in best], **style)
        printed = [(row.params, row.tokens[_APPROACH - 1]) for row in CHINCHILLA_TABLE]
        at = [TRAINING * params * tokens for params, tokens in printed]
        ratios.plot(
            at, [tokens / params for params, tokens in printed], "k.", label="Hoffmann, table A3"
        )
        ratios.set_xlim(1e18, 1e26)
        ratios.axhline(20, color="#9aa5b1", linewidth=0.8, linestyle=(0, (2, 2)))
        _name(ratios, "Tokens a parameter of the best size", "training FLOPs", "tokens/parameter")
        ratios.set_yscale("log")
        _plain(ratios)
        _name(losses, "Its loss", "training FLOPs", "nats a token")
        figure.legend(
            *ratios.get_legend_handles_labels(),
            loc="upper left",
            ncols=4,
            frameon=False,
            fontsize=8.5,
        )
        figure.tight_layout(rect=(0, 0, 1, 0.85), w_pad=2.0)

    draw_figure(2, path, draw)


def _optima(constants: Floats, flop: Floats) -> Floats:
    _, A, B, alpha, beta = constants
    balance = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    return np.asarray(balance * (flop / TRAINING) ** (beta / (alpha + beta)))


def _reach(values: Floats) -> Floats:
    return np.geomspace(values.min(), values.max() * _FURTHER, 60)


def _band(axes: Axes, x: Floats, drawn: Floats) -> None:
    low, high = np.percentile(drawn, ((100 - INSIDE) / 2, (100 + INSIDE) / 2), axis=0)
    axes.fill_between(x, low, high, color=_DARK, alpha=0.15, linewidth=0, label="95 % of refits")


def _runs(figure: Figure, axes: Axes, points: Points) -> None:
    """The runs, coloured by their loss."""
    flop, params, loss = points.flop_6nd, points["params"], points["loss"]
    found = axes.scatter(flop, params, c=loss, s=14, cmap="viridis_r", zorder=2)
    figure.colorbar(found, ax=axes, label="loss", pad=0.02)


def _residuals(axes: Axes, x: Floats, residuals: Floats, named: str) -> None:
    axes.plot(x, 100 * residuals, "o", color=COLOURS[1], markersize=3, alpha=0.7)
    axes.axhline(0, color=_DARK, linewidth=0.8)
    _name(axes, "How far each run is above the law", named, "percent of the loss")


def _name(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", size=10.5, pad=8)
    axes.set_xscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="#d8dde3", linewidth=0.7)
    axes.set_axisbelow(True)


def _plain(axes: Axes) -> None:
    """Plain numbers on a vertical axis of logs, some also between the powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    low, high = axes.get_ylim()
    few = MaxNLocator(6) if high < 5 * low else LogLocator(10.0, (1.0, 2.0, 5.0))
    axes.yaxis.set_major_locator(few)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axes.yaxis.minorticks_off()


def _shade(place: int, n: int) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](0.9 * place / max(n - 1, 1))
