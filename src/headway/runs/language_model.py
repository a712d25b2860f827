"""A causal language model at work: continuing prompts, answering in a chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from headway.base.errors import UserError
from headway.decode.greedy import greedy
from headway.decode.repetition import Repetition
from headway.decode.sampling import sample
from headway.decode.steps import Hypothesis
from headway.evaluate.likelihood import Likelihood
from headway.models.decoder import Decoder
from headway.runs.likelihoods import cut_requests, encode_requests, likelihoods, windows
from headway.runs.text_model import refuse_one_text
from headway.settings.model import DecoderSettings
from headway.tokens.chat import Message
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

Reason = Literal["end", "stop", "limit"]
OnText = Callable[[int, str], None]
"""Told of each prompt's next piece of text as it becomes certain."""
_TOGETHER = 32  # prompts


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; `temperature` 0 takes the likeliest.

    `stop` are texts at which to stop; they are left out. `seed` is that of the first prompt, each
    further one has the next.
    """

    max_new_tokens: int = 128
    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 1


@dataclass(frozen=True)
class Generated:
    """What a prompt was continued by: text and ids of the new part, and why it stopped.

    `reason` is "end" (by an end token), "stop" (at a stop text) or "limit". `log_prob` is the
    model's own, of all the ids and the end.
    """

    text: str
    ids: list[int]
    reason: Reason
    log_prob: float


class LanguageModel:
    """A decoder with its tokeniser, where it computes.

    Raises UserError if the tokeniser has ids that the model has no row for.
    """

    use = 'generate {} --prompt "..."'  # what the command line does with it

    def __init__(
        self,
        model: Decoder,
        tokenizer: TextTokenizer,
        settings: DecoderSettings,
        device: torch.device,
    ) -> None:
        check_fits(tokenizer, model.n_tokens, tokenizer.where)
        self.model, self.tokenizer, self.settings = model.to(device).eval(), tokenizer, settings
        self.device = device

    def __repr__(self) -> str:
        n = sum(weight.numel() for weight in self.model.parameters())
        return f"LanguageModel({n:,} parameters, {len(self.tokenizer):,} ids, {self.device})"

    def generate(
        self,
        prompts: Sequence[str],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
    ) -> list[Generated]:
        """Continue each prompt; what it gives does not depend on the prompts beside it.

        An empty prompt begins with the start symbol, or with an end where there is no other.
        Raises UserError for a prompt as long as the model's context, and for settings out of range.
        """
        refuse_one_text(prompts)
        return self.generate_ids(self.tokenizer.prompts(prompts), sampling or Sampling(), on_text)

    def answer(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
    ) -> Generated:
        """The assistant's next turn in a conversation. Raises UserError as `generate` does."""
        ids = self.tokenizer.chat(messages)
        return self.generate_ids([ids], sampling or Sampling(), on_text)[0]

    def log_likelihoods(
        self,
        requests: Sequence[tuple[str, str]],
        *,
        batch_tokens: int | None = None,
        tell: Callable[[int], object] | None = None,
    ) -> list[Likelihood]:
        """How likely each (context, continuation) goes on so: `log_prob`, `greedy`, `tokens`.

        Tokens are cut as lm-evaluation-harness cuts them (`encode_requests`); an empty context is
        the start symbol, or an end where there is no other. A context that is too long loses its
        beginning, with a warning. `tell` is told of each batch how many are done. Raises UserError
        for a continuation without tokens, or with more than the model can read.
        """
        rows = encode_requests(self.tokenizer, requests, self._opening)
        return likelihoods(
            self.model,
            cut_requests(rows, self.settings.max_length),
            device=self.device,
            batch_tokens=batch_tokens,
            tell=tell,
        )

    def rolling_log_likelihoods(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int | None = None,
        tell: Callable[[int], object] | None = None,
    ) -> list[Likelihood]:
        """How likely each whole text is, of any length: each token is scored once (`windows`).

        As in lm-evaluation-harness a tokeniser's own start symbol is scored as well. `tell` counts
        windows.
        """
        refuse_one_text(texts)
        rows, places = [], []
        for place, ids in enumerate(self.tokenizer.prompts(texts)):
            for row in windows(ids, self._opening(), self.settings.max_length):
                rows.append(row)
                places.append(place)
        found = [Likelihood()] * len(texts)
        scored = likelihoods(
            self.model, rows, device=self.device, batch_tokens=batch_tokens, tell=tell
        )
        for place, likelihood in zip(places, scored, strict=True):
            found[place] += likelihood
        return found

    def generate_ids(
        self, rows: list[list[int]], sampling: Sampling, on_text: OnText | None = None
    ) -> list[Generated]:
        """Continue prompts that are ids already; else as `generate`."""
        rows = [ids or [self._opening()] for ids in rows]
        context = self.settings.max_length
        for number, ids in enumerate(rows, start=1):
            if len(ids) >= context:
                raise UserError(
                    f"prompt {number} has {len(ids):,} tokens; the model's context is {context:,}",
                    where="prompt",
                    todo="shorten it: what is generated needs room as well",
                )
        found = []
        for begin in range(0, len(rows), _TOGETHER):
            part = rows[begin : begin + _TOGETHER]
            writers = [
                _Writer(self.tokenizer, sampling.stop, begin + place, on_text)
                for place in range(len(part))
            ]
            hypotheses = self._hypotheses(part, sampling, writers, begin)
            found += [writer.finish(each) for writer, each in zip(writers, hypotheses, strict=True)]
        return found

    @torch.inference_mode()
    def _hypotheses(
        self, rows: list[list[int]], sampling: Sampling, writers: list[_Writer], begin: int
    ) -> list[Hypothesis]:
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest - 1, dtype=torch.int64)
        for place, row in enumerate(rows):
            ids[place, longest - len(row) :] = torch.tensor(row[:-1])
        lengths = torch.tensor([len(row) - 1 for row in rows])
        state = self.model.start(ids.to(self.device), lengths.to(self.device))
        limits = [min(sampling.max_new_tokens, self.settings.max_length - len(row)) for row in rows]
        penalty = None
        if sampling.repetition_penalty != 1.0:
            penalty = Repetition(
                sampling.repetition_penalty, rows, self.model.n_tokens, self.device
            )
        first, ends = [row[-1] for row in rows], self.tokenizer.roles.ends

        def until(row: int, token: int) -> bool:
            return writers[row].add(token)

        if sampling.temperature == 0:
            return greedy(
                self.model,
                state,
                rows=len(rows),
                bos=first,
                eos=ends,
                limits=limits,
                repetition=penalty,
                until=until,
            )
        return sample(
            self.model,
            state,
            seeds=[sampling.seed + begin + place for place in range(len(rows))],
            bos=first,
            eos=ends,
            limits=limits,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repetition=penalty,
            until=until,
        )

    def _opening(self) -> int:
        roles = self.tokenizer.roles
        opening = roles.bos if roles.bos is not None else min(roles.ends, default=None)
        if opening is None:
            raise UserError(
                "there is nothing to read, and the tokeniser has no start symbol",
                where="prompt",
                todo="write the beginning of a text",
            )
        return opening


