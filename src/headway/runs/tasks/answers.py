"""Answering: a decoder fine-tuned on prompts and the answers that it is to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch

from headway.base.errors import UserError
from headway.batches.by_length import AnswerBatches, like_lengths
from headway.batches.pairs import EncodedSide
from headway.checkpoint.run import RunFolder
from headway.data.answers import conversation, read_answers
from headway.data.examples import Examples
from headway.data.pair_stream import FEW
from headway.data.tables import PartName
from headway.evaluate.likelihood import Likelihood
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.runs.generated import Sampling
from headway.runs.language_model import LanguageModel
from headway.runs.tasks.base import Judgement, Material
from headway.runs.tasks.ending import PASSAGES
from headway.runs.tasks.held import HeldTask
from headway.runs.text_tokenizers import recipe_tokenizer, tokenizer_files
from headway.settings.kinds import AnswerRecipe
from headway.training.losses import token_statistics
from headway.training.objectives import PredictNext

Pieces = list[tuple[list[int], bool]]
"""Ids, and whether they are to be learnt."""


@dataclass(frozen=True)
class AnswerRows:
    """Rows of ids of which those are learnt that `learnt` marks with 1.

    `ends` is how many have their last end symbol among them; `left_out` how many examples have no
    answer within the length, `refused` the lines of those that the chat template does not take.
    """

    ids: EncodedSide
    learnt: EncodedSide
    ends: int
    left_out: int
    refused: list[int]


class AnswerPart(NamedTuple):
    """A part as it was read, and as ids."""

    examples: Examples
    rows: AnswerRows


@dataclass(frozen=True)
class AnswerTask(HeldTask[LanguageModel, AnswerPart]):
    """A recipe for prompts and answers."""

    recipe: AnswerRecipe

    @classmethod
    def prepare(cls, recipe: AnswerRecipe, folder: RunFolder | None) -> Self:
        """Read, learn or open the tokeniser, encode."""
        train = read_answers(recipe.data, "train")
        assert train is not None, "the settings require a training part"
        texts = (text for row in train.rows for text in row)
        tokenizer = recipe_tokenizer(recipe.model, recipe.tokenizer, folder, texts)
        rows = cls(recipe, tokenizer).encode(train)  # their number says how many steps there are
        steps = recipe.train.for_rows(len(rows.ids.lengths))
        task = cls(recipe.model_copy(update={"train": steps}), tokenizer)
        valid, valid_hashes = task.held("valid")
        test, test_hashes = task.held("test")
        parts = {"train": AnswerPart(train, rows), "valid": valid, "test": test}
        material = task._material(
            {name: part for name, part in parts.items() if part is not None},
            {"train": train.digest(), **valid_hashes, **test_hashes},
        )
        return replace(task, material=material, valid=valid, test=test)

    def held(self, name: PartName) -> tuple[AnswerPart | None, dict[str, str]]:
        """The rows of the part; of the validation part the first that an evaluation reads."""
        found = read_answers(self.recipe.data, name)
        if found is None:
            return None, {}
        first = found.first(self.recipe.evaluate.rows) if name == "valid" else found
        return AnswerPart(first, self.encode(first)), {name: found.digest()}

    @property
    def longest(self) -> int:
        """The most ids of a row."""
        return min(self.recipe.data.max_tokens, self.recipe.model.max_length)

    def build(self) -> Decoder:
        """The model with its first weights."""
        return build_decoder(self.recipe.model, **self.sizes, seed=self.recipe.seed)

    def open(self, model: Decoder, device: torch.device) -> LanguageModel:
        """The model with its tokeniser."""
        return LanguageModel(model, self.tokenizer, self.recipe.model, device)

    def encode(self, examples: Examples) -> AnswerRows:
        """The rows of a part, each cut to the longest; those without an answer are left out.

        Raises UserError if none is left, and if the chat template refuses more rows than the
        recipe allows to be bad.
        """
        ids, learnt, ends = list[list[int]](), list[list[int]](), 0
        whole_rows, refused = self._taken(examples)
        for pieces in whole_rows:
            row = [id for some, _ in pieces for id in some][: self.longest]
            marks = [int(said) for some, said in pieces for _ in some][: self.longest]
            whole = sum(len(some) for some, _ in pieces) <= self.longest
            if not any(marks[1:]):  # nothing stands before the first id, to predict it from
                continue
            last = max(place for place, mark in enumerate(marks) if mark)
            ends += whole and row[last] in self.tokenizer.roles.ends
            ids.append(row[: last + 1])
            learnt.append(marks[: last + 1])
        if not ids:
            raise UserError(
                f"in no row is there an answer within {self.longest} tokens",
                where=examples.origin,
                todo="raise data.max_tokens",
            )
        left_out = len(whole_rows) - len(ids)
        return AnswerRows(EncodedSide.of(ids), EncodedSide.of(learnt), ends, left_out, refused)

    def _taken(self, examples: Examples) -> tuple[list[Pieces], list[int]]:
        """The pieces of each example, and the lines of those that the chat template refuses."""
        taken, refused, first = list[Pieces](), list[int](), None
        for line, row in zip(examples.numbers, examples.rows, strict=True):
            try:
                taken.append(self.pieces(row))
            except UserError as error:
                first, refused = first or error, [*refused, line]
        bad, n = self.recipe.data.train.bad, len(refused)
        if first is not None and (
            not taken or bad == "refuse" or (bad == "few" and n > FEW * len(examples))
        ):
            if not taken:  # it is not the row that is wrong
                raise first
            todo = f"{n:,} of {len(examples):,} rows are so: correct them, or set "
            todo += "data.train.bad = 'drop'"
            raise UserError(first.what, where=f"{examples.origin}:{refused[0]}", todo=todo)
        return taken, refused

    def pieces(self, row: tuple[str, ...]) -> Pieces:
        """The ids of an example, from its prompt to the end of its answer."""
        if len(row) == 1:
            return self.tokenizer.turns(conversation(row[0]) or [])
        prompt, answer = row
        if self.recipe.data.chat:
            roles = zip(("user", "assistant"), row, strict=True)
            return self.tokenizer.turns([{"role": role, "content": text} for role, text in roles])
        (asked,), (said,) = self.tokenizer.prompts([prompt]), self.tokenizer.encode([answer])
        return [(asked, False), ([*said, self.tokenizer.end()], True)]

    @torch.no_grad()
    def judged(self, opened: LanguageModel, part: AnswerPart) -> Judgement:
        """How likely it finds the answers; and some that it gives."""
        rows, found = part.rows, Likelihood()
        pad = self.tokenizer.roles.pad or 0
        together = max(1, self.recipe.evaluate.batch_tokens // int(rows.ids.lengths.max()))
        batches = AnswerBatches(rows.ids, rows.learnt, together, seed=0, pad=pad)
        lengths, head = rows.ids.lengths, opened.model.head
        for some in like_lengths(lengths, together, np.arange(len(lengths))):
            batch = batches.batch(0, some).to(opened.device)
            hidden = opened.model.hidden(batch.ids)[batch.predicted]
            targets = batch.following[batch.predicted]
            nll, right = token_statistics(hidden, head, targets)
            found += Likelihood(float(nll.double().sum()), len(targets), int(right.sum()))
        record = {
            "nll": found.mean,
            "perplexity": found.perplexity,
            "token_accuracy": found.token_accuracy,
            "tokens": found.tokens,
            PASSAGES: self._passages(opened, part),
        }
        said = f"perplexity {found.perplexity:.2f}  token accuracy {found.token_accuracy:.1f}"
        return Judgement(record, -found.mean, said)

    def _passages(self, opened: LanguageModel, part: AnswerPart) -> list[dict[str, str]]:
        """Some prompts, the answers to them, and those that the model gives."""
        settings, shown = self.recipe.evaluate, []
        numbered = zip(part.examples.numbers, part.examples.rows, strict=True)
        taken = [row for line, row in numbered if line not in part.rows.refused]
        n = min(settings.samples, len(taken))
        sampling = Sampling(max_new_tokens=settings.new_tokens, temperature=0.0)
        for place in np.linspace(0, len(taken) - 1, n).astype(int).tolist():
            asked, answer = self._first_turn(self.pieces(taken[place]))
            if not 0 < len(asked) < self.recipe.model.max_length:
                continue
            (given,) = opened.generate_ids([asked], sampling)
            prompt, wanted = self.tokenizer.decode([asked, answer])
            shown.append({"prompt": prompt, "answer": wanted, "given": given.text})
        return shown

    def _first_turn(self, pieces: Pieces) -> tuple[list[int], list[int]]:
        """What stands before the first answer, and that answer."""
        place = next(place for place, (_, said) in enumerate(pieces) if said)
        return [id for some, _ in pieces[:place] for id in some], pieces[place][0]

    def _material(self, parts: Mapping[str, AnswerPart], hashes: Mapping[str, str]) -> Material:
        rows = parts["train"].rows
        settings, pad = self.recipe.train, self.tokenizer.roles.pad or 0
        n, learnt = len(rows.ids.lengths), int(rows.learnt.ids.sum())
        told = [line for name, part in parts.items() for line in part.examples.notices(name)]
        for name, part in parts.items():
            if refused := part.rows.refused:
                lines = ", ".join(map(str, refused[:5]))
                told.append(f"{name}: {len(refused):,} rows refused by the chat template: {lines}")
        if rows.left_out:
            told.append(f"{rows.left_out:,} rows without an answer within {self.longest} tokens")
        told += [
            f"{len(rows.ids.ids):,} tokens, of which {learnt:,} are learnt",
            f"the end of the answer is learnt in {rows.ends / n:.1%} of the rows",
            f"{settings.steps:,} steps of {settings.batch_rows} rows",
        ]
        return Material(
            AnswerBatches(rows.ids, rows.learnt, settings.batch_rows, self.recipe.seed, pad),
            PredictNext(settings.label_smoothing),
            tokenizer_files(self.tokenizer),
            hashes,
            tuple(told),
        )
