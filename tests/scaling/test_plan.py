"""Plans: what follows from each sufficient part of a question, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.base.errors import UserError
from headway.scaling.costs import fewest, place
from headway.scaling.hardware import load_hardware
from headway.scaling.laws import ParametricLaw
from headway.scaling.plan import Plan, assumptions, make_plan
from headway.scaling.plan_page import outside_text, size_chart, write_page
from headway.scaling.plan_recipe import batch_and_rate, plan_recipe
from headway.scaling.published import BESIROGLU
from headway.scaling.question import Question, machine_of
from headway.scaling.shapes import shape_of
from headway.settings.counting import count_parameters
from headway.settings.kinds import LanguageRecipe
from headway.settings.recipe import load_recipe

HARDWARE = load_hardware()
PRICE = 3.99  # of an hour of h100-sxm


def plan(**question: Any) -> Plan:
    return make_plan(Question(**question), HARDWARE)


def names(found: Plan) -> list[str]:
    return [choice.name for choice in found.choices]


@pytest.mark.parametrize("params", [4e5, 1e6, 1e7, 1.24e8, 1e9, 7e9, 7e10, 4e11, 1e13])
def test_a_shape_comes_near_its_size(params: float) -> None:
    shape = shape_of(params)
    assert shape.parameters == count_parameters(shape.settings, shape.n_tokens)
    assert shape.parameters.all == pytest.approx(params, rel=0.15 if params < 1e6 else 0.06)
    assert 20 < shape.settings.d_model / shape.settings.n_layers < 180
    assert shape.settings.head_width in (64, 128)


def test_money_buys_the_compute_optimal_size() -> None:
    found = plan(money=1000)
    assert names(found) == ["compute-optimal", "for serving", "little text"]
    best, small, little = found.choices
    low, likely, high = HARDWARE.rate(found.machine)
    assert best.flops == pytest.approx(1000 / PRICE * 3600 * likely)
    assert best.cost.usd is not None
    assert best.cost.usd.likely == pytest.approx(1000)
    assert best.cost.hours.low / best.cost.hours.high == pytest.approx(low / high)
    assert best.tokens / best.shape.parameters.all == pytest.approx(20, rel=0.25)
    assert small.shape.parameters.all == pytest.approx(best.shape.parameters.all / 2, rel=0.05)
    assert small.flops == pytest.approx(best.flops)
    assert best.loss.likely < small.loss.likely < little.loss.likely
    assert little.epochs > 4
    assert little.unique_tokens == pytest.approx(best.tokens / 4)
    for choice in found.choices:
        assert choice.loss.low <= choice.loss.likely <= choice.loss.high


def test_no_size_does_better_with_the_same_operations() -> None:
    """What 6·N·D leaves out, attention and output, counts for small models."""
    for question in ({"money": 0.01}, {"money": 1}, {"money": 1e5}):
        best, *others = plan(**question).choices
        assert best.loss.likely <= min(other.loss.likely for other in others)
        for params in (0.7, 1.4):
            other = plan(params=params * best.shape.parameters.all, **question).choices[0]
            assert other.loss.likely > best.loss.likely - 1e-3


def test_money_pays_for_training_and_serving() -> None:
    found = plan(money=1e5, serve_tokens=1e12)
    best, served = found.choices[:2]
    for choice, total in ((best, 203_620), (served, 100_000)):
        assert choice.cost.usd is not None
        assert choice.serving is not None
        assert choice.serving.usd is not None
        assert choice.cost.usd.likely + choice.serving.usd.likely == pytest.approx(total, rel=0.01)
    assert served.shape.parameters.all < best.shape.parameters.all / 2


def test_money_and_time_say_how_many_machines() -> None:
    best = plan(money=10_000, hours=48).choices[0]
    assert best.cost.devices == int(10_000 / PRICE / 48)
    assert best.cost.hours.likely == pytest.approx(48)
    settled = plan(params=1e9, tokens=2e10, hours=10).choices[0]
    assert settled.cost.hours.likely <= 10 < settled.cost.hours.likely * 1.1


def test_more_time_than_it_takes_leaves_as_many_machines_as_hold_it() -> None:
    asked = {"params": 7e9, "tokens": 2e10}
    least = fewest(plan(**asked).choices[0].shape, HARDWARE.find("h100-sxm"))
    for hours in (60 * 24, 600 * 24):
        best = plan(**asked, hours=hours).choices[0]
        assert best.cost.devices == least
        assert best.cost.hours.likely < hours
    with pytest.raises(UserError, match="do not fit on one"):
        plan(**asked, hours=600 * 24, devices=1)


def test_time_alone_is_that_of_one_machine() -> None:
    for hours in (4.55, 12.87, 18.19, 31.03):  # whose rounding once made it two
        best = plan(hours=hours).choices[0]
        assert (best.cost.devices, best.cost.hours.likely) == (1, pytest.approx(hours))


def test_choices_that_cannot_be_are_left_out_where_nobody_asked() -> None:
    assert names(plan(params=320e3)) == ["as asked", "compute-optimal"]
    found = plan(params=30e6, vocabulary=200_000)  # a quarter of the size cannot be built
    assert len(found.choices) == 4
    assert size_chart(found).count("<svg") == 1
    steep = ParametricLaw(name="own", source="", E=1.0, A=200.0, B=8e5, alpha=0.3, beta=1.5)
    found = make_plan(Question(loss=3.0), HARDWARE, steep)  # which half the size never reaches
    assert names(found) == ["compute-optimal", "little text"]
    assert found.choices[0].loss.likely == pytest.approx(3.0, abs=1e-6)


def test_a_size_alone_gets_the_tokens_that_suit_it() -> None:
    found = plan(params=7e9)
    assert names(found)[0] == "as asked"
    asked, best = found.choices[:2]
    assert asked.shape.parameters.all == pytest.approx(best.shape.parameters.all, rel=0.15)
    tokens = plan(tokens=1e11).choices[0]
    assert BESIROGLU.suits(tokens.shape.parameters.all).tokens == pytest.approx(1e11, rel=0.1)


def test_any_two_of_size_tokens_and_loss_give_the_third() -> None:
    reached = plan(params=1e9, loss=2.3).choices[0]
    again = plan(params=1e9, tokens=reached.tokens).choices[0]
    assert again.loss.likely == pytest.approx(2.3, abs=1e-6)
    by_tokens = plan(tokens=reached.tokens, loss=2.3).choices[0]
    assert by_tokens.shape.parameters.all == pytest.approx(1e9, rel=0.05)


def test_a_loss_takes_the_least_compute() -> None:
    found = plan(loss=2.2, serve_tokens=1e12)
    best, served, _ = found.choices
    assert best.loss.likely == pytest.approx(2.2, abs=1e-6)
    assert served.loss.likely == pytest.approx(2.2, abs=2e-3)
    assert served.flops > best.flops
    assert served.serving is not None
    assert best.serving is not None
    assert served.cost.device_hours + served.serving.device_hours < 0.9 * (
        best.cost.device_hours + best.serving.device_hours
    )


def test_text_that_is_too_short_is_read_again() -> None:
    little = plan(money=1000, unique_tokens=1e10).choices[2]
    assert little.unique_tokens == 1e10
    assert little.tokens > 3e10
    plenty = plan(money=1000, unique_tokens=1e12).choices[2]
    assert plenty.epochs == 1.0
    assert plenty.loss.likely == pytest.approx(plan(money=1000).choices[0].loss.likely, abs=2e-3)


def test_what_does_not_fit_is_recomputed_then_sharded() -> None:
    machine = HARDWARE.find("rtx-4090")
    found = {}
    for params in (1e8, 1e9, 1.5e9, 3e9):
        placement = place(shape_of(params), machine, 16)
        assert placement is not None
        assert placement.bytes.peak < 0.9 * machine.bytes
        found[params] = (placement.recomputes, placement.shards)
    assert list(found.values()) == [(False, 1), (True, 1), (False, 16), (True, 16)]
    assert place(shape_of(3e9), machine, 8) is None
    assert fewest(shape_of(3e9), machine) == 16


def test_what_is_computed_again_takes_time_and_money() -> None:
    """A forward pass of the blocks more, to the three that a training is worth."""
    settled = {"params": 1e9, "tokens": 2e10, "utilisation": 0.4, "devices": 1}
    small, large = (plan(machine=name, **settled).choices[0] for name in ("rtx-4090", "h100-sxm"))
    assert small.placement is not None
    assert large.placement is not None
    assert (small.placement.recomputes, large.placement.recomputes) == (True, False)
    peaks = [HARDWARE.find(name).peak.bfloat16 or 0.0 for name in ("rtx-4090", "h100-sxm")]
    rates = [0.4e12 * peak * 3600 for peak in peaks]
    more, once = (
        choice.cost.device_hours * rate / choice.flops
        for choice, rate in zip((small, large), rates, strict=True)
    )
    assert once == pytest.approx(1.0)
    assert 1.25 < more < 4 / 3
    paid = plan(money=170, machine="rtx-4090", devices=1).choices[0]
    assert paid.placement is not None
    assert paid.placement.recomputes
    assert paid.cost.usd is not None
    assert paid.cost.usd.likely == pytest.approx(170, rel=0.02)


@pytest.mark.parametrize(
    ("question", "shards"),
    [
        ({"money": 1000}, 1),
        ({"hours": 2, "machine": "laptop-cpu"}, 1),
        ({"params": 7e9, "tokens": 2e10, "devices": 8}, 8),
    ],
)
def test_every_choice_has_a_recipe_that_trains_it(question: dict[str, Any], shards: int) -> None:
    found = plan(**question).choices
    assert found[0].placement is not None
    assert found[0].placement.shards == shards
    for choice in found:
        recipe = load_recipe(plan_recipe(choice, "h100-sxm"))
        assert isinstance(recipe, LanguageRecipe)
        train, n_tokens = recipe.train, recipe.tokenizer.size
        assert count_parameters(recipe.model, n_tokens) == choice.shape.parameters
        seen = train.steps * train.batch_tokens * train.accumulate
        assert seen == pytest.approx(choice.tokens, rel=0.01)
        assert choice.placement is not None
        assert train.checkpoint_activations == choice.placement.recomputes
        assert train.parallel == ("shard" if choice.placement.shards > 1 else "replicate")


def test_a_compute_that_no_run_had_is_outside_of_the_law() -> None:
    """Of sizes and of tokens that the law was measured at, but of more of both together."""
    found = plan(params=1.5e10, tokens=3e11)
    (said,) = found.choices[0].outside
    assert "training FLOPs are above 1.3e+22" in said
    (line,) = outside_text(found)
    assert "1.4e+18 to 1.3e+22 FLOPs): as asked" in line


def test_what_no_device_holds_whole_is_planned_but_has_no_recipe(tmp_path: Path) -> None:
    """`headway train` keeps the whole model on the first device, to judge it."""
    found = plan(params=7e10, tokens=1e12)
    asked = found.choices[0]
    assert asked.placement is not None
    assert not asked.placement.judged
    assert asked.placement.bytes.judged == 0
    assert "judging elsewhere" in asked.placement.text()
    assert any(line.startswith("Judging elsewhere") for line in assumptions(found))
    with pytest.raises(UserError, match=r"needs all 69\.9B .* on the first device"):
        plan_recipe(asked, "h100-sxm")
    write_page(found, tmp_path / "plan.html")
    assert "[model]" not in (tmp_path / "plan.html").read_text("utf-8")
    judged = plan(params=7e9, tokens=2e10, devices=8)
    placement = judged.choices[0].placement
    assert placement is not None
    assert placement.judged
    assert placement.bytes.judged == 4 * judged.choices[0].shape.parameters.all
    assert not any(line.startswith("Judging elsewhere") for line in assumptions(judged))


def test_batch_and_rate_are_those_of_deepseek() -> None:
    """Their 7B: 2,304 texts of 4,096 tokens at 4.2e-4; their 67B 4,608 at 3.2e-4 (table 2)."""
    for flops, batch, rate in ((6 * 6.5e9 * 2e12, 2304, 4.2e-4), (6 * 66e9 * 2e12, 4608, 3.2e-4)):
        found, found_rate = batch_and_rate(flops)
        assert found / 4096 == pytest.approx(batch, rel=0.25)
        assert found_rate == pytest.approx(rate, rel=0.25)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({}, "not enough to plan with"),
        ({"serve_tokens": 1e9}, "not enough to plan with"),
        ({"money": 0}, "money must be a number above 0, not 0"),
        ({"loss": 1.8}, "no training reaches a loss of 1.8"),
        ({"params": 1e9, "loss": 2.1}, "at 1.01e\\+09 parameters"),
        ({"tokens": 1e9, "loss": 2.1}, "at 1e\\+09 tokens"),
        ({"loss": 2.0, "money": 10}, r"\$10 pay for 2.51"),
        ({"params": 7e9, "tokens": 1e12, "money": 10}, r"\$10 pay for 2.51"),
        ({"params": 1e9, "tokens": 1e12, "hours": 24, "devices": 8}, "24 h on 8 machines pay for"),
        ({"params": 1e9, "tokens": 1e9, "loss": 2.0}, "these three contradict"),
        ({"params": 1e15}, "no model of 1e\\+15 parameters"),
        ({"params": 100}, "the smallest has"),
        ({"params": 4e13}, "no number of them holds it"),
        ({"params": 3e10, "machine": "l4", "devices": 1}, "fit on one NVIDIA L4 24 GB.*takes 128"),
        ({"params": 7e10, "machine": "l4", "devices": 1024}, "no number of them holds it"),
        ({"money": 100, "machine": "laptop-cpu"}, "has no price"),
        ({"money": 100, "machine": "h100"}, "there is h100-sxm and h100-pcie"),
        ({"money": 10, "serve_tokens": 1e15}, "takes all that there is"),
        ({"money": 10, "utilisation": 1.5}, "at most 1, not 1.5"),
        ({"money": 10, "devices": 10**9}, "at most 131,072 machines"),
        ({"params": 7e10, "tokens": 1e13, "hours": 1e-3}, "in 3.6 s this takes .* machines"),
        ({"params": 330e3, "serve_tokens": 1e15}, "takes all that there is"),
        ({"money": 1e3, "serve_tokens": 1e12, "length": 2**17}, "1T tokens takes all that there"),
    ],
)
def test_nonsense_is_refused_with_a_reason(question: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan(**question)


def test_machines_are_named_and_counted() -> None:
    assert machine_of("h100-sxm:8") == ("h100-sxm", 8)
    assert machine_of("t4") == ("t4", None)
    for text in ("t4:0", "t4:-1", "t4:many", "t4:", "t4:9999999999"):
        with pytest.raises(UserError, match="is no number of machines"):
            machine_of(text)