class _Writer:
    """The text of one row as it grows; sends on what can no longer become a stop text."""

    def __init__(
        self, tokenizer: TextTokenizer, stop: Sequence[str], row: int, on_text: OnText | None
    ) -> None:
        self.tokenizer, self.stop, self.row, self.on_text = tokenizer, stop, row, on_text
        self.next = tokenizer.stream()
        self.text, self.sent, self.stopped = "", 0, False

    def add(self, token: int) -> bool:
        """Take the next token; True if a stop text is now complete."""
        before = len(self.text)
        self.text += self.next(token)
        found = [
            place
            for stop in self.stop
            if (place := self.text.find(stop, max(0, before - len(stop)))) >= 0
        ]
        if found:
            self.text, self.stopped = self.text[: min(found)], True
            self._send(len(self.text))
        else:
            self._send(len(self.text) - self._held_back())
        return self.stopped

    def finish(self, hypothesis: Hypothesis) -> Generated:
        """All of it: what was held back, and half a letter at the end, come out now."""
        if not self.stopped:
            (self.text,) = self.tokenizer.decode([hypothesis.ids])
            self._send(len(self.text))
        reason: Reason = "stop" if self.stopped else "end" if hypothesis.ended else "limit"
        return Generated(self.text, hypothesis.ids, reason, hypothesis.log_prob)

    def _held_back(self) -> int:
        """How many of the last letters may be the beginning of a stop text."""
        return max(
            (
                n
                for stop in self.stop
                for n in range(1, min(len(stop), len(self.text) + 1))
                if self.text.endswith(stop[:n])
            ),
            default=0,
        )

    def _send(self, end: int) -> None:
        if self.on_text is not None and end > self.sent:
            self.on_text(self.row, self.text[self.sent : end])
        self.sent = max(self.sent, end)
