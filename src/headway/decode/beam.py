"""Beam search: the best few paths of each row side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.decode.steps import (
    NEVER,
    Hypothesis,
    S,
    Steps,
    check_limits,
    home,
    length_divisor,
    next_log_probs,
    to_host,
    upload,
)


@torch.no_grad()
def beam_search(
    model: Steps[S],
    state: S,
    *,
    rows: int,
    bos: int,
    eos: int,
    limits: Sequence[int],
    width: int,
    n_best: int = 1,
    length_penalty: float = 0.6,
    banned: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Search each of the `rows` of `state` with `width` live hypotheses; the best come first.

    The score is log_prob / ((5 + n) / 6) ** length_penalty, n = tokens, eos included (Wu et al.
    2016, equation 14, without the coverage term). A hypothesis ends when eos is among the `width`
    likeliest of all one-token extensions of its row. A row is done when nothing live can still
    beat its `n_best`-th ended one; so `n_best` never changes which is best, and a `width` that
    holds every sequence is an exhaustive search.

    A row gives at most `n_best` hypotheses (fewer if there are no more) and at least one. Ended
    ones come first; those cut at the row's limit (`ended` False) fill up only where fewer than
    `n_best` ended, whatever their scores, since half a sentence is not an answer.

    `limits` and `banned` as in `greedy`. Raises UserError for a `width` below 1, an `n_best`
    outside 1..width, a `length_penalty` outside -10..10, a negative limit, or a model whose output
    is not a number.
    """
    check_limits(rows, limits)
    _check(width, n_best, length_penalty)
    device = home(model)
    found: list[list[Hypothesis]] = [[] for _ in limits]
    search = _Search(eos, width, n_best, length_penalty, found)
    beams = _first(limits, width)
    if 0 < len(beams.rows) < rows:
        state = state.select(upload(beams.rows, device))
    ids = torch.full((len(beams.rows), 1), bos, device=device)
    while len(beams.rows):
        logits, state = model.step(ids, state)
        log_probs = next_log_probs(logits, banned)
        # One more than width: a hypothesis may spend one of its best extensions on eos.
        top = log_probs.topk(min(width + 1, log_probs.shape[-1]), dim=-1)
        beams, parents, tokens = search.advance(beams, *to_host(top.values, top.indices))
        ids = upload(tokens[:, None], device)  # (N, 1)
        if len(parents) and not torch.equal(parents, torch.arange(len(logits))):
            state = state.select(upload(parents, device))
    empty = Hypothesis([], 0.0, 0.0, ended=False)
    return [hypotheses or [empty] for hypotheses in found]


@dataclass(frozen=True)
class _Beams:
    """Live hypotheses of the R rows still searched, in W slots each; on the CPU.

    The model's state has one entry for each slot in use, row by row.
    """

    rows: Tensor  # (R,): which of the caller's rows
    limits: Tensor  # (R,)
    log_probs: Tensor  # (R, W), float64; -inf in a slot not in use
    paths: Tensor  # (R, W, n): the n tokens so far


@dataclass(frozen=True)
class _Extensions:
    """The likeliest C one-token extensions of each row, best first."""

    log_probs: Tensor  # (R, C), float64
    parents: Tensor  # (R, C): slot of the hypothesis that is extended
    tokens: Tensor  # (R, C)


