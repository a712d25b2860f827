"""Parameters and floating-point operations of a model, from its settings alone.

Counted are the multiplications and additions of matrix products (two operations for each weight
that a value meets), as torch.utils.flop_counter does; norms, activations and softmax are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    StackSettings,
    TransformerSettings,
)
from headway.settings.reaching import Layers, layers, seen, widths

Countable = DecoderSettings | EncoderSettings | TransformerSettings
Attention = Literal["reference", "fused"]


@dataclass(frozen=True)
class Parameters:
    """Numbers that a model learns, by where they are; a matrix that serves twice is counted once.

    `head` is what only the output has: its matrix unless it is an embedding, biases, BERT's
    transform and pooler. `shared` are the numbers of the output matrix if it is an embedding.
    """

    embeddings: int
    blocks: int
    head: int
    shared: int

    @property
    def all(self) -> int:
        """Everything that is learned and stored."""
        return self.embeddings + self.blocks + self.head

    @property
    def without_embeddings(self) -> int:
        """The blocks alone, as Kaplan et al. (2020) count: no tokens, no positions, no output."""
        return self.blocks

    @property
    def with_head(self) -> int:
        """The blocks and the output, shared or not: all that a token is multiplied with."""
        return self.blocks + self.head + self.shared


@dataclass(frozen=True)
class StackShape:
    """A stack as the counts need it: how deep, whether it looks at another, whether back only."""

    n_layers: int
    crosses: bool
    causal: bool


def stacks(settings: Countable) -> list[StackShape]:
    """The stacks that these settings have."""
    if isinstance(settings, TransformerSettings):
        return [
            StackShape(settings.n_encoder_layers, crosses=False, causal=False),
            StackShape(settings.n_decoder_layers, crosses=True, causal=True),
        ]
    causal = isinstance(settings, DecoderSettings)
    return [StackShape(settings.n_layers, crosses=False, causal=causal)]


def count_parameters(settings: Countable, n_tokens: int) -> Parameters:
    """The parameters of these settings with `n_tokens` ids (on either side, of a translator).

    An encoder is counted with BERT's heads, a translator with what `model.tie` says.
    """
    V, D = n_tokens, settings.d_model
    blocks = sum(
        shape.n_layers * sum(block_weights(settings, crosses=shape.crosses).values())
        + (_norm_weights(settings) if settings.order == "pre" else 0)
        for shape in stacks(settings)
    )
    below = settings.max_length * D if settings.positions == "learned" else 0
    below += _norm_weights(settings) if settings.norm_embedding else 0
    if isinstance(settings, EncoderSettings):
        blocks += reach_weights(settings)
        transform = D * D + D + _norm_weights(settings)
        follows = D * D + D + 2 * D + 2 if settings.pooler else 0
        below += settings.n_segments * D
        return Parameters(V * D + below, blocks, transform + V + follows, V * D)
    tied = settings.tie != "none"
    if isinstance(settings, DecoderSettings):
        return Parameters(V * D + below, blocks, 0 if tied else V * D, V * D if tied else 0)
    embeddings = (1 if settings.tie == "all" else 2) * V * D + 2 * below
    bias = V if settings.head_bias else 0
    return Parameters(embeddings, blocks, bias + (0 if tied else V * D), V * D if tied else 0)


def forward_flops(
    settings: Countable, n_tokens: int, length: int, *, useful: bool = False
) -> dict[str, float]:
    """Operation -> floating-point operations a token of reading texts of `length` tokens.

    Attention is counted as it is computed: each query with all keys, or in a band with those that
    it and its neighbours see. With `useful` it is counted with the keys that it sees itself: of a
    causal stack (T + 1) / 2. A translator's are those of a target token and a source token, pairs
    of `length` on both sides.
    """
    found: dict[str, float] = {}
    for some, block in _blocks(settings, length, useful=useful):
        for name, flops in block.items():
            found[name] = found.get(name, 0.0) + some.n * flops
    return found | _output(settings, n_tokens)


def training_flops(
    settings: Countable,
    n_tokens: int,
    length: int,
    *,
    attention: Attention = "reference",
    recomputes: bool = False,
    useful: bool = False,
) -> dict[str, float]:
    """Operation -> floating-point operations a token of training: forward, backward, recomputing.

    Backward is twice forward; of fused attention, and in a band, two and a half times, because the
    scores are computed again. With `recomputes` (train.checkpoint_activations) blocks run forward
    once more, but for a last product of which nothing is needed.
    """
    found: dict[str, float] = {}
    fused = _ATTENTION if attention == "fused" and settings.score in _DOTS else ()
    for some, block in _blocks(settings, length, useful=useful):
        again = fused or (_ATTENTION[:2] if some.band else ())
        for name, forward in block.items():
            times = (3.5 if name in again else 3.0) + recomputes
            found[name] = found.get(name, 0.0) + some.n * times * forward
    found |= {name: 3.0 * forward for name, forward in _output(settings, n_tokens).items()}
    if recomputes and settings.order == "pre" and settings.dropout == 0.0:
        n_layers = sum(shape.n_layers for shape in stacks(settings))
        found["feed-forward"] -= n_layers * 2.0 * settings.d_model * settings.d_feed_forward
    if recomputes and isinstance(settings, TransformerSettings):  # a source's keys are kept
        keys = 4.0 * settings.d_model * settings.kv_heads * settings.head_width
        found["cross queries, keys, values"] -= settings.n_decoder_layers * keys
    return found


def generating_flops(settings: DecoderSettings, n_tokens: int, context: int) -> dict[str, float]:
    """Operation -> floating-point operations of one new token after `context` in the cache."""
    shape, n = stacks(settings)[0], context + 1
    found: dict[str, float] = {}
    for width in widths(settings, settings.n_layers):
        some = Layers(1, min(width, n) if width else n)
        for name, flops in _block_flops(settings, shape, some, 0).items():
            found[name] = found.get(name, 0.0) + flops
    return found | _output(settings, n_tokens)


def _output(settings: Countable, n_tokens: int) -> dict[str, float]:
    found = 2.0 * n_tokens * settings.d_model
    if isinstance(settings, EncoderSettings):
        found += 2.0 * settings.d_model**2  # the transform; the pooler is one a text
    return {"output": found}


_ATTENTION: tuple[str, ...] = (
    *("scores", "weighted values"),
    *("cross scores", "cross weighted values"),
)
_DOTS = ("dot", "scaled_dot")


def _norm_weights(settings: StackSettings) -> int:
    return {"layer": 2, "lecture": 2, "rms": 1, "none": 0}[settings.norm] * settings.d_model


def reach_weights(settings: EncoderSettings) -> int:
    """What layers that do not look at everything learn beside: global projections, mixtures."""
    if settings.n_keys is not None:
        mixtures = {"heads": 2 * settings.n_layers, "keys_and_values": settings.n_layers}
        return mixtures.get(settings.mixes, 1) * settings.n_keys * settings.max_length
    D, queries = settings.d_model, settings.n_heads * settings.head_width
    values, bias = settings.kv_heads * settings.head_width, settings.biases_attention
    own = _linear(D, queries, bias=bias) + 2 * _linear(D, values, bias=bias)
    near = sum(map(bool, widths(settings, settings.n_layers)))
    return near * own if settings.n_global else 0


def _blocks(
    settings: Countable, length: int, *, useful: bool
) -> Iterator[tuple[Layers, dict[str, float]]]:
    """The layers by their reach, and the operations of one of each."""
    for shape in stacks(settings):
        computed = layers(settings, shape.n_layers, length, causal=shape.causal)
        if useful:
            own = seen(settings, shape.n_layers, length, causal=shape.causal)
            computed = [
                each._replace(keys=one.keys) for each, one in zip(computed, own, strict=True)
            ]
        for some in computed:
            yield some, _block_flops(settings, shape, some, length)


def _linear(inputs: int, outputs: int, *, bias: bool) -> int:
    return inputs * outputs + (outputs if bias else 0)


def block_matrices(settings: StackSettings, shape: StackShape) -> int:
    """The numbers in the matrices of one block: all but biases and norms."""
    plain = settings.model_copy(update={"bias": False, "attention_bias": False, "norm": "none"})
    return sum(block_weights(plain, crosses=shape.crosses).values())


def _score_weights(settings: StackSettings) -> int:
    """The parameters of the score of one layer."""
    H, G, K = settings.n_heads, settings.kv_heads, settings.head_width
    R = settings.score_rank or K
    sizes: dict[str, int] = {
        "bilinear": H * K * K,
        "low_rank_bilinear": 2 * H * K * R,
        "additive": H * K * R + G * K * R + H * R,
    }
    return sizes.get(settings.score, 0)


def block_weights(settings: StackSettings, *, crosses: bool) -> dict[str, int]:
    """Part -> parameters of one block."""
    D, F = settings.d_model, settings.d_feed_forward
    queries, keys = settings.n_heads * settings.head_width, settings.kv_heads * settings.head_width
    biased = settings.biases_attention
    attention = _linear(D, queries, bias=biased) + 2 * _linear(D, keys, bias=biased)
    attention += _linear(queries, D, bias=biased) + _score_weights(settings)
    ups = 2 if settings.feed_forward == "swiglu" else 1
    parts = {
        "attention": attention,
        "feed-forward": ups * _linear(D, F, bias=settings.bias) + _linear(F, D, bias=settings.bias),
        "norms": (3 if crosses else 2) * _norm_weights(settings),
    }
    return parts | ({"cross-attention": attention} if crosses else {})


def _block_flops(
    settings: StackSettings, shape: StackShape, some: Layers, length: int
) -> dict[str, float]:
    """Operation -> operations a token of one block, in texts (and with sources) of `length`."""
    D, F = settings.d_model, settings.d_feed_forward
    queries, values = (
        settings.n_heads * settings.head_width,
        settings.kv_heads * settings.head_width,
    )
    ups = 2 if settings.feed_forward == "swiglu" else 1

    def looking(at: float) -> dict[str, float]:
        return {
            "queries, keys, values": 2.0 * D * (queries + 2 * values),
            "scores": _score_flops(settings)(at),
            "weighted values": 2.0 * queries * at,
            "attention output": 2.0 * queries * D,
        }

    found = {**looking(some.keys), "feed-forward": 2.0 * (ups + 1) * D * F}
    if some.every:  # each of them meets all keys, which are made for them once more
        found["queries, keys, values"] += 2.0 * D * (queries * some.every / length + 2 * values)
        found["scores"] += 2.0 * queries * some.every
        found["weighted values"] += 2.0 * queries * some.every
    if some.mixed:
        found["mixtures"] = 4.0 * some.keys * values
    if shape.crosses:
        found |= {f"cross {name}": flops for name, flops in looking(length).items()}
    return found


def _score_flops(settings: StackSettings) -> Callable[[float], float]:
    """Keys a query looks at -> operations of one layer's scores a token."""
    H, G, K = settings.n_heads, settings.kv_heads, settings.head_width
    R = settings.score_rank or K
    return {
        "dot": lambda keys: 2.0 * H * K * keys,
        "scaled_dot": lambda keys: 2.0 * H * K * keys,
        "bilinear": lambda keys: 2.0 * H * K * K + 2.0 * H * K * keys,
        "low_rank_bilinear": lambda keys: 4.0 * H * K * R + 2.0 * H * K * keys,
        "additive": lambda keys: 2.0 * (H + G) * K * R + 2.0 * H * R * keys,
    }[settings.score]
