"""Making less likely what was said before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.base.errors import UserError


class Repetition:
    """A penalty above 1 on tokens that the prompt or the text so far has (Keskar et al., 2019).

    A positive logit is divided by it, a negative one multiplied (section 4.1). Raises UserError for
    a penalty outside 0.01..100.
    """

    def __init__(
        self, penalty: float, prompt: Sequence[int], n_tokens: int, device: torch.device
    ) -> None:
        if not 0.01 <= penalty <= 100:
            raise UserError(
                f"a repetition penalty of {penalty}",
                where="repetition_penalty",
                todo="from 0.01 to 100; 1 changes nothing",
            )
        self.penalty = penalty
        self.seen = torch.zeros(n_tokens, dtype=torch.bool, device=device)
        self.seen[torch.tensor(list(prompt), dtype=torch.int64, device=device)] = True

    def weaken(self, logits: Tensor) -> Tensor:
        """Logits (N, V), weakened where the token was seen."""
        weaker = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(self.seen, weaker, logits)

    def add(self, token: int) -> None:
        """This token was said."""
        self.seen[token] = True
