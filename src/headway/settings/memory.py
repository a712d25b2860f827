"""Bytes of a model in training and with a cache, from its settings alone.

They are those of the tensors that Headway's own training keeps: weights, gradients and optimiser in
float32, what the backward pass needs in the dtype of the products. A device's allocator adds to
them what it cannot use again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.settings.counting import (
    Attention,
    Countable,
    StackShape,
    block_matrices,
    block_weights,
    count_parameters,
    reach_weights,
    stacks,
)
from headway.settings.model import DecoderSettings, EncoderSettings, StackSettings
from headway.settings.reaching import (
    CPU_CROSSING_DOCUMENTS,
    SIDE,
    SLAB,
    Band,
    Layers,
    layers,
    widths,
)

_EXACT = 4  # bytes of a float32 number
Device = Literal["cpu", "accelerator"]
LOSS_ROWS = 512  # as many rows of logits are held at a time: headway.training.losses.CHUNK


@dataclass(frozen=True)
class Batch:
    """What one device works on at a time: `rows` texts of `length` tokens, and how.

    Of the tokens a share `predicted` is scored: all of a decoder's, those hidden of an encoder's.
    With `accumulates` gradients of an earlier batch of the step are there already. Rows that are
    `packed` hold several documents, so that fused attention needs a mask of its own; on a CPU that
    is not built for long ones, which are attended to a block at a time.
    """

    rows: int
    length: int
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Attention = "fused"
    recomputes: bool = False
    accumulates: bool = False
    packed: bool = True
    predicted: float = 1.0
    device: Device = "accelerator"

    @property
    def tokens(self) -> int:
        """Tokens of a batch, on one side."""
        return self.rows * self.length

    @property
    def width(self) -> int:
        """Bytes of a number in matrix products."""
        return 4 if self.dtype == "float32" else 2


@dataclass(frozen=True)
class TrainingBytes:
    """Bytes of one training step on one device.

    `activations` is what the forward pass leaves for the backward pass (with recomputing: what
    enters each block, and one block in full); `loss` what the output and its loss need beside it.
    They are gone when the last gradient is made, so that the peak is less than the sum. `judged` is
    the whole model that the first of several devices keeps beside its part, to judge it.
    """

    weights: int
    optimizer: int
    gradients: int
    activations: int
    loss: int
    judged: int
    peak: int


def training_bytes(
    settings: Countable,
    n_tokens: int,
    batch: Batch,
    *,
    optimizer: str = "adamw",
    shards: int = 1,
    judges: bool = True,
) -> TrainingBytes:
    """The bytes of a step of training these settings with `n_tokens` ids.

    With `shards` weights, gradients and optimiser lie in equal parts on that many devices (fully
    sharded data parallelism). Each of them gathers a block while it is used, what is in no block
    for the whole of a batch. The bytes are those of the first one, which also `judges`: it keeps a
    whole model for that, from the first step to the last.
    """
    parameters = count_parameters(settings, n_tokens).all
    matrices = sum(shape.n_layers * block_matrices(settings, shape) for shape in stacks(settings))
    moments = 2 * parameters - (matrices if optimizer == "muon" else 0)
    weights, gradients = _EXACT * parameters // shards, _EXACT * parameters // shards
    state = _EXACT * moments // shards
    block, rest, judged = 0, 0, 0
    if shards > 1:
        largest, alone = _gathered_alone(settings)
        block, rest = 2 * _EXACT * largest, _EXACT * (parameters - alone)  # its gradients as well
        judged = _EXACT * parameters if judges else 0
    kept, working = _activations(settings, batch)
    if batch.dtype == "bfloat16" and not batch.recomputes:
        kept += batch.width * matrices  # autocast keeps the weights that it cast, whole everywhere
    rows = round(batch.tokens * batch.predicted)
    states = _EXACT * rows * settings.d_model  # those that are scored, or their gradients
    output = _EXACT * n_tokens * settings.d_model  # the gradient of the output matrix
    logits = min(LOSS_ROWS, rows) * n_tokens * (4 if batch.dtype == "float32" else 6)
    loss = logits + 2 * output + 2 * states
    # backward begins with the output's gradient, and ends with the embedding's beside all others,
    # which are parts but for those of what is gathered for the whole batch
    backward = kept + output + states + max(working, output + states)
    backward = max(backward, gradients + rest + output + working + block)
    forward = kept + loss
    if batch.accumulates:
        forward, backward = forward + gradients, backward + gradients
    peak = weights + state + judged + rest + block + max(forward, backward, gradients)
    return TrainingBytes(weights, state, gradients, kept + working, loss, judged, peak)


def _gathered_alone(settings: Countable) -> tuple[int, int]:
    """Numbers of the largest part that is gathered by itself, and of all of these together.

    As in headway.training.ranks: a block; of one whose keys of another stack are made outside of
    it, its feed-forward layer. Blocks that share weights are gathered with all the rest.
    """
    if isinstance(settings, EncoderSettings) and settings.n_keys and settings.mixes == "layers":
        return 0, 0
    largest, together = 0, 0
    for shape in stacks(settings):
        parts = block_weights(settings, crosses=shape.crosses)
        part = parts["feed-forward"] if shape.crosses else sum(parts.values())
        largest, together = max(largest, part), together + shape.n_layers * part
    if isinstance(settings, EncoderSettings):  # what the layers that do not see all learn beside
        reach = reach_weights(settings)
        near = sum(map(bool, widths(settings, settings.n_layers))) or settings.n_layers
        largest, together = largest + reach // near, together + reach
    return largest, together


def cache_bytes(settings: DecoderSettings, length: int, *, rows: int = 1, width: int = 4) -> int:
    """Keys and values of `rows` texts of `length` tokens: 2 · L · G · K numbers a token."""
    a_token = 2 * settings.n_layers * settings.kv_heads * settings.head_width
    return width * rows * length * a_token


def _activations(settings: Countable, batch: Batch) -> tuple[int, int]:
    """Bytes that the forward pass leaves, and those that the backward pass of a block adds."""
    kept, working = 0, 0
    D = settings.d_model
    for shape in stacks(settings):
        for some in layers(settings, shape.n_layers, batch.length, causal=shape.causal):
            masked = _masked(settings, shape, some, batch)
            block = batch.tokens * _block(settings, shape, some, batch, masked=masked)
            added = _passing(settings, shape, some, batch)
            if batch.recomputes:
                kept += some.n * batch.tokens * D * _EXACT
                added += block
            else:
                kept += some.n * block
            working = max(working, added)
            if masked:
                kept += batch.tokens * batch.length * _EXACT
        kept += batch.tokens * (_norm(settings) if settings.order == "pre" else 0)
    below = 16 + (_norm(settings) if settings.norm_embedding else 0)  # ids, targets
    below += D * _EXACT if settings.dropout else 0
    if isinstance(settings, EncoderSettings):
        below += round(batch.predicted * (2 * _norm(settings) + 2 * D * batch.width))
    return kept + batch.tokens * below, working


def _masked(settings: StackSettings, shape: StackShape, some: Layers, batch: Batch) -> bool:
    """Whether attention is given a mask that is not just causal."""
    needed = some.masked or batch.packed or not shape.causal
    return needed and not (some.band or some.mixed or _in_blocks(settings, shape, batch))


def _in_blocks(settings: StackSettings, shape: StackShape, batch: Batch) -> bool:
    """Whether documents are attended to a block at a time: as headway.nn.attend chooses."""
    documents = batch.packed and shape.causal and not shape.crosses
    long = batch.length**2 >= CPU_CROSSING_DOCUMENTS["training"]
    here = batch.device == "cpu" and batch.dtype == "float32"
    return documents and long and here and _fuses(settings, batch)


def _passing(settings: StackSettings, shape: StackShape, some: Layers, batch: Batch) -> int:
    """Bytes of the gradients within a block: of its inner values or of its weights.

    The weights' come when what the feed-forward part had kept is gone.
    """
    ups = 2 if settings.feed_forward == "swiglu" else 1
    inner = ups * settings.d_feed_forward * _EXACT
    keys = 0.0 if _fuses(settings, batch) or some.band else some.keys
    if shape.crosses and not _fuses(settings, batch):
        keys = max(keys, batch.length)
    wide = (settings.score_rank or settings.head_width) + 1 if settings.score == "additive" else 1
    weights = round(batch.tokens * settings.n_heads * keys * wide * _EXACT)
    weights += _in_band(settings, some.band, batch) if some.band else 0
    if not some.band and _in_blocks(settings, shape, batch):
        weights += _of_blocks(settings, batch)
    return max(batch.tokens * inner, weights - batch.tokens * _feed_forward(settings, batch))


def _in_band(settings: StackSettings, band: Band, batch: Batch) -> int:
    """Bytes of the backward pass of attention in a band: its copies, its sums, and a slab."""
    H, G, K = settings.n_heads, settings.kv_heads, settings.head_width
    queries = batch.rows * band.queries(batch.length)
    keys = queries + batch.rows * band.around
    chunk = batch.rows * H * band.chunk * band.met
    slab = min(max(1, SLAB // chunk) * chunk, queries * H * band.met)
    arrays = 4 if settings.attention_dropout else 3
    copies = (3 * queries * H + 2 * keys * G) * K * batch.width
    return copies + 2 * keys * G * K * _EXACT + arrays * slab * _EXACT


def _of_blocks(settings: StackSettings, batch: Batch) -> int:
    """Bytes of the backward pass of attention in blocks: its sums, and three blocks of weights.

    While those of a block are made, those of the block before and their gradients are still there.
    """
    H, G, K = settings.n_heads, settings.kv_heads, settings.head_width
    blocks = 3 * batch.rows * H * SIDE**2
    return (blocks + batch.tokens * (H + 2 * G) * K) * _EXACT


def _fuses(settings: StackSettings, batch: Batch) -> bool:
    """Whether attention is the kernel that never holds its weights."""
    dots = settings.score in ("dot", "scaled_dot")
    return batch.attention == "fused" and dots and not settings.attention_dropout


def _block(
    settings: StackSettings, shape: StackShape, some: Layers, batch: Batch, *, masked: bool
) -> int:
    """Bytes a token that one block leaves for its backward pass."""
    D, width = settings.d_model, batch.width
    ways = 3 if shape.crosses else 2
    found = ways * _norm(settings)
    found += ways * D * width if settings.dropout else 0  # the masks around the parts
    found += _looking(settings, some, batch, inputs=3, masked=masked)
    if shape.crosses:
        source = Layers(1, batch.length)
        found += _looking(settings, source, batch, inputs=1, masked=True)
    return found + _feed_forward(settings, batch)


def _feed_forward(settings: StackSettings, batch: Batch) -> int:
    """Bytes a token that a feed-forward part leaves: what came in, and its inner values."""
    inner = {"swiglu": 4, "relu": 1}.get(settings.feed_forward, 2)
    if settings.inner_dropout:
        inner += 2 if settings.feed_forward == "relu" else 1
    entered = _copies(settings, batch, 2 if settings.feed_forward == "swiglu" else 1)
    return entered + inner * settings.d_feed_forward * batch.width


def _copies(settings: StackSettings, batch: Batch, products: int) -> int:
    """What enters so many products at once: one for all, but cast for each in bfloat16."""
    return settings.d_model * batch.width * (products if batch.dtype == "bfloat16" else 1)


def _norm(settings: StackSettings) -> int:
    """Bytes a token that a norm leaves: what came in, statistics, and for some a second form."""
    forms = {"layer": 1, "rms": 2, "lecture": 3, "none": 0}[settings.norm]
    return _EXACT * (forms * settings.d_model + (2 if forms else 0))


def _looking(
    settings: StackSettings, some: Layers, batch: Batch, *, inputs: int, masked: bool
) -> int:
    """Bytes a token that one attention leaves: what came in, its heads, its weights, its result."""
    H, G, K = settings.n_heads, settings.kv_heads, settings.head_width
    R, keys = settings.score_rank or K, some.keys
    inputs += 2 if some.every else 0  # keys and values once more, for those that see all
    found = _copies(settings, batch, inputs) + (2 * H + 2 * G) * K * batch.width
    found += 2 * G * K * batch.width if some.every else 0
    if settings.score not in ("dot", "scaled_dot"):
        changed = {"bilinear": K, "low_rank_bilinear": K + R, "additive": R + R * round(keys)}
        found += H * changed[settings.score] * batch.width
    if some.mixed:
        found += round(2 * G * K * keys * batch.width / batch.length)
    if some.band:
        return found
    if _fuses(settings, batch):
        return found + H * _EXACT + (H * K * batch.width if masked else 0)
    weights = _EXACT + batch.width + (_EXACT if settings.attention_dropout else 0)
    return found + round(H * keys * weights)
