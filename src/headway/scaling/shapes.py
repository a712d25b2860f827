"""From a number of parameters to the settings of a model, by one stated rule.

A Llama (Touvron et al., 2023): pre-norm by rms, SwiGLU of 8/3 widths, rotary positions, no biases.
Width over depth grows as N^0.3 from 32 at 10 million parameters to 128 at 1 billion and stays there
(GPT-2: 64 at 124 million; Llama: 128 from 1.2 to 405 billion); heads are 64 wide, 128 from a width
of 4,096 on. Below 2 billion parameters the output is the embedding.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from headway.base.errors import UserError
from headway.scaling.units import short
from headway.settings.counting import Parameters, count_parameters
from headway.settings.model import DecoderSettings

WIDEST = 65_536
LARGEST = 1e14  # parameters: of those widths, some 2,000 layers
_TIED_BELOW = 2e9


@dataclass(frozen=True)
class Shape:
    """Model settings, the ids they are for, and what they come to."""

    settings: DecoderSettings
    n_tokens: int
    parameters: Parameters

    @property
    def length(self) -> int:
        """T: tokens of a text."""
        return self.settings.max_length


def default_vocabulary(params: float) -> int:
    """Ids for a size: few where the embedding would else be most of the model."""
    return 32_000 if params >= 3e8 else 16_384 if params >= 3e7 else 4_096


def default_length(params: float) -> int:
    """Tokens of a text for a size: short where attention would else be most of the work."""
    return 2_048 if params >= 3e8 else 1_024 if params >= 3e7 else 512


def shape_of(
    params: float,
    *,
    length: int | None = None,
    n_tokens: int | None = None,
    like: Shape | None = None,
) -> Shape:
    """The shape that comes nearest to `params` (all of them) and to the rule's proportions.

    Ids, length and whether the output is the embedding are those of `like`, or follow from the
    size. Raises UserError for sizes below the smallest and above the largest shape.
    """
    ties = params < _TIED_BELOW
    if like is not None:
        n_tokens, length, ties = like.n_tokens, like.length, like.settings.tie == "output"
    V, length = n_tokens or default_vocabulary(params), length or default_length(params)
    wanted = min(max(32.0 * (params / 1e7) ** 0.3, 32.0), 128.0)
    best, least = None, math.inf
    for D in _widths():
        a_layer = 4 * D * D + 3 * D * _feed_forward(D)
        layers = round((params - V * D * (1 if ties else 2)) / a_layer)
        if layers < 1:
            break
        built = a_layer * layers + V * D * (1 if ties else 2)
        far = 20 * abs(math.log(built / params)) + abs(math.log2(D / layers / wanted))
        if far < least:
            best, least = (D, layers), far
    if best is None or params > LARGEST:
        raise UserError(
            f"no model of {short(params)} parameters with {V:,} ids can be built",
            where="--params",
            todo=f"the smallest has {short(64 * V + 50_000)}, the largest {short(LARGEST)}; "
            "--vocabulary sets the ids",
        )
    settings = _settings(*best, ties, length)
    return Shape(settings, V, count_parameters(settings, V))


def shapes_of(sizes: Iterable[float], like: Shape) -> list[Shape]:
    """The shapes of those sizes that can be built, with the ids and the length of another."""
    found = []
    for params in sizes:
        with contextlib.suppress(UserError):
            found.append(shape_of(params, like=like))
    return found


def widened(settings: DecoderSettings, width: int, n_layers: int | None = None) -> DecoderSettings:
    """A model of another width, by more or fewer heads of the same width, and of another depth.

    Heads of keys and values, and the feed-forward part, keep their shares. Raises UserError for a
    width that is no whole number of heads.
    """
    K, D, unit = settings.head_width, settings.d_model, _unit(settings)
    if width < 1 or width % unit:
        raise UserError(
            f"a width of {width} is no whole number of heads like those of this model",
            todo=f"choose a multiple of {unit}",
        )
    heads = width * settings.n_heads // D
    kv_heads = heads * settings.kv_heads // settings.n_heads
    inner = max(1, round(settings.d_feed_forward * width / D / 8)) * 8
    return settings.model_copy(
        update={
            "d_model": width,
            "d_feed_forward": settings.d_feed_forward if width == D else inner,
            "n_heads": heads,
            "n_kv_heads": None if settings.n_kv_heads is None else kv_heads,
            "d_head": None if K * heads == width else K,
            "n_layers": n_layers or settings.n_layers,
        }
    )


def _unit(settings: DecoderSettings) -> int:
    """The width of the fewest heads that a model like this one can have."""
    D, H, G = settings.d_model, settings.n_heads, settings.kv_heads
    return D * math.lcm(H // G, H // math.gcd(D, H)) // H


def resized(settings: DecoderSettings, n_tokens: int, params: float) -> DecoderSettings:
    """The model `widened` and deepened to about `params` (all of them), its proportions kept.

    Of the widths that are whole heads and the depths that go with them, the one whose size is
    nearest and whose width over depth is nearest to the model's own: 9 % of size weigh as much as a
    factor of 2 there. Raises UserError if one head and one layer are too many.
    """
    ratio, unit = settings.d_model / settings.n_layers, _unit(settings)
    best, least = None, math.inf
    for width in range(unit, WIDEST + 1, unit):
        one, two = (
            count_parameters(widened(settings, width, layers), n_tokens).all for layers in (1, 2)
        )
        layers = round((params - one) / (two - one)) + 1
        if layers < 1:
            break
        built = one + (layers - 1) * (two - one)
        far = 8 * abs(math.log2(built / params)) + abs(math.log2(width / layers / ratio))
        if far < least:
            best, least = (width, layers), far
    if best is None:
        raise UserError(
            f"this model cannot be made as small as {short(params)} parameters",
            where="--sizes",
            todo="choose larger sizes, narrower heads or fewer ids",
        )
    return widened(settings, *best)


def _widths() -> list[int]:
    """64, 128, … in steps that grow with the width."""
    found, width = [], 64
    while width <= WIDEST:
        found.append(width)
        width += 64 if width < 2048 else 256 if width < 8192 else 1024
    return found


def _feed_forward(width: int) -> int:
    step = 64 if width < 4096 else 256
    return -(-8 * width // (3 * step)) * step


def _settings(width: int, layers: int, ties: bool, length: int) -> DecoderSettings:
    return DecoderSettings(
        n_layers=layers,
        d_model=width,
        d_feed_forward=_feed_forward(width),
        n_heads=width // (128 if width >= 4096 else 64),
        bias=False,
        norm="rms",
        order="pre",
        feed_forward="swiglu",
        positions="rotary",
        max_length=length,
        dropout=0.0,
        tie="output" if ties else "none",
    )
