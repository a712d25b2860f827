"""Requests to a language model that come at any time and are answered together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.base.errors import UserError
from headway.decode.batching import Batcher as IdBatcher
from headway.decode.request import Request, Ticket
from headway.models.decoder import Decoder
from headway.runs.generated import Generated, Sampling, Writer
from headway.tokens.chat import Message
from headway.tokens.text import TextTokenizer

MEMORY = 16_384  # tokens


class Answer:
    """What becomes of a request: its `text` so far, and when it is `done` its `result`."""

    def __init__(self, writer: Writer, ticket: Ticket) -> None:
        self._writer, self._ticket = writer, ticket
        self._result: Generated | None = None
        self._error: Exception | None = None

    @property
    def text(self) -> str:
        """What is certain of it so far: half a letter or stop text is not."""
        return self._writer.text[: self._writer.sent]

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self._result is not None or self._error is not None

    def cancel(self) -> None:
        """No more of it is wanted; may be called from any thread."""
        self._ticket.cancel()

    def result(self) -> Generated:
        """All of it. Raises what went wrong with it, and RuntimeError if it is not done."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("this answer is not done: let the batcher step on")
        return self._result

    def settle(self) -> bool:
        """Whether it is done by now, after its end was sent."""
        if self._ticket.done and not self.done:
            try:
                self._result = self._writer.finish(
                    self._ticket.result(), cancelled=self._ticket.cancelled
                )
            except Exception as error:  # it belongs to this request, and spoils no other
                self._error = error
        return self.done


class Batcher:
    """Answers requests to a language model together; each says what it would say alone.

    `LanguageModel.batcher` makes one. They join and leave a batch that goes on running, so that
    none waits for another's end; caches have room for `memory` tokens in all. Requests may be
    submitted and cancelled from any thread; one thread calls `step` again and again, or `run`.
    """

    def __init__(
        self, model: Decoder, tokenizer: TextTokenizer, *, context: int, memory: int
    ) -> None:
        self.tokenizer, self.context = tokenizer, context
        self._batcher = IdBatcher(model, memory=memory)
        self._open: list[Answer] = []

    def submit(
        self,
        prompt: str | Sequence[Message],
        sampling: Sampling | None = None,
        on_text: Callable[[str], object] | None = None,
    ) -> Answer:
        """Have a text continued, or a conversation answered; `on_text` is told of each new piece.

        If `on_text` raises, that ends this request and is what its `result` raises. Raises
        UserError for a prompt as long as the model's context, a request that needs more memory
        than there is, and settings out of range.
        """
        if isinstance(prompt, str):
            (ids,) = self.tokenizer.prompts([prompt])
        else:
            ids = self.tokenizer.chat(prompt)
        ids, sampling = ids or [self.tokenizer.opening()], sampling or Sampling()
        writer = Writer(self.tokenizer, ids[-1], sampling.stop, on_text)
        return self.submit_request(request_of(ids, sampling, writer, self.context), writer)

    def submit_request(self, request: Request, writer: Writer) -> Answer:
        """`submit` for a request whose tokens a writer is told of."""
        answer = Answer(writer, self._batcher.submit(request))
        if not answer.settle():
            self._open.append(answer)
        return answer

    def step(self) -> bool:
        """A piece of the prompts that came, a token more of each answer: True if work is left."""
        works = self._batcher.step()
        for answer in [each for each in self._open if each.settle()]:
            self._open.remove(answer)  # in place, as another thread may be adding one
        return works or bool(self._open)

    def run(self) -> None:
        """Go on until all is answered."""
        while self.step():
            pass


def request_of(
    ids: Sequence[int], sampling: Sampling, writer: Writer, context: int, which: str = "the prompt"
) -> Request:
    """What is asked of a model of that context. Raises UserError if the prompt is as long as it."""
    if len(ids) >= context:
        raise UserError(
            f"{which} has {len(ids):,} tokens; the model's context is {context:,}",
            where="prompt",
            todo="shorten it: what is generated needs room as well",
        )
    return Request(
        ids=ids,
        limit=min(sampling.max_new_tokens, context - len(ids)),
        ends=writer.tokenizer.roles.ends,
        draw=sampling.draw(),
        seed=sampling.seed,
        repetition_penalty=sampling.repetition_penalty,
        until=writer.add,
    )
