"""Drawing at random: temperature, top-k, top-p, min-p, and a stream of random numbers a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.decode.greedy import follow
from headway.decode.steps import NEVER, Hypothesis, S, Steps, check_limits, home, upload


@dataclass(frozen=True)
class Draw:
    """What is drawn from: the model's distribution, reshaped.

    `top_k` (0: off), `temperature`, then `top_p` (1: off) and `min_p` (0: off). Raises UserError
    for a temperature outside 1e-6..1e6, a negative `top_k`, a `top_p` outside (0, 1] or a `min_p`
    outside [0, 1].
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        # Beyond these float32 has no room for the quotients.
        if not 1e-6 <= self.temperature <= 1e6:
            raise UserError(
                f"cannot sample at temperature {self.temperature}",
                where="temperature",
                todo="from 1e-6 to 1e6; for what 0 would mean, decode greedily",
            )
        if self.top_k < 0:
            raise UserError(f"cannot keep {self.top_k} tokens", where="top_k", todo="0 keeps all")
        if not 0 < self.top_p <= 1:
            raise UserError(
                f"{self.top_p} is no share of 1", where="top_p", todo="above 0, at most 1"
            )
        if not 0 <= self.min_p <= 1:
            raise UserError(
                f"{self.min_p} is no share of 1", where="min_p", todo="from 0, which is off"
            )

    def reshaped(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, V) -> those that are drawn from, and of which tokens they are: (N, k) each."""
        logits, ids = largest(logits, self.top_k)
        logits = with_top_p(with_temperature(logits, self.temperature), self.top_p)
        return with_min_p(logits, self.min_p), ids

    def choose(self, logits: Tensor, draws: Tensor) -> Tensor:
        """The tokens (N,) that draws (N,) in [0, 1) fall on."""
        logits, ids = self.reshaped(logits)
        return ids.gather(1, pick(logits, draws)[:, None])[:, 0]

    def probabilities(self, logits: Tensor) -> Tensor:
        """What each token is drawn with: logits (N, V) -> (N, V)."""
        kept, ids = self.reshaped(logits)
        return torch.zeros_like(logits).scatter(1, ids, kept.softmax(dim=-1))


def sample(
    model: Steps[S],
    state: S,
    *,
    seeds: Sequence[int],
    bos: int,
    eos: int,
    limits: Sequence[int],
    banned: Sequence[int] = (),
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[Hypothesis]:
    """Draw one continuation for each row of `state`; row i depends on `seeds[i]`, not on others.

    What is drawn from is a `Draw` of these settings; the `log_prob` that comes back is the model's
    own. The rest as in `greedy`. Raises UserError as `Draw` does, and for a seed outside
    0..2**63-1, a negative limit, or a model whose output is not a number.
    """
    check_limits(len(seeds), limits)
    draw = Draw(temperature, top_k, top_p, min_p)
    draws = torch.zeros(len(seeds), max(limits, default=0))  # (rows, steps)
    for row, (seed, limit) in enumerate(zip(seeds, limits, strict=True)):
        draws[row, :limit] = torch.rand(limit, generator=stream(seed))
    draws = upload(draws, home(model))

    def choose(log_probs: Tensor, rows: Tensor, step: int) -> Tensor:
        return draw.choose(log_probs, draws[rows, step])

    return follow(
        model,
        state,
        limits=limits,
        bos=bos,
        eos=eos,
        banned=banned,
        choose=choose,
    )


def with_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Logits (N, V) divided by `temperature`: below 1 sharper, above 1 flatter."""
    return logits / temperature


def largest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` largest of each row of logits (N, V), and which they are: (N, k) each.

    Exactly `k` even if several are equal (Fan et al. 2018, section 5.4); `k` = 0 gives all of
    them. Narrowing first spares the steps that follow the whole vocabulary.
    """
    V = logits.shape[-1]
    if k == 0 or k >= V:
        return logits, torch.arange(V, device=logits.device).expand_as(logits)
    values, ids = logits.topk(k, dim=-1)
    return values, ids


def with_top_p(logits: Tensor, p: float) -> Tensor:
    """Logits (N, V) with all outside the nucleus at -inf; `p` = 1 keeps all.

    The nucleus is the smallest set of the likeliest tokens whose probability reaches `p`; it has
    at least one token (Holtzman et al. 2020, section 3.1).
    """
    if p == 1:
        return logits
    values, places = logits.sort(dim=-1, descending=True, stable=True)
    probs = values.softmax(dim=-1)
    outside = probs.cumsum(dim=-1) - probs >= p
    outside[:, 0] = False
    values = values.masked_fill(outside, NEVER)
    return torch.full_like(logits, NEVER).scatter(-1, places, values)


def with_min_p(logits: Tensor, p: float) -> Tensor:
    """Logits (N, V) with all at -inf that are less likely than `p` times the likeliest.

    Nguyen et al. 2024 (arXiv 2407.01082); `p` = 0 keeps all.
    """
    if p == 0:
        return logits
    probs = logits.softmax(dim=-1)
    return logits.masked_fill(probs < p * probs.amax(dim=-1, keepdim=True), NEVER)


def pick(logits: Tensor, draws: Tensor) -> Tensor:
    """Tokens (N,) by inverting the distribution function of logits (N, V) at draws (N,) in [0, 1).

    A token of probability 0 is never picked, even where a parallel running sum is not monotonic.
    Where logits are not a number, such a token is picked, so that it is found out.
    """
    probs = logits.softmax(dim=-1)
    reach = probs.cumsum(dim=-1).masked_fill(probs == 0, 0)
    target = draws[:, None] * reach.amax(dim=-1, keepdim=True)
    picked = (reach > target).int().argmax(dim=-1)
    # softmax makes all of a row not a number, argmax takes what is not for the largest
    return torch.where(probs[:, 0].isnan(), logits.argmax(dim=-1), picked)


def stream(seed: int) -> torch.Generator:
    """Random numbers of a row's own. Raises UserError for a seed outside 0..2**63-1.

    They are made on the CPU, so that a seed means the same on every device.
    """
    if not 0 <= seed < 2**63:
        raise UserError(f"{seed} is no seed", where="seeds", todo="from 0 to 2**63 - 1")
    return torch.Generator().manual_seed(seed)
