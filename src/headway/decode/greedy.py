"""One path a row: the loop that greedy decoding and sampling share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headway.decode.steps import (
    NEVER,
    Hypothesis,
    S,
    Steps,
    check_limits,
    home,
    next_log_probs,
    to_host,
    upload,
)

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From log-probabilities (N, V), the rows (N,) they are of and the step: ids (N,)."""


def greedy(
    model: Steps[S],
    state: S,
    *,
    rows: int,
    bos: int,
    eos: int,
    limits: Sequence[int],
    banned: Sequence[int] = (),
) -> list[Hypothesis]:
    """Take the likeliest token at each step, for each of the `rows` of `state`.

    `bos` is what the first step is given, `eos` ends a row. `limits` has the most tokens of each
    row, eos included; a row of limit 0 gives an empty hypothesis. Tokens in `banned` are never
    taken. What a row gives does not depend on the rows beside it. Raises UserError for a negative
    limit or a model whose output is not a number.
    """
    check_limits(rows, limits)
    return follow(
        model,
        state,
        limits=limits,
        bos=bos,
        eos=eos,
        banned=banned,
        choose=lambda logits, _rows, _step: logits.argmax(dim=-1),
    )


@torch.no_grad()
def follow(
    model: Steps[S],
    state: S,
    *,
    limits: Sequence[int],
    bos: int,
    eos: int,
    banned: Sequence[int],
    choose: Choose,
) -> list[Hypothesis]:
    """Extend one path a row by what `choose` picks, until eos or the row's limit.

    Rows that are done leave the batch, so that the others do not pay for them.
    """
    paths: list[list[int]] = [[] for _ in limits]
    totals, ended, device = [0.0] * len(limits), [False] * len(limits), home(model)
    rows = [row for row, limit in enumerate(limits) if limit > 0]
    where = upload(torch.tensor(rows, dtype=torch.int64), device)  # (N,): the row of each entry
    if 0 < len(rows) < len(limits):
        state = state.select(where)
    ids, step = upload(torch.full((len(rows), 1), bos), device), 0  # (N, 1)
    while rows:
        logits, state = model.step(ids, state)
        log_probs = next_log_probs(logits, banned)
        chosen = choose(log_probs, where, step)[:, None]  # (N, 1)
        values, tokens = to_host(log_probs.gather(1, chosen), chosen)
        step, keep = step + 1, list[int]()
        picked = zip(rows, values[:, 0].tolist(), tokens[:, 0].tolist(), strict=True)
        for place, (row, value, token) in enumerate(picked):
            if value == NEVER:
                continue
            totals[row] += value
            if token == eos:
                ended[row] = True
                continue
            paths[row].append(token)
            if step < limits[row]:
                keep.append(place)
        ids, rows = chosen, [rows[place] for place in keep]
        if 0 < len(keep) < len(chosen):
            places = upload(torch.tensor(keep), device)
            state, ids, where = state.select(places), chosen[places], where[places]
    return [Hypothesis(*row) for row in zip(paths, totals, totals, ended, strict=True)]
