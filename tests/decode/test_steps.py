"""What all ways of decoding share: no gradients, and one wait for the device a step."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import Tensor

from headway.decode.beam import beam_search
from headway.decode.greedy import greedy
from headway.decode.sampling import sample

BOS, EOS = 0, 1
WAITS = {"cpu", "item", "tolist", "numpy", "nonzero", "__bool__", "__int__", "__float__", "equal"}
waited: collections.Counter[str] = collections.Counter()


class OnDevice(Tensor):
    """Stands for a tensor on an accelerator: counts what would make the host wait for it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = func.__name__
        masks = [arg for arg in args[1:] if isinstance(arg, OnDevice) and arg.dtype == torch.bool]
        if name in WAITS or (name == "__getitem__" and masks):
            waited[name] += 1
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.as_subclass(Tensor) if name == "cpu" else result


def run_greedy(model, limits):
    keys = range(len(limits))
    return greedy(model, model.of(*keys), rows=len(limits), bos=BOS, eos=EOS, limits=limits)


def run_sample(model, limits):
    keys = range(len(limits))
    more = {"temperature": 0.9, "top_k": 6, "top_p": 0.9, "banned": [3]}
    return sample(model, model.of(*keys), seeds=keys, bos=BOS, eos=EOS, limits=limits, **more)


def run_beam(model, limits):
    keys, more = range(len(limits)), {"width": 3, "n_best": 2, "banned": [3]}
    state, rows = model.of(*keys), len(limits)
    return beam_search(model, state, rows=rows, bos=BOS, eos=EOS, limits=limits, **more)


RUNS = pytest.mark.parametrize("run", [run_greedy, run_sample, run_beam])


@RUNS
def test_the_host_waits_for_the_device_once_a_step(toy, run):
    plain = toy(n_tokens=8, eos=1.0)
    model = toy(lambda key, prefix: plain.logits(key, prefix).as_subclass(OnDevice))
    waited.clear()
    run(model, [9, 0, 3, 12, 5])
    assert waited == {"cpu": len(model.sizes)}


@RUNS
def test_no_gradients_are_recorded(toy, run):
    seen = []
    run(toy(lambda key, prefix: seen.append(torch.is_grad_enabled()) or torch.zeros(5)), [2])
    assert set(seen) == {False}
    assert torch.is_grad_enabled()


@RUNS
def test_the_result_is_plain_python(toy, run):
    for found in run(toy(n_tokens=8), [4, 0]):
        for row in found if isinstance(found, list) else [found]:
            assert {type(token) for token in row.ids} <= {int}
            assert (type(row.log_prob), type(row.score), type(row.ended)) == (float, float, bool)
