"""What a model is made of, as data: the rows of which every landmark model is one."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from headway.settings.base import Settings

Score = Literal["dot", "scaled_dot", "bilinear", "low_rank_bilinear", "additive"]
FeedForward = Literal["relu", "silu", "gelu", "gelu_tanh", "swiglu"]
Positions = Literal["none", "learned", "sinusoidal", "rotary"]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]


class RotaryScaling(Settings):
    """How Llama 3.1 stretches its rotary positions beyond the length of its pretraining.

    Waves shorter than `original_max_length / high_frequency` turn as before; those longer than
    `original_max_length / low_frequency` turn `factor` times more slowly; between, in between.
    """

    factor: PositiveFloat
    low_frequency: PositiveFloat = 1.0
    high_frequency: PositiveFloat = 4.0
    original_max_length: PositiveInt

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_frequency >= self.high_frequency:
            raise ValueError("low_frequency must be below high_frequency")
        return self


class StackSettings(Settings):
    """One stack of Transformer blocks, without its depth: what all its layers share.

    `bias` is of the linear layers, those of attention too unless `attention_bias` differs. `norm`
    "layer" has the variance inside the root, "lecture" divides by σ + ε; `order` "post" is
    the original's, "pre" GPT-2's. `n_kv_heads` fewer than `n_heads` groups the query heads.
    `residual = false` and `norm = "none"` exist for studies of what they are for. Of the embedding
    below the stack, `scale_embedding` multiplies tokens by √D and `norm_embedding` norms the sum.

    `reach` is how far a query sees in its own text, in turn for one layer after the other: 0 is
    all of it; a number W is W / 2 keys to each side, and of a causal stack the last W keys, its
    own included ([512] is Longformer's, [4096, 0] Gemma 2's).
    """

    d_model: PositiveInt
    d_feed_forward: PositiveInt
    n_heads: PositiveInt
    n_kv_heads: PositiveInt | None = None
    d_head: PositiveInt | None = None
    bias: bool = True
    attention_bias: bool | None = None
    score: Score = "scaled_dot"
    score_rank: PositiveInt | None = None
    reach: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, strict=False)] = (
        0,
    )
    norm: Literal["layer", "lecture", "rms", "none"] = "layer"
    norm_eps: PositiveFloat = 1e-5
    order: Literal["pre", "post"] = "post"
    residual: bool = True
    feed_forward: FeedForward = "relu"
    positions: Positions = "sinusoidal"
    rotary_theta: PositiveFloat = 10_000.0
    rotary_scaling: RotaryScaling | None = None
    max_length: PositiveInt = 512
    scale_embedding: bool = False
    norm_embedding: bool = False
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    activation_dropout: Rate | None = None

    @property
    def inner_dropout(self) -> float:
        """Of what is inside the feed-forward network; as of the rest if it is not set."""
        return self.dropout if self.activation_dropout is None else self.activation_dropout

    @property
    def head_width(self) -> int:
        """K: the width of one head."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """G: the number of key/value heads."""
        return self.n_kv_heads or self.n_heads

    @property
    def biases_attention(self) -> bool:
        """Whether the linear layers of attention have a bias."""
        return self.bias if self.attention_bias is None else self.attention_bias

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads = {self.n_heads} does not divide d_model = {self.d_model}: "
                "choose a divisor or set d_head"
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"n_heads = {self.n_heads} is not a multiple of n_kv_heads = {self.kv_heads}"
            )
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(
                f"rotary positions turn pairs: the head width {self.head_width} must be even"
            )
        if self.rotary_scaling is not None and self.positions != "rotary":
            raise ValueError(f"rotary_scaling has no meaning for positions = '{self.positions}'")
        if self.positions == "rotary" and self.score not in ("dot", "scaled_dot"):
            raise ValueError(
                "rotary positions show in the dot product of turned queries and keys: they need "
                f"the score 'dot' or 'scaled_dot', not '{self.score}'"
            )
        _check_rank(self.score, self.score_rank)
        return self


class TransformerSettings(StackSettings):
    """The encoder–decoder of "Attention Is All You Need" (Vaswani et al., 2017).

    `tie` says which embedding matrices are one: "none", "output" (target embedding and output
    projection), "all" (both embeddings and the output; needs a joint tokeniser). `head_bias` gives
    each target token a number of its own, as Marian does.
    """

    kind: Literal["transformer"] = "transformer"
    n_encoder_layers: PositiveInt
    n_decoder_layers: PositiveInt
    scale_embedding: bool = True
    head_bias: bool = False
    tie: Literal["none", "output", "all"] = "all"


class _TextStack(StackSettings):
    """One stack on one text, which may begin from weights that exist.

    `origin`, in a recipe `from`, is a run, a Hugging Face folder or a .gguf file: weights and
    tokeniser come from there, and so do the settings that are not given.
    """

    n_layers: PositiveInt
    origin: Annotated[str | None, Field(alias="from")] = None

    @field_validator("origin")
    @classmethod
    def _is_set(cls, path: str | None) -> str | None:
        if path == "":
            raise ValueError(NO_ORIGIN)
        return path


NO_ORIGIN = (
    "names no model to begin from; give it as --set model.from=PATH, "
    "or by headway finetune RECIPE --from PATH"
)


class DecoderSettings(_TextStack):
    """A causal language model: GPT (Radford et al., 2018, 2019), Llama (Touvron et al., 2023).

    `tie` "output" makes the embedding and the output projection one matrix.
    """

    kind: Literal["decoder"] = "decoder"
    tie: Literal["none", "output"] = "output"


class EncoderSettings(_TextStack):
    """A bidirectional encoder: BERT (Devlin et al., 2019), Longformer (Beltagy et al., 2020),
    Linformer (Wang et al., 2020).

    `n_segments` kinds of text are told apart by a vector each (0: none is added). The `pooler` is
    a layer on the first token's state, for tasks on whole texts.

    The keys of a `reach` are `dilation` apart, in turn for one layer after the other as well. The
    first `n_global` tokens see all, by projections of their own, and are seen by all (Beltagy et
    al., section 3.1). With `n_keys` a layer sees so many mixtures of all keys in their place,
    and of all values (Wang et al., section 4); `mixes` says whose mixtures are the same: those of
    the heads of a layer, of its keys and values too, or of all layers.
    """

    kind: Literal["encoder"] = "encoder"
    positions: Positions = "learned"
    feed_forward: FeedForward = "gelu"
    norm_embedding: bool = True
    n_segments: Annotated[int, Field(ge=0)] = 2
    pooler: bool = True
    dilation: Annotated[tuple[PositiveInt, ...], Field(min_length=1, strict=False)] = (1,)
    n_global: Annotated[int, Field(ge=0)] = 0
    n_keys: PositiveInt | None = None
    mixes: Literal["heads", "keys_and_values", "layers"] = "heads"

    @model_validator(mode="after")
    def _reaches(self) -> Self:
        if self.n_global and not any(self.reach):
            raise ValueError("n_global is for layers that do not see all: set reach")
        if set(self.dilation) != {1} and not any(self.reach):
            raise ValueError("dilation is for layers that do not see all: set reach")
        if self.n_keys is not None and any(self.reach):
            raise ValueError("n_keys mixes all keys: it goes without reach")
        if self.n_keys is not None and self.n_keys > self.max_length:
            raise ValueError(f"n_keys = {self.n_keys} are more than max_length = {self.max_length}")
        if any(width % 2 for width in self.reach):
            raise ValueError("a reach has as many keys on one side as on the other: make it even")
        return self


class RecurrentSettings(Settings):
    """The recurrent encoder–decoder (Cho et al., 2014; Bahdanau et al., 2015; Luong et al., 2015).

    `score` "none" leaves the decoder with the encoder's last state alone; any other score gives it
    attention over the encoder's "states" or over the source "embeddings". With `input_feeding` the
    decoder also reads what the attention before gave (Luong et al., 2015, section 3.3), which takes
    its training one position at a time. `variational` drops the same elements at all positions of a
    row (Gal & Ghahramani, 2016), in the inputs and outputs of the layers.
    """

    kind: Literal["recurrent"] = "recurrent"
    cell: Literal["gru", "lstm"] = "gru"
    d_embedding: PositiveInt = 128
    d_hidden: PositiveInt = 256
    n_layers: PositiveInt = 1
    bidirectional: bool = True
    score: Literal["none", Score] = "none"
    score_rank: PositiveInt | None = None
    attend_over: Literal["states", "embeddings"] = "states"
    input_feeding: bool = False
    dropout: Rate = 0.1
    variational: bool = False
    max_length: PositiveInt = 512
    tie: Literal["none", "output", "all"] = "none"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.input_feeding and self.score == "none":
            raise ValueError("input_feeding feeds what attention gives: it needs a score")
        if self.bidirectional and self.d_hidden % 2:
            raise ValueError(
                f"d_hidden = {self.d_hidden} must be even: each direction has half of it"
            )
        d_keys = self.d_hidden if self.attend_over == "states" else self.d_embedding
        if self.score in ("dot", "scaled_dot") and d_keys != self.d_hidden:
            raise ValueError(
                f"the score '{self.score}' compares vectors of one width: d_hidden = "
                f"{self.d_hidden} but the embeddings have {d_keys}; choose another score"
            )
        _check_rank(self.score, self.score_rank)
        return self


def _check_rank(score: str, rank: int | None) -> None:
    if score == "low_rank_bilinear" and rank is None:
        raise ValueError("the score 'low_rank_bilinear' needs score_rank")
    if score in ("dot", "scaled_dot", "bilinear", "none") and rank is not None:
        raise ValueError(f"score_rank has no meaning for the score '{score}'")


TranslatorSettings = Annotated[TransformerSettings | RecurrentSettings, Field(discriminator="kind")]
