"""The recurrent encoder–decoder, with or without attention.

Sutskever et al. 2014 and Cho et al. 2014 without; with it, the decoder's output asks and the
source answers, as in Luong et al. 2015 (section 3.1, global attention), with any of the scores,
Bahdanau's additive one among them.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from headway.models.encoder_decoder import EncoderDecoder
from headway.models.hypotheses import sources_of
from headway.nn.attend import attend
from headway.nn.dropout import Dropout, Noise
from headway.nn.recurrent import Recurrent, RecurrentState
from headway.nn.scores import Score, make_score
from headway.nn.tap import Tap
from headway.nn.visibility import padding
from headway.settings.model import RecurrentSettings


class Looked(NamedTuple):
    """What attention looks at: keys as the score prepares them, values, and which are real."""

    key: Tensor
    value: Tensor
    real: Tensor


class DecoderState(NamedTuple):
    """Where the decoding of N hypotheses stands: recurrent states, what they may look
    at, and what they said last.

    Hypotheses stand source by source, equally many of each; so the sources may be fewer than they.
    """

    recurrent: RecurrentState
    looked: Looked
    said: Tensor  # (N, 1, E)

    def select(self, rows: Tensor) -> Self:
        """The hypotheses `rows` (M,), in that order."""
        sources = sources_of(rows, self.recurrent.n_rows, len(self.looked.real))
        looked = self.looked
        if sources is not None:
            looked = Looked(*(part[sources] for part in looked))
        recurrent = self.recurrent.select(rows)
        return self._replace(recurrent=recurrent, looked=looked, said=self.said[rows])


class RecurrentTranslator(EncoderDecoder[DecoderState, DecoderState]):
    """Encoder, decoder, attention between them if there is a score, and a readout.

    The readout is tanh(W [context; output]) (Luong et al., 2015, equation 5), of the embeddings'
    width, so that the output matrix can be the target embedding. With input feeding it is also a
    part of the decoder's next input.
    """

    def __init__(self, settings: RecurrentSettings, n_source: int, n_target: int) -> None:
        super().__init__()
        d_embedding, width = settings.d_embedding, settings.d_hidden
        self.over_embeddings = settings.attend_over == "embeddings"
        self.source_embedding = nn.Embedding(n_source, d_embedding)
        shared = settings.tie == "all"
        self.target_embedding = (
            self.source_embedding if shared else nn.Embedding(n_target, d_embedding)
        )
        rate, one_mask = settings.dropout, settings.variational
        self.source_dropout = Dropout(rate, one_mask=one_mask)
        self.target_dropout = Dropout(rate, one_mask=one_mask)
        self.encoder = Recurrent(
            settings.cell,
            d_embedding,
            width,
            settings.n_layers,
            bidirectional=settings.bidirectional,
            dropout=rate,
            one_mask=one_mask,
        )
        self.bridge = nn.ModuleList(nn.Linear(width, width) for _ in range(settings.n_layers))
        self.input_feeding = settings.input_feeding
        self.decoder = Recurrent(
            settings.cell,
            d_embedding * (2 if self.input_feeding else 1),
            width,
            settings.n_layers,
            dropout=rate,  # with input feeding one mask for all positions, whatever is set
            one_mask=one_mask,
        )
        d_looked = d_embedding if self.over_embeddings else width
        self.score: Score | None = None
        if settings.score != "none":
            self.score = make_score(settings.score, width, d_looked, rank=settings.score_rank)
        self.tap_weights = Tap()
        self.readout = nn.Linear(width + (d_looked if self.score else 0), d_embedding)
        self.readout_dropout = Dropout(rate, one_mask=one_mask)
        self.head = nn.Linear(d_embedding, n_target, bias=False)
        if settings.tie != "none":
            self.head.weight = self.target_embedding.weight

    def vocabulary_sizes(self) -> tuple[int, int]:
        """How many source and target ids there are rows for."""
        return self.source_embedding.num_embeddings, self.head.out_features

    def alignment_taps(self) -> list[str]:
        """The one attention, if there is a score."""
        return ["tap_weights"] if self.score is not None else []

    def encode(self, source: Tensor, real: Tensor, noise: Noise | None = None) -> DecoderState:
        """Ids (B, S), real (B, S) -> the decoder's first state."""
        embedded = self.source_dropout(self.source_embedding(source), noise)  # (B, S, E)
        states, end = self.encoder(embedded, lengths=real.sum(dim=1), noise=noise)
        begin = tuple(
            tuple(torch.tanh(bridge(part)) for part in parts)
            for bridge, parts in zip(self.bridge, end.layers, strict=True)
        )
        value = (embedded if self.over_embeddings else states)[:, None]  # (B, 1, S, ·)
        key = self.score.keys(value) if self.score else value
        said = embedded.new_zeros(len(source), 1, self.readout.out_features)
        return DecoderState(RecurrentState(begin), Looked(key, value, real), said)

    def decode(self, target: Tensor, encoded: DecoderState, noise: Noise | None = None) -> Tensor:
        """Ids (B, T), the first state -> hidden (B, T, E)."""
        return self._advance(target, encoded, noise)[0]

    def begin(self, encoded: DecoderState) -> DecoderState:
        """The state before the first target token."""
        return encoded

    def advance(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Ids (N, T) after the state -> hidden (N, T, E) and the state after them."""
        return self._advance(ids, state, None)

    def _advance(
        self, ids: Tensor, state: DecoderState, noise: Noise | None
    ) -> tuple[Tensor, DecoderState]:
        embedded = self.target_dropout(self.target_embedding(ids), noise)  # (N, T, E)
        if self.input_feeding:
            parts = []
            for entry in embedded.split(1, dim=1):
                _, state = self._read(torch.cat((entry, state.said), dim=-1), state, noise)
                parts.append(state.said)
            hidden = torch.cat(parts, dim=1)
        else:
            hidden, state = self._read(embedded, state, noise)
        hidden = self.readout_dropout(hidden, noise)  # (N, T, E)
        return hidden, state

    def _read(
        self, entries: Tensor, state: DecoderState, noise: Noise | None
    ) -> tuple[Tensor, DecoderState]:
        """Inputs (N, T, ·) after the state -> readouts (N, T, E) and the state after them."""
        output, recurrent = self.decoder(entries, state=state.recurrent, noise=noise)
        if self.score is not None:
            looked = state.looked
            R, (N, T) = len(looked.real), output.shape[:2]
            context = attend(
                output.reshape(R, 1, N // R * T, -1),  # hypotheses of a source are its queries
                looked.key,
                looked.value,
                score=self.score,
                visibility=padding(looked.real),
                on_weights=self.tap_weights if self.tap_weights.watched else None,
            ).reshape(N, T, -1)  # (N, T, ·)
            output = torch.cat((context, output), dim=-1)
        said: Tensor = torch.tanh(self.readout(output))
        return said, DecoderState(recurrent, state.looked, said[:, -1:])


def initialise_recurrent(model: RecurrentTranslator) -> None:
    """Glorot-uniform input matrices, orthogonal recurrent ones (Saxe et al., 2014), biases 0."""
    for name, weight in model.named_parameters():
        if "embedding" in name or name == "head.weight":
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        elif "weight_hh" in name:
            for gate in weight.chunk(weight.shape[0] // weight.shape[1]):
                nn.init.orthogonal_(gate)
        elif "bias" in name:
            nn.init.zeros_(weight)
        elif weight.dim() == 2:
            nn.init.xavier_uniform_(weight)
