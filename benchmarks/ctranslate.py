"""CTranslate2 with the weights of a Transformer of ours, in the folder that Headway exports.

Its tokens are the ids as words, and those that begin and end a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import ctranslate2
import torch

from headway.checkpoint.exchange.ctranslate import fill_ctranslate2
from headway.models.seq2seq import Transformer
from headway.settings.model import TransformerSettings


class CTranslate:
    """A model that translates ids; `symbols` are those of pad, unk, bos and eos."""

    def __init__(
        self,
        ours: Transformer,
        settings: TransformerSettings,
        symbols: Mapping[str, int],
        folder: Path,
    ) -> None:
        sides = [[str(token) for token in range(n)] for n in ours.vocabulary_sizes()]
        special = {name: str(symbols[name]) for name in ("bos", "eos", "unk")}
        fill_ctranslate2(folder, ours, settings, (sides[0], sides[1]), special)
        self._banned = [[str(symbols[name])] for name in ("pad", "bos")]
        self._model = ctranslate2.Translator(
            str(folder),
            device="cpu",
            compute_type="float32",
            intra_threads=torch.get_num_threads(),
        )

    def translate(
        self, sources: Sequence[Sequence[int]], *, width: int, limit: int
    ) -> list[list[int]]:
        """The best translation of each source, which ends with eos, by beam search: ids."""
        results = self._model.translate_batch(
            [[str(token) for token in source] for source in sources],
            beam_size=width,
            max_decoding_length=limit,
            length_penalty=0,
            suppress_sequences=self._banned,
            disable_unk=True,
        )
        return [[int(token) for token in each.hypotheses[0]] for each in results]
