"""What decoding asks of a model, and what every way of decoding shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from headway.base.errors import UserError

PIECE = 512  # tokens of prompts that are read at once
NEVER = -math.inf
"""The log-probability of what cannot happen."""


class State(Protocol):
    """What a model remembers of N hypotheses between two steps."""

    def select(self, rows: Tensor, /) -> Self:
        """The state of the hypotheses `rows` (M,), int64; a row may be named often or never."""
        ...


S = TypeVar("S", bound=State)


class Steps(Protocol[S]):
    """A model that continues hypotheses one token at a time.

    It is asked in evaluation mode (no dropout); turning that on is the caller's task.
    """

    def start(self, source: Tensor, lengths: Tensor, /) -> S:
        """Encode sources (B, S) of the given true lengths (B,): one entry a row."""
        ...

    def step(self, ids: Tensor, state: S, /) -> tuple[Tensor, S]:
        """Read the next ids (N, T) of each hypothesis: logits (N, T, V) and the new state."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One continuation of a row.

    `ids` leaves out the eos. `log_prob` is the model's own log-probability of the tokens, eos
    included if it ended: a plain forward pass gives the same, whatever was banned or however the
    tokens were drawn. `score` is what hypotheses are ranked by: `log_prob` after the length
    penalty (without one, `log_prob` itself). `ended` is True by eos, False if cut: at its limit,
    or where every next token is impossible.
    """

    ids: list[int]
    log_prob: float
    score: float
    ended: bool


class Slots(Protocol):
    """What a model remembers of texts that come and go, each in a row of its own.

    Unlike a `State` it is no value: it changes in place, so that no text is copied because another
    one comes. There is room for `rows` texts of `places` tokens.
    """

    rows: int
    places: int
    lengths: list[int]  # how many tokens of each text were read

    def add(self, n: int, /) -> None:
        """`n` more texts, of which nothing was read yet."""

    def move(self, source: int, target: int, /) -> None:
        """The text of row `source` takes the place of that of row `target`."""

    def drop(self) -> None:
        """The text of the last row goes."""

    def rewind(self, row: int, length: int, /) -> None:
        """Of that text only so many tokens were read."""

    def resize(self, rows: int, places: int, /) -> None:
        """Room for other numbers."""

    def part(self, begin: int, end: int, /) -> Any:
        """The texts of these rows, for the model to go on with."""


class Serves(Protocol):
    """A model that continues texts which come and go."""

    @property
    def n_tokens(self) -> int:
        """V: how many tokens there are."""

    def slots(self, rows: int, places: int, /) -> Slots:
        """Room for so many texts of so many tokens, none yet."""
        ...

    def read(self, ids: Tensor, part: Any, /) -> tuple[Tensor, Any]:
        """Read the next ids (N, T) of some texts; what it gives is of no matter."""
        ...

    def step(self, ids: Tensor, part: Any, /) -> tuple[Tensor, Any]:
        """Read the next ids (N, T) of some texts: logits (N, T, V) of what follows each."""
        ...


def check_limits(rows: int, limits: Sequence[int]) -> None:
    """Raise unless there is one limit, at least 0, for each of the rows."""
    if len(limits) != rows:
        raise ValueError(f"{rows} rows, but {len(limits)} limits")
    if any(limit < 0 for limit in limits):
        raise UserError(
            f"the most tokens of a row cannot be {min(limits)}", where="limits", todo="0 or more"
        )


def length_divisor(n: int, length_penalty: float) -> float:
    """((5 + n) / 6) ** length_penalty: by this the log-probability of `n` tokens becomes a score.

    Wu et al. 2016, equation 14, without the coverage term.
    """
    return float(((5 + n) / 6) ** length_penalty)


def home(model: object) -> torch.device:
    """Where ids for `model` belong: with its first parameter; on the CPU if it has none."""
    parameters = getattr(model, "parameters", None)
    first: Tensor | None = next(iter(parameters()), None) if parameters else None
    return torch.device("cpu") if first is None else first.device


def upload(values: Tensor, device: torch.device) -> Tensor:
    """`values` on `device`, without waiting for the work that is queued there."""
    return values.to(device, non_blocking=device.type == "cuda")


def next_log_probs(logits: Tensor, banned: Sequence[int]) -> Tensor:
    """Log-probabilities (N, V), float32, of the token after the last one of logits (N, T, V).

    Banned tokens get -inf after the softmax, not before: the others keep the model's values, so
    that a hypothesis can be checked with a forward pass that knows no bans.
    """
    log_probs = logits[:, -1].float().log_softmax(dim=-1)
    for token in banned:
        log_probs[:, token] = NEVER
    return log_probs


def to_host(log_probs: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Both (same shape) on the CPU in one copy, so that a step waits for the device just once.

    Raises UserError for a log-probability that is not a number.
    """
    values, tokens = fetched(log_probs, ids)
    if values.isnan().any():
        raise not_a_number()
    return values, tokens


def fetched(log_probs: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """`to_host` without a look at the values."""
    packed = torch.stack([log_probs.view(torch.int32), ids.to(torch.int32)]).cpu()
    return packed[0].view(torch.float32), packed[1].long()


def not_a_number() -> UserError:
    """What to say of a log-probability that is none."""
    return UserError(
        "the model's output is not a number",
        where="decoding",
        todo="its weights are damaged or its training diverged: use an earlier checkpoint",
    )
