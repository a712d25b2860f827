"""The Transformer encoder–decoder of "Attention Is All You Need" (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from headway.models.embedding import Embedding
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.hypotheses import sources_of
from headway.nn.attention import KeyValue
from headway.nn.block import Memory
from headway.nn.dropout import Noise
from headway.nn.stack import Cache, Stack, row_positions, step_positions
from headway.nn.visibility import causal, padding
from headway.settings.model import TransformerSettings


class EncodedSource(NamedTuple):
    """The encoder's output (B, S, D) and which of it is real (B, S)."""

    hidden: Tensor
    real: Tensor


class TransformerState(NamedTuple):
    """Where the decoding of N hypotheses stands: the sources as each layer sees them, and the past.

    Hypotheses stand source by source, equally many of each; so the sources may be fewer than they.
    """

    memory: tuple[KeyValue, ...]
    real: Tensor
    past: Cache | None

    def select(self, rows: Tensor) -> TransformerState:
        """The hypotheses `rows` (M,), in that order."""
        past, sources = self.past, rows
        if past is not None:  # which knows how many hypotheses there are
            shared = sources_of(rows, past.n_rows, len(self.real))
            past = past.select(rows)
            if shared is None:
                return self._replace(past=past)
            sources = shared
        memory = tuple(keys.select(sources) for keys in self.memory)
        return TransformerState(memory, self.real[sources], past)


class Transformer(EncoderDecoder[EncodedSource, TransformerState]):
    """Encoder stack, decoder stack, and embeddings that may be one matrix (section 3.4)."""

    def __init__(self, settings: TransformerSettings, n_source: int, n_target: int) -> None:
        super().__init__()
        D = settings.d_model
        source_tokens = nn.Embedding(n_source, D)
        shared = settings.tie == "all"
        target_tokens = source_tokens if shared else nn.Embedding(n_target, D)
        self.source_embedding = Embedding(source_tokens, settings)
        self.target_embedding = Embedding(target_tokens, settings)
        self.encoder = Stack(settings, settings.n_encoder_layers)
        self.decoder = Stack(settings, settings.n_decoder_layers, crosses=True)
        self.head = nn.Linear(D, n_target, bias=settings.head_bias)
        if settings.tie != "none":
            self.head.weight = target_tokens.weight

    def vocabulary_sizes(self) -> tuple[int, int]:
        """How many source and target ids there are rows for."""
        return self.source_embedding.tokens.num_embeddings, self.head.out_features

    def alignment_taps(self) -> list[str]:
        """The cross-attention of each decoder layer."""
        layers = range(len(self.decoder.layers))
        return [f"decoder.layers.{layer}.cross_attention.tap_weights" for layer in layers]

    def encode(self, source: Tensor, real: Tensor, noise: Noise | None = None) -> EncodedSource:
        """Ids (B, S), real (B, S) -> the encoder's output (B, S, D)."""
        positions = row_positions(real)
        hidden, _ = self.encoder(
            self.source_embedding(source, positions, noise),
            visibility=padding(real),
            positions=positions,
            noise=noise,
        )
        return EncodedSource(hidden, real)

    def decode(self, target: Tensor, encoded: EncodedSource, noise: Noise | None = None) -> Tensor:
        """Ids (B, T), the encoder's output -> hidden (B, T, D)."""
        state = self.begin(encoded)
        return self._advance(target, state, noise)[0]

    def begin(self, encoded: EncodedSource) -> TransformerState:
        """The state before the first target token."""
        return TransformerState(self.decoder.memory_keys(encoded.hidden), encoded.real, None)

    def advance(self, ids: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Ids (N, T) after the state -> hidden (N, T, D) and the state after them."""
        return self._advance(ids, state, None)

    def _advance(
        self, ids: Tensor, state: TransformerState, noise: Noise | None
    ) -> tuple[Tensor, TransformerState]:
        start = state.past.length if state.past is not None else 0
        positions = step_positions(start, ids.shape[1], ids.device)
        looks = padding(state.real)
        hidden, past = self.decoder(
            self.target_embedding(ids, positions, noise),
            visibility=causal(),
            positions=positions,
            memory=[Memory(keys, looks) for keys in state.memory],
            past=state.past,
            noise=noise,
        )
        return hidden, state._replace(past=past)


def initialise_transformer(model: Transformer) -> None:
    """Glorot-uniform matrices; embeddings with the deviation 1/√D, so that √D times them is 1."""
    for name, weight in model.named_parameters():
        if "tokens" in name or name == "head.weight":
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        elif name.endswith(".bias"):
            nn.init.zeros_(weight)
        elif (weight.dim() == 2 and ".to_" in name) or ".feed_forward." in name:
            nn.init.xavier_uniform_(weight)
