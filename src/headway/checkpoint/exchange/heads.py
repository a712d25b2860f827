"""What stands above an encoder in a Hugging Face folder: a pooler, a masked head, a classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.names import Row, linear, row, within
from headway.models.encoder import Classifier, Encoder
from headway.settings.model import EncoderSettings

_POOLER = "pooler.dense"


@dataclass(frozen=True)
class Heads:
    """What a family calls its heads.

    The masked head has `transform`, `norm` and `bias`; its matrix is the token embedding. `follows`
    tells next sentences, if the family does. `pooler` is the classifier's own, None if that is the
    encoder's.
    """

    transform: str
    norm: str
    bias: str
    classifier: str
    follows: str | None = None
    pooler: str | None = None

    def has_pooler(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether a folder has a pooler, the encoder's or a classifier's."""
        return any(f"{name}.weight" in tensors for name in (_POOLER, self.pooler))

    def rows(
        self, body: list[Row], settings: EncoderSettings, model: Any
    ) -> tuple[list[Row], list[Row]]:
        """The rows of the encoder and of what the model has above it; `body` is without a pooler.

        Raises UserError for a pooler that the family's masked head does not go with.
        """
        if isinstance(model, Classifier) and self.pooler is not None:
            own = linear("encoder.pooler", self.pooler)
            return within("encoder", body), [*own, *linear("head", self.classifier)]
        body = body + (linear("pooler", _POOLER) if settings.pooler else [])
        if isinstance(model, Encoder):
            return body, []
        body = within("encoder", body)
        if isinstance(model, Classifier):
            return body, linear("head", self.classifier)
        masked = [
            *linear("masked.transform", self.transform),
            *linear("masked.norm", self.norm),
            row("masked.output.bias", self.bias),
        ]
        if not settings.pooler:
            return body, masked
        if self.follows is None:
            what = "transformers has this masked head without a pooler and next sentences"
            todo = "train on from it (model.from) with model.pooler = false"
            raise UserError(what, where="model.pooler", todo=todo)
        return body, [*masked, *linear("follows", self.follows)]

    def without_idle_pooler(self, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """The tensors without a pooler that no head reads, as transformers up to 3.4 wrote it
        beside the masked head; that is said.
        """
        idle = [name for name in tensors if name.startswith("pooler.")]
        follows = self.follows and any(name.startswith(f"{self.follows}.") for name in tensors)
        if not idle or follows or self.bias not in tensors:
            return dict(tensors)
        nothing = f"without {self.follows} nothing" if self.follows else "nothing"
        warnings.warn(f"{where}: its pooler is not taken: {nothing} reads it", stacklevel=4)
        return {name: tensor for name, tensor in tensors.items() if name not in idle}

    def n_classes(
        self, config: Config, tensors: Mapping[str, Tensor], architecture: str
    ) -> int | None:
        """How many outputs a folder's classifier has, None if it has none.

        Raises UserError for one that is not on the pooled state of a text, or does not choose one
        class or give one number.
        """
        head = tensors.get(f"{self.classifier}.weight")
        if head is None:
            return None
        names = config.table.get("architectures")
        if names and not (isinstance(names, list) and architecture in names):
            what = (
                f"'architectures' is {names!r}; the classifier that Headway has is {architecture}'s"
            )
            raise UserError(what, where=config.where, todo="this model cannot be imported")
        if not self.has_pooler(tensors):
            what = "a classifier without a pooler, whose state Headway's classifiers read"
            raise UserError(what, where=config.where, todo="this model cannot be imported")
        n = head.shape[0]
        kind = config.take("problem_type", str, "")
        if kind not in ("", "regression" if n == 1 else "single_label_classification"):
            raise UserError(
                f"'problem_type' is {kind!r} with {n} outputs; Headway's classifiers choose one of "
                "several classes, or give one number",
                where=config.where,
                todo="this model cannot be imported",
            )
        return n
