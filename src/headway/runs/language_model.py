"""A causal language model at work: continuing prompts, answering in a chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headway.base.errors import UserError, unknown
from headway.decode.greedy import greedy
from headway.decode.repetition import Repetition
from headway.decode.sampling import sample
from headway.decode.steps import Hypothesis
from headway.evaluate.likelihood import Likelihood
from headway.models.decoder import Decoder
from headway.nn.quantized import BITS, Bits, Rounding, quantize
from headway.runs.generated import Generated, OnText, Writer
from headway.runs.likelihoods import cut_requests, encode_requests, likelihoods, windows
from headway.runs.text_model import refuse_one_text
from headway.settings.model import DecoderSettings
from headway.tokens.chat import Message
from headway.tokens.text import TextTokenizer
from headway.tokens.tokenizer import check_fits

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
        """Round the weights of the linear layers to 8 or 4 bits, in place, and say how far.

        Generating is then several times as fast on a CPU: one token meets every weight once, and
        they are read in a quarter or an eighth of the bytes. Raises UserError on another device,
        and for a model whose weights are rounded already.
        """
        if bits not in BITS:
            raise unknown("number of bits", bits, BITS, where="quantize")
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
        return self.answers([messages], sampling, on_text)[0]

    def answers(
        self,
        conversations: Sequence[Sequence[Message]],
        sampling: Sampling | None = None,
        on_text: OnText | None = None,
    ) -> list[Generated]:
        """`answer` for several conversations at once."""
        rows = [self.tokenizer.chat(messages) for messages in conversations]
        return self.generate_ids(rows, sampling or Sampling(), on_text)

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
                Writer(self.tokenizer, ids[-1], sampling.stop, begin + place, on_text)
                for place, ids in enumerate(part)
            ]
            hypotheses = self._hypotheses(part, sampling, writers, begin)
            found += [writer.finish(each) for writer, each in zip(writers, hypotheses, strict=True)]
        return found

    @torch.inference_mode()
    def _hypotheses(
        self, rows: list[list[int]], sampling: Sampling, writers: list[Writer], begin: int
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
        opening = roles.bos if roles.bos is not None else roles.end
        if opening is None:
            raise UserError(
                "there is nothing to read, and the tokeniser has no start symbol",
                where="prompt",
                todo="write the beginning of a text",
            )
        return opening
