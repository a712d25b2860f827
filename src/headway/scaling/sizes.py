"""Which sizes and how many tokens a plan sets side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headway.base.errors import UserError
from headway.scaling.costs import flops_a_token, serving_flops
from headway.scaling.laws import ParametricLaw, power
from headway.scaling.published import MUENNIGHOFF
from headway.scaling.question import Question
from headway.scaling.repeated import RepeatedLaw
from headway.scaling.shapes import Shape, shape_of, shapes_of
from headway.scaling.units import short

FOR_SERVING = "for serving"
_SMALLEST = 4e5  # parameters: what a budget has to train and serve at least
PASSES = 4.0  # over the same text: so many are nearly as good as new text (Muennighoff, 2023)


@dataclass(frozen=True)
class Size:
    """A choice before it is costed. `asked` is one of which the question fixed something.

    `text` are the different tokens that there are to read, where that is less than what is read.
    """

    name: str
    why: str
    shape: Shape
    tokens: float
    text: float = math.inf
    asked: bool = False

    @property
    def unique(self) -> float:
        """The different ones among the training tokens."""
        return min(self.tokens, self.text)


def pick(question: Question, law: ParametricLaw, flops: float | None) -> list[Size]:
    """The choices for a question; `flops` are those that money and time allow, None for any.

    One for serving or for little text of which nothing was asked is left out where it cannot be.
    Raises UserError where a loss cannot be reached, or not with what there is.
    """
    made = _Maker(question, law)
    asked = made.asked(flops)
    compute = flops if flops is not None else made.flops(asked) if asked else None
    if compute is None:
        raise UserError("that is not enough to plan with", todo="give --money or --params")
    best = made.optimal(compute) if question.loss is None else made.cheapest(question.loss)
    sizes = [asked] if asked is not None and asked.asked else []
    if question.loss is not None:
        compute = made.flops(best)
        best = replace(best, asked=not sizes)  # it has to be paid for
    sizes.append(best)
    for wanted, make in (
        (question.serve_tokens, made.for_serving),
        (question.unique_tokens, made.with_little_text),
    ):
        try:
            sizes.append(make(best, compute))
        except UserError:  # too small to be built, or for the loss
            if wanted is not None:
                raise
    return sizes


class _Maker:
    """Makes choices of one question under one law."""

    def __init__(self, question: Question, law: ParametricLaw) -> None:
        self.question, self.law = question, law

    def shape(self, params: float) -> Shape:
        return shape_of(params, length=self.question.length, n_tokens=self.question.vocabulary)

    def flops(self, size: Size) -> float:
        return size.tokens * flops_a_token(size.shape)

    def size(self, name: str, why: str, params: float, tokens: float | None, flops: float) -> Size:
        """A choice of a size; without tokens, those that the FLOPs pay for."""
        shape = self.shape(params)
        return Size(name, why, shape, tokens or flops / flops_a_token(shape))

    def asked(self, flops: float | None) -> Size | None:
        """What the question fixes of size, tokens and loss; None if it fixes none of them."""
        ask, law = self.question, self.law
        params, tokens = ask.params, ask.tokens
        if params is None and tokens is None:
            return self.cheapest(ask.loss) if ask.loss is not None else None
        if params is not None and tokens is None:
            size = float(self.shape(params).parameters.all)
            if ask.loss is not None:
                tokens = law.tokens_for(size, ask.loss).tokens
            elif flops is None:
                tokens = law.suits(size).tokens
        elif params is None and tokens is not None:
            if ask.loss is not None:
                params = law.params_for(tokens, ask.loss).params
            elif flops is None:
                params = _suited(law, tokens)
            else:
                params = self._params_for(tokens, flops)
        found = self.size("as asked", "what was asked for", params or 0.0, tokens, flops or 0.0)
        return replace(found, text=ask.unique_tokens or math.inf, asked=True)

    def _params_for(self, tokens: float, flops: float) -> float:
        """The size that so many FLOPs can train on so many tokens."""
        params = flops / tokens / 6
        for _ in range(20):
            params *= flops / tokens / flops_a_token(self.shape(params))
        return params

    def optimal(self, flops: float) -> Size:
        """The least loss for the compute, attention and output counted.

        C = 6·N·D leaves them out, which is much of a small model: shapes around its optimum, with
        as many ids, are tried.
        """
        start = self.shape(self.law.optimum(flops).params)
        steps = (2 ** (step / 8) for step in range(-16, 9))
        sizes = (step * start.parameters.all for step in steps)
        shapes = shapes_of((params for params in sizes if params > _SMALLEST), like=start)
        tokens = {shape: flops / flops_a_token(shape) for shape in (start, *shapes)}
        best = min(tokens, key=lambda shape: self.law.loss(shape.parameters.all, tokens[shape]))
        why = "the least loss for this compute"
        return Size("compute-optimal", why, best, tokens[best])

    def cheapest(self, loss: float) -> Size:
        """The least compute for the loss."""
        found = self.law.cheapest(loss)
        shape = self.shape(found.params)
        # the shape is not quite the size: its own tokens give the loss that was asked for
        tokens = self.law.tokens_for(float(shape.parameters.all), loss).tokens
        why = "the least compute for this loss"
        return Size("compute-optimal", why, shape, tokens)

    def for_serving(self, best: Size, flops: float) -> Size:
        """A smaller model trained for longer, since each token it serves later is cheaper."""
        served, law, name = self.question.serve_tokens, self.law, FOR_SERVING
        if served is None:
            half = best.shape.parameters.all / 2
            why = "half the size costs half to serve, for the same training"
            if self.question.loss is None:
                return self.size(name, why, half, None, flops)
            tokens = law.tokens_for(half, self.question.loss).tokens
            return self.size(name, why.replace("training", "loss"), half, tokens, flops)
        if self.question.loss is not None:
            found = law.served(self.question.loss, served)
            why = f"the least compute of training and serving {short(served)} tokens, for this loss"
            return self.size(name, why, found.params, found.tokens, flops)
        if 2 * served * _SMALLEST > flops:
            raise takes_all(served)
        found_params = law.served(_served_loss(law, flops, served), served).params
        shape = self.shape(found_params)
        left = flops - served * serving_flops(shape)
        if left <= 0:  # attention over long texts, which the size was chosen without
            raise takes_all(served)
        why = f"the least loss where the compute also serves {short(served)} tokens"
        return Size(name, why, shape, left / flops_a_token(shape))

    def with_little_text(self, best: Size, flops: float) -> Size:
        """What is best where the text is short and has to be read again."""
        unique = self.question.unique_tokens or best.tokens / PASSES
        params = repeated(self.law).limited(flops, unique).params
        if self.question.unique_tokens is None:
            why = f"where there is a quarter of that text, {short(unique)} tokens"
        else:
            why = f"where there are {short(unique)} tokens of text"
        found = self.size("little text", why, params, None, flops)
        return replace(found, text=unique)


def takes_all(served: float) -> UserError:
    """What is said where serving leaves nothing to train with."""
    return UserError(
        f"serving {short(served)} tokens takes all that there is",
        where="--serve-tokens",
        todo="give more, or serve fewer",
    )


def repeated(law: ParametricLaw) -> RepeatedLaw:
    """A law with what Muennighoff (2023) measured of repeated text."""
    if isinstance(law, RepeatedLaw):
        return law
    return RepeatedLaw(
        name=law.name,
        source=law.source,
        measured=law.measured,
        counted=law.counted,
        **law.constants,
        R_D=MUENNIGHOFF.R_D,
        R_N=MUENNIGHOFF.R_N,
    )


def _suited(law: ParametricLaw, tokens: float) -> float:
    """The size that is the best for its compute with so many tokens."""
    ratio = law.alpha * law.A / (law.beta * law.B)
    return power(ratio * power(tokens, law.beta), 1 / law.alpha)


def _served_loss(law: ParametricLaw, flops: float, served: float) -> float:
    """The least loss whose training and serving cost no more than so many FLOPs."""
    low, high = law.optimum(flops).loss or 0.0, law.optimum(flops * 1e-6).loss or 0.0
    for _ in range(100):
        middle = (low + high) / 2
        found = law.served(middle, served)
        dear = 6 * found.params * found.tokens + 2 * found.params * served > flops
        low, high = (middle, high) if dear else (low, middle)
    return high
