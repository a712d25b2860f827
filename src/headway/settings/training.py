"""How a model is trained and judged."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from headway.base.errors import UserError
from headway.settings.base import Settings
from headway.settings.bounds import WIDEST
from headway.settings.model import Rate

Metric = Literal["loss", "bleu", "chrf", "exact_match", "token_accuracy"]
LabelMetric = Literal["loss", "accuracy", "f1", "matthews", "pearson", "spearman"]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class TrainSettings(Settings):
    """One optimiser step sees `accumulate` batches of at most `batch_tokens` tokens a side.

    `learning_rate` is the peak, reached after `warmup` steps. `inverse_sqrt` falls as 1/√step
    from there (Vaswani et al., 2017, section 5.3), `cosine` and `linear` reach `final_rate` × peak
    at the last step, `wsd` stays at the peak and falls linearly over the last `decay` share of the
    steps. `optimizer` "muon" steps the matrices of linear and recurrent layers by Muon.
    A step sees the same on any number of ranks; with `parallel` "shard" each of them has a part of
    every weight and of its optimiser's state, else all.
    `dtype` "auto" becomes what a probe on this machine finds faster, and so does `compile`.

    With `patience` above 0 training ends after that many evaluations in a row that brought nothing
    better. With `average` above 1 the mean of the weights of the last `average` saves is evaluated
    at the end beside the best so far, and the better of the two is what the run keeps.
    """

    steps: PositiveInt
    batch_tokens: PositiveInt = 4096
    accumulate: PositiveInt = 1
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    learning_rate: PositiveFloat = 1e-3
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant", "wsd"] = "inverse_sqrt"
    warmup: NonNegativeInt = 1000
    final_rate: Fraction = 0.0
    decay: Fraction = 0.2
    betas: Annotated[list[Rate], Field(min_length=2, max_length=2)] = [0.9, 0.98]
    eps: PositiveFloat = 1e-9
    weight_decay: NonNegativeFloat = 0.0
    label_smoothing: Rate = 0.1
    clip: NonNegativeFloat = 1.0
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool | Literal["auto"] = "auto"
    log_every: PositiveInt = 50
    evaluate_every: PositiveInt = 1000
    save_every: PositiveInt = 1000
    keep: PositiveInt = 2
    patience: NonNegativeInt = 0
    average: PositiveInt = 1
    checkpoint_activations: bool = False
    parallel: Literal["replicate", "shard"] = "replicate"

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        if self.compile is True and self.parallel == "shard":
            raise ValueError(
                "train.compile = true makes one graph of a stack, whose weights parallel = 'shard' "
                "gathers block by block: use one of them"
            )
        return self

    @model_validator(mode="after")
    def _decays(self) -> Self:
        if self.optimizer == "adam" and self.weight_decay:
            raise ValueError(
                "weight_decay is for optimizer = 'adamw' or 'muon': in adam it would be a penalty "
                "in the gradient, scaled by the step sizes"
            )
        return self


class TextTrainSettings(TrainSettings):
    """As GPT-2 and Llama are trained (Touvron et al., 2023, section 2.2)."""

    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant", "wsd"] = "cosine"
    final_rate: Fraction = 0.1
    betas: Annotated[list[Rate], Field(min_length=2, max_length=2)] = [0.9, 0.95]
    eps: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.1
    label_smoothing: Rate = 0.0


class MupSettings(Settings):
    """The maximal update parametrisation, μP (Yang et al., 2022): one learning rate for all widths.

    `base_width` is the width that the learning rate was found for, where all is as without; a
    wider model begins and learns so that its activations change as much. `base_head` is the width
    of a head there, if it is not the same.
    """

    base_width: PositiveInt
    base_head: PositiveInt | None = None


class LanguageTrainSettings(TextTrainSettings):
    """Of a causal language model, whose learning rate can be that of another width."""

    mup: MupSettings | None = None


class LoraSettings(Settings):
    """Fine-tuning of low-rank updates alone: W + (α / r) B A (Hu et al., 2022).

    `layers` are the ends of the names of the linear layers that have one. All other weights stay,
    but for a classifier's pooler and head.
    """

    rank: PositiveInt = 8
    alpha: PositiveFloat = 16.0
    layers: Annotated[list[str], Field(min_length=1)] = ["to_query", "to_value"]


class FineTuneSettings(TrainSettings):
    """Fine-tuning as BERT's (Devlin et al., 2019, appendix A.3): few passes, a linear schedule.

    One optimiser step sees `accumulate` batches of `batch_rows` rows; `epochs` passes over the data
    are made if `steps` is 0. The first `warmup_share` of the steps are the warmup if that is 0.
    `evaluate_every` and `save_every` 0 are once a pass. `freeze` are the beginnings of the names of
    weights that stay as they are.
    """

    steps: NonNegativeInt = 0
    epochs: PositiveFloat = 3.0
    batch_rows: PositiveInt = 32
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    learning_rate: PositiveFloat = 2e-5
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant", "wsd"] = "linear"
    warmup: NonNegativeInt = 0
    warmup_share: Fraction = 0.1
    betas: Annotated[list[Rate], Field(min_length=2, max_length=2)] = [0.9, 0.999]
    eps: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.01
    label_smoothing: Rate = 0.0
    evaluate_every: NonNegativeInt = 0
    save_every: NonNegativeInt = 0
    freeze: list[str] = []
    lora: LoraSettings | None = None

    def for_rows(self, n: int) -> Self:
        """With the steps that follow from `n` training rows written out.

        Raises UserError if a step takes more batches than a pass has, and passes are counted.
        """
        batches = math.ceil(n / self.batch_rows)
        if self.accumulate > batches and not self.steps:
            raise UserError(
                f"a step of {self.accumulate} batches, and a pass has {batches} batches",
                where="train.accumulate",
                todo="lower it or train.batch_rows, or set train.steps",
            )
        a_pass = max(1, round(batches / self.accumulate))
        steps = self.steps or max(1, round(self.epochs * batches / self.accumulate))
        return self.model_copy(
            update={
                "steps": steps,
                "warmup": self.warmup or round(self.warmup_share * steps),
                "evaluate_every": self.evaluate_every or a_pass,
                "save_every": self.save_every or a_pass,
            }
        )


class EvaluateSettings(Settings):
    """How translations are made and judged during training and at its end.

    The first `lines` of the validation part are translated greedily at each evaluation, and the
    best weights by `metric` are kept; the test part is translated with `beam` at the end.
    `length_penalty` is α of Wu et al. 2016, equation 14. A translation is at most
    `max_ratio` × source tokens + 10 long. `lowercase` ignores case in all scores.
    """

    metric: Metric = "loss"
    lines: PositiveInt = 500
    samples: NonNegativeInt = 3
    beam: Annotated[int, Field(gt=0, le=WIDEST)] = 4
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    max_ratio: PositiveFloat = 2.0
    lowercase: bool = False
    batch_tokens: PositiveInt = 4096


class TextEvaluateSettings(Settings):
    """How a language model is judged: by the likelihood of held-out text, in nats and in bits.

    At each evaluation the first `rows` rows of each source are read; `samples` beginnings of
    documents, of `prompt_tokens` tokens or half the model's context, are continued by `new_tokens`.
    """

    metric: Literal["loss"] = "loss"
    rows: PositiveInt = 200
    samples: NonNegativeInt = 3
    prompt_tokens: PositiveInt = 32
    new_tokens: PositiveInt = 96
    batch_tokens: PositiveInt = 4096


class LabelEvaluateSettings(Settings):
    """How a classifier is judged; the best weights by `metric` are kept.

    "f1" is that of the second class, "matthews" and "spearman" are the correlations of those names.
    """

    metric: LabelMetric = "accuracy"
    samples: NonNegativeInt = 8
    batch_tokens: PositiveInt = 4096
