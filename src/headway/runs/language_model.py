"""A causal language model at work: continuing prompts, answering in a chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Union

import torch

from headway.base.errors import UserError, unknown
from headway.decode.batching import ROUND
from headway.decode.request import Request, check_ids
from headway.decode.speculative import Draft, LookUp, Smaller, speculate
from headway.evaluate.likelihood import Likelihood
from headway.models.decoder import Decoder
from headway.nn.quantized import KINDS, Bits, Rounding, quantize
from headway.runs.batcher import MEMORY, Batcher, request_of
from headway.runs.generated import Generated, OnText, Sampling, Writer
from headway.runs.likelihoods import (
    cut_prompts,
    cut_requests,
    encode_requests,
    likelihoods,
    windows,
)
from headway.runs.text_model import refuse_one_text
from headway.settings.model import DecoderSettings
from headway.tokens.chat import Message
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits, check_same_tokens

Drafting = Union["LanguageModel", Literal["lookup"]]
"""What guesses ahead: a smaller model of the same vocabulary, or what the text says already."""


class LanguageModel:
    """A decoder with its tokeniser, where it computes.

    Raises UserError if the tokeniser has ids that the model has no row for.
    """

    what = "a language model"

    @property
    def use(self) -> str:
        """What the command line does with it."""
        chats = self.tokenizer.roles.template is not None
        return f'generate {{}} {"--chat " if chats else ""}--prompt "..."'

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
        self.n_parameters = sum(weight.numel() for weight in model.parameters())
        self.rounding: Rounding | None = None

    def __repr__(self) -> str:
        size = f"{self.n_parameters:,} parameters, {len(self.tokenizer):,} ids"
        return f"LanguageModel({size}, {self.device})"

    def quantize(self, bits: Bits) -> Rounding:
        """Round the weights of the linear layers to 16, 8 or 4 bits, in place, and say how far.

        Generating is then several times as fast on a CPU: one token meets every weight once, and
        they are read in a half, a quarter or an eighth of the bytes. Raises UserError on another
        device, and for a model whose weights are rounded already.
        """
        if bits not in KINDS:
            raise unknown("number of bits", bits, KINDS, where="quantize")
        if self.rounding is not None:
            raise UserError("its weights are rounded already", where="quantize")
        if self.device.type != "cpu":
            raise UserError(
                f"weights of few bits are for a CPU, not {self.device}",
                where="quantize",
                todo="take the device cpu, or do without",
            )
        self.rounding = quantize(self.model, bits)
        return self.rounding

    def generate(
        self,
        prompts: Sequence[str],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
        *,
        draft: Drafting | None = None,
        cut: bool = False,
    ) -> list[Generated]:
        """Continue each prompt; what it gives does not depend on the prompts beside it.

        An empty prompt begins with the start symbol, or with an end where there is no other. With a
        `draft` prompts are continued one after the other, each in fewer steps (`speculate`). With
        `cut` a prompt that leaves no room for what is to come loses its beginning, with a warning
        (`cut_prompts`). Raises UserError for a prompt as long as the model's context, for settings
        out of range, and for a draft of another vocabulary.
        """
        refuse_one_text(prompts)
        rows, sampling = self.tokenizer.prompts(prompts), sampling or Sampling()
        if cut:
            rows = cut_prompts(rows, self.settings.max_length, sampling.max_new_tokens)
        return self.generate_ids(rows, sampling, on_text, draft=draft)

    def answer(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
        *,
        draft: Drafting | None = None,
    ) -> Generated:
        """The assistant's next turn in a conversation. Raises UserError as `generate` does."""
        return self.answers([messages], sampling, on_text, draft=draft)[0]

    def answers(
        self,
        conversations: Sequence[Sequence[Message]],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
        *,
        draft: Drafting | None = None,
    ) -> list[Generated]:
        """`answer` for several conversations at once."""
        rows = [self.tokenizer.chat(messages) for messages in conversations]
        return self.generate_ids(rows, sampling or Sampling(), on_text, draft=draft)

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
        rows = encode_requests(self.tokenizer, requests, self.tokenizer.opening)
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
            for row in windows(ids, self.tokenizer.opening(), self.settings.max_length):
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
        self,
        rows: Sequence[Sequence[int]],
        sampling: Sampling,
        on_text: OnText | None = None,
        *,
        draft: Drafting | None = None,
    ) -> list[Generated]:
        """Continue prompts that are ids already; else as `generate`.

        Raises UserError for an id that the model has no row for, too.
        """
        context = self.settings.max_length
        asked: list[tuple[Request, Writer]] = []
        for place, ids in enumerate(rows):
            ids, which = ids or [self.tokenizer.opening()], f"prompt {place + 1}"
            check_ids(ids, self.model.n_tokens, which)
            tell = partial(on_text, place) if on_text else None
            writer = Writer(self.tokenizer, ids[-1], sampling.stop, tell)
            own = replace(sampling, seed=sampling.seed + place)
            asked.append((request_of(ids, own, writer, context, which), writer))
        if draft is not None:
            return [self._drafted(*each, draft) for each in asked]
        longest = max((request.places for request, _ in asked), default=1)
        batcher = self.batcher(max(longest, 1, min(MEMORY, len(asked) * (longest + ROUND))))
        answers = [batcher.submit_request(*each) for each in asked]
        batcher.run()
        return [answer.result() for answer in answers]

    def batcher(self, memory: int = MEMORY) -> Batcher:
        """Answers requests that come at any time, together; caches have room for `memory` tokens.

        Raises UserError for no memory.
        """
        context = self.settings.max_length
        return Batcher(self.model, self.tokenizer, context=context, memory=memory)

    def _drafted(self, request: Request, writer: Writer, draft: object) -> Generated:
        guesses: Draft = LookUp()
        if draft != "lookup":
            if not isinstance(draft, LanguageModel):
                what = "an open language model, or 'lookup', guesses ahead"
                raise UserError(what, where="draft", todo="open one with headway.load")
            check_same_tokens(self.tokenizer, draft.tokenizer)
            guesses = Smaller(draft.model, self.model.n_tokens, draft.settings.max_length)
        ticket, told = speculate(self.model, request, guesses)
        found = writer.finish(ticket.result())
        return replace(found, guessed=told.guessed, accepted=told.accepted)