@dataclass(frozen=True)
class _Search:
    """The settings of a search, and what it has found."""

    eos: int
    width: int
    n_best: int
    length_penalty: float
    found: list[list[Hypothesis]]  # a list a row: ended ones, best first, at most n_best

    def advance(
        self, beams: _Beams, values: Tensor, tokens: Tensor
    ) -> tuple[_Beams, Tensor, Tensor]:
        """Extend the N live hypotheses by one token, given the best k next ones of each (N, k).

        Returns the new beams and, for each slot in use, the entry of the old state that it
        continues and its new token (N',).
        """
        extensions = self._extend(beams, values, tokens)
        is_eos = extensions.tokens == self.eos
        n = beams.paths.shape[2] + 1
        ends = is_eos & (extensions.log_probs > NEVER)
        ends[:, self.width :] = False
        self._keep_ended(beams, extensions, ends, n)

        goes_on = ~is_eos
        # The extensions are sorted, so a stable sort by "goes on" has the best of these first.
        first = (~goes_on).byte().argsort(dim=1, stable=True)[:, : self.width]  # (R, W)
        log_probs = extensions.log_probs.gather(1, first)
        log_probs = log_probs.masked_fill(~goes_on.gather(1, first), NEVER)
        slots = extensions.parents.gather(1, first)
        new = extensions.tokens.gather(1, first)
        paths = beams.paths.gather(1, slots[:, :, None].expand(-1, -1, n - 1))
        paths = torch.cat([paths, new[:, :, None]], dim=2)  # (R, W, n)
        after = _Beams(beams.rows, beams.limits, log_probs, paths)

        done = self._done(after, n)
        self._keep_cut(beams, after, done)
        going = ~done
        entries = (beams.log_probs > NEVER).flatten().cumsum(0).view(beams.log_probs.shape) - 1
        after = _Beams(beams.rows[going], beams.limits[going], log_probs[going], paths[going])
        used = after.log_probs > NEVER
        return after, entries.gather(1, slots)[going][used], new[going][used]

    def _extend(self, beams: _Beams, values: Tensor, tokens: Tensor) -> _Extensions:
        """The best extensions of each row: enough for `width` that end and `width` that do not."""
        used = beams.log_probs > NEVER
        (n_rows, width), n_next = used.shape, values.shape[1]
        grid = torch.full((n_rows, width, n_next), NEVER, dtype=torch.float64)
        grid[used] = beams.log_probs[used][:, None] + values
        ids = torch.zeros((n_rows, width, n_next), dtype=torch.int64)
        ids[used] = tokens
        best = grid.flatten(1).sort(dim=1, descending=True, stable=True)
        places = best.indices[:, : 2 * width]  # (R, C)
        return _Extensions(
            best.values[:, : 2 * width], places // n_next, ids.flatten(1).gather(1, places)
        )

    def _keep_ended(self, beams: _Beams, extensions: _Extensions, ends: Tensor, n: int) -> None:
        """Keep the `n_best` best of the ended hypotheses of each row; of equals, the earlier."""
        penalty = self.penalty(n)
        places, ranks = ends.nonzero(as_tuple=True)
        rows = beams.rows[places].tolist()
        paths = beams.paths[places, extensions.parents[places, ranks]].tolist()
        log_probs = extensions.log_probs[places, ranks].tolist()
        for row, path, log_prob in zip(rows, paths, log_probs, strict=True):
            kept = self.found[row]
            kept.append(Hypothesis(path, log_prob, log_prob / penalty, ended=True))
            kept.sort(key=lambda hypothesis: -hypothesis.score)
            del kept[self.n_best :]

    def _done(self, beams: _Beams, n: int) -> Tensor:
        """Which rows (R,) are at their limit, or have nothing live that can beat what they found.

        A log-probability only falls, so a live one gets at best what it has now over the largest
        penalty ahead of it.
        """
        found = [self.found[row] for row in beams.rows.tolist()]
        to_beat = [kept[-1].score if len(kept) == self.n_best else NEVER for kept in found]
        at_once = self.penalty(n + 1)
        largest = [max(at_once, self.penalty(limit)) for limit in beams.limits.tolist()]
        reachable = beams.log_probs.amax(dim=1) / torch.tensor(largest, dtype=torch.float64)
        beaten = reachable <= torch.tensor(to_beat, dtype=torch.float64)
        return beaten | (beams.limits <= n)

    def _keep_cut(self, before: _Beams, after: _Beams, done: Tensor) -> None:
        """Fill up rows that are done with too few ended hypotheses with what was cut."""
        for place in done.nonzero()[:, 0].tolist():
            kept = self.found[int(after.rows[place])]
            cut = after
            if not kept and bool((after.log_probs[place] == NEVER).all()):
                cut = before  # a dead end: no token can follow
            penalty = self.penalty(cut.paths.shape[2])
            log_probs = cut.log_probs[place].tolist()
            for slot in range(min(self.n_best - len(kept), self.width)):
                if (log_prob := log_probs[slot]) > NEVER:
                    path = cut.paths[place, slot].tolist()
                    kept.append(Hypothesis(path, log_prob, log_prob / penalty, ended=False))

    def penalty(self, n: int) -> float:
        """What the log-probability of a hypothesis of `n` tokens is divided by."""
        return length_divisor(n, self.length_penalty)


def _first(limits: Sequence[int], width: int) -> _Beams:
    """One live, empty hypothesis for each row whose limit is not 0."""
    n_tokens = torch.tensor(limits, dtype=torch.int64)
    rows = n_tokens.nonzero()[:, 0]
    log_probs = torch.full((len(rows), width), NEVER, dtype=torch.float64)
    log_probs[:, 0] = 0
    paths = torch.zeros((len(rows), width, 0), dtype=torch.int64)
    return _Beams(rows, n_tokens[rows], log_probs, paths)


def _check(width: int, n_best: int, length_penalty: float) -> None:
    if width < 1:
        raise UserError(f"a beam cannot be {width} wide", where="width", todo="1 or more")
    if not 1 <= n_best <= width:
        raise UserError(
            f"a beam {width} wide cannot give {n_best} hypotheses",
            where="n_best",
            todo=f"from 1 to {width}, or a wider beam",
        )
    if not abs(length_penalty) <= 10:
        raise UserError(
            f"the length penalty cannot be {length_penalty}",
            where="length_penalty",
            todo="from -10 to 10; 0 for none, 0.6 is usual, more favours longer answers",
        )
