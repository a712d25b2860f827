"""The kinds of recipe: what each trains, from what, and how it is judged."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from headway.settings.base import Settings
from headway.settings.data import DataSettings
from headway.settings.documents import DocumentSettings, MaskingSettings
from headway.settings.model import (
    DecoderSettings,
    EncoderSettings,
    StackSettings,
    TransformerSettings,
    TranslatorSettings,
)
from headway.settings.planned import PlannedSettings
from headway.settings.rows import AnswerSettings, LabelSettings
from headway.settings.tokenizer import PairTokenizerSettings, TokenizerSettings
from headway.settings.toml import dump_toml
from headway.settings.training import (
    EvaluateSettings,
    FineTuneSettings,
    LabelEvaluateSettings,
    LanguageTrainSettings,
    TextEvaluateSettings,
    TextTrainSettings,
    TrainSettings,
)


class Recipe(Settings):
    """A whole run: what it learns from, what it is, how it is trained and judged.

    Each kind of recipe has `data`, `model` and `evaluate` of its own; `FIXED` are the keys that
    stay while a run is resumed: the weights, the ids, the order of the data and the best so far
    rest on them.
    """

    FIXED: ClassVar[tuple[str, ...]] = (
        *("data", "tokenizer", "model", "seed"),
        *("train.batch_tokens", "train.optimizer", "train.dtype", "evaluate.metric"),
    )

    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    data: Settings
    tokenizer: TokenizerSettings
    model: Settings
    train: TrainSettings
    evaluate: Settings

    def to_toml(self) -> str:
        """The resolved recipe, every default written out."""
        return dump_toml(self.to_table())


class TranslationRecipe(Recipe):
    """A translator, from pairs of sentences."""

    FIXED = (*Recipe.FIXED, "evaluate.lines", "evaluate.lowercase")

    data: DataSettings
    tokenizer: PairTokenizerSettings
    model: TranslatorSettings
    evaluate: EvaluateSettings = EvaluateSettings()

    @model_validator(mode="after")
    def _tied_ids(self) -> Self:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tie = 'all' shares one embedding between both languages: it needs "
                "tokenizer.joint = true (or model.tie = 'output')"
            )
        return self

    @model_validator(mode="after")
    def _evaluates(self) -> Self:
        _refuse_waiting(self.train, bool(self.data.valid or self.data.held_out))
        for key in ("checkpoint_activations", "compile"):
            if getattr(self.train, key) is True and self.model.kind == "recurrent":
                raise ValueError(f"train.{key} is for blocks: a recurrent model has none")
        return self


class Foreign(Settings):
    """What is known of a translator from elsewhere, in place of its recipe."""

    model: TransformerSettings
    evaluate: EvaluateSettings = EvaluateSettings()


class _TextRecipe(Recipe):
    """From documents."""

    FIXED = (*Recipe.FIXED, "evaluate.rows")

    data: DocumentSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    train: TextTrainSettings
    evaluate: TextEvaluateSettings = TextEvaluateSettings()

    @model_validator(mode="after")
    def _evaluates(self) -> Self:
        _refuse_waiting(self.train, bool(self.data.valid or self.data.held_out))
        return self


class LanguageRecipe(_TextRecipe):
    """A causal language model, from documents; `plan` is what was expected of it."""

    FIXED = (*_TextRecipe.FIXED, "train.mup")

    model: DecoderSettings
    train: LanguageTrainSettings
    plan: PlannedSettings | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_length(self.data, self.model, self.train)
        model = self.model
        if self.train.mup and (model.order != "pre" or model.norm == "none"):
            raise ValueError(
                "train.mup makes the logits' size a matter of the last norm: it needs "
                "model.order = 'pre' and a model.norm"
            )
        if self.train.mup and model.scale_embedding:
            raise ValueError("train.mup needs model.scale_embedding = false: √D grows with D")
        return self


class MaskedRecipe(_TextRecipe):
    """A masked language model, from documents."""

    FIXED = (*_TextRecipe.FIXED, "masking")

    model: EncoderSettings
    masking: MaskingSettings = MaskingSettings()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _check_length(self.data, self.model, self.train)
        if self.masking.next_sentence and not (self.model.pooler and self.model.n_segments >= 2):
            raise ValueError(
                "masking.next_sentence needs model.pooler = true and model.n_segments = 2"
            )
        return self


_FINE_TUNED = ("train.batch_rows", "train.epochs", "train.lora", "train.freeze")


class LabelRecipe(Recipe):
    """A classifier, or a regression, of texts with labels."""

    FIXED = (*Recipe.FIXED, *_FINE_TUNED)

    data: LabelSettings
    tokenizer: TokenizerSettings = TokenizerSettings(kind="wordpiece")
    model: EncoderSettings
    train: FineTuneSettings = FineTuneSettings()
    evaluate: LabelEvaluateSettings = LabelEvaluateSettings()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _refuse_waiting(self.train, bool(self.data.valid or self.data.held_out))
        if not self.model.pooler:
            raise ValueError("a classifier reads the pooled state: it needs model.pooler = true")
        _refuse_low_rank_beginning(self.train, self.model)
        correlations = ("pearson", "spearman")
        metric = self.evaluate.metric
        if self.data.regression and self.train.label_smoothing:
            raise ValueError("train.label_smoothing is for classes: data.regression has numbers")
        if metric != "loss" and self.data.regression != (metric in correlations):
            said = ", ".join(correlations) if self.data.regression else "accuracy, f1, matthews"
            raise ValueError(
                f"evaluate.metric = '{metric}' does not judge this: use {said} or loss"
            )
        return self


class AnswerRecipe(Recipe):
    """A language model fine-tuned on prompts and their answers."""

    FIXED = (*Recipe.FIXED, *_FINE_TUNED, "evaluate.rows")

    data: AnswerSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    model: DecoderSettings
    train: FineTuneSettings = FineTuneSettings()
    evaluate: TextEvaluateSettings = TextEvaluateSettings()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _refuse_waiting(self.train, bool(self.data.valid or self.data.held_out))
        _refuse_low_rank_beginning(self.train, self.model)
        return self


KINDS: dict[tuple[str, str], type[Recipe]] = {  # of data and of model
    ("pairs", "transformer"): TranslationRecipe,
    ("pairs", "recurrent"): TranslationRecipe,
    ("documents", "decoder"): LanguageRecipe,
    ("documents", "encoder"): MaskedRecipe,
    ("labels", "encoder"): LabelRecipe,
    ("answers", "decoder"): AnswerRecipe,
}


def _refuse_waiting(train: TrainSettings, evaluates: bool) -> None:
    if train.patience and not evaluates:
        raise ValueError(
            "train.patience waits for a better validation score: it needs data.valid "
            "or data.held_out"
        )


def _refuse_low_rank_beginning(
    train: FineTuneSettings, model: EncoderSettings | DecoderSettings
) -> None:
    if train.lora is not None and model.origin is None:
        raise ValueError("train.lora changes a model that exists: it needs model.from")


def _check_length(data: DocumentSettings, model: StackSettings, train: TrainSettings) -> None:
    if data.length is not None and data.length > model.max_length:
        raise ValueError(
            f"rows of data.length = {data.length} do not fit into model.max_length = "
            f"{model.max_length}"
        )
    length = data.length or model.max_length
    if train.batch_tokens < length:
        raise ValueError(
            f"train.batch_tokens = {train.batch_tokens} has no room for a row of {length} tokens: "
            "raise it or lower data.length"
        )
