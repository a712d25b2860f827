"""The recurrent encoder–decoder against a float64 loop, token by token, gates written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headway.models.build import build
from headway.models.recurrent import RecurrentTranslator
from headway.settings.model import RecurrentSettings

Array = NDArray[np.float64]
E, W, V_SOURCE, V_TARGET = 6, 8, 9, 10
SOURCE = [[3, 1, 4, 1, 5], [2, 7], [6, 6, 2, 0]]
TARGET = [[1, 2, 3, 4], [1, 9, 9, 8], [1, 0, 5, 2]]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Loop:
    """The model's weights in float64, and its formulas for one sentence."""

    def __init__(self, model: RecurrentTranslator, settings: RecurrentSettings) -> None:
        self.weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
        self.settings = settings

    def cell(self, x: Array, state: tuple[Array, ...], name: str, suffix: str) -> tuple[Array, ...]:
        """The state after x; the output is its first part (torch.nn.GRU and LSTM say the same)."""
        inner = f"_l0{suffix}"
        from_x = (
            self.weights[f"{name}.weight_ih{inner}"] @ x + self.weights[f"{name}.bias_ih{inner}"]
        )
        before = self.weights[f"{name}.weight_hh{inner}"] @ state[0]
        before = before + self.weights[f"{name}.bias_hh{inner}"]
        if self.settings.cell == "gru":
            (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3), np.split(before, 3)
            reset, update = sigmoid(xr + hr), sigmoid(xz + hz)
            new = np.tanh(xn + reset * hn)
            return ((1 - update) * new + update * state[0],)
        entry, forget, new, exit_ = np.split(from_x + before, 4)
        memory = sigmoid(forget) * state[1] + sigmoid(entry) * np.tanh(new)
        return sigmoid(exit_) * np.tanh(memory), memory

    def read(
        self, xs: list[Array], begin: tuple[Array, ...], name: str, suffix: str = ""
    ) -> tuple[list[Array], tuple[Array, ...]]:
        """The outputs at each token, and the state after the last."""
        state, outputs = begin, []
        for x in xs:
            state = self.cell(x, state, name, suffix)
            outputs.append(state[0])
        return outputs, state

    def encode(self, source: list[int]) -> tuple[list[Array], list[Array], list[tuple[Array, ...]]]:
        """Embeddings, states of the last layer, and where each decoder layer begins."""
        embedded = [self.weights["source_embedding.weight"][token] for token in source]
        states, begins = embedded, []
        parts = 1 if self.settings.cell == "gru" else 2
        for layer in range(self.settings.n_layers):
            name = f"encoder.layers.{layer}"
            width = W // 2 if self.settings.bidirectional else W
            zero = tuple(np.zeros(width) for _ in range(parts))
            forward, end = self.read(states, zero, name)
            if self.settings.bidirectional:
                back, back_end = self.read(states[::-1], zero, name, "_reverse")
                pairs = zip(forward, back[::-1], strict=True)
                forward = [np.concatenate(pair) for pair in pairs]
                end = tuple(np.concatenate(pair) for pair in zip(end, back_end, strict=True))
            states = forward
            weight, bias = (self.weights[f"bridge.{layer}.{kind}"] for kind in ("weight", "bias"))
            begins.append(tuple(np.tanh(weight @ part + bias) for part in end))
        return embedded, states, begins

    def score(self, query: Array, key: Array) -> float:
        """One score, by the formula of its name (one head)."""
        weights = self.weights
        if self.settings.score == "dot":
            return float(query @ key)
        if self.settings.score == "scaled_dot":
            return float(query @ key / np.sqrt(len(query)))
        if self.settings.score == "bilinear":
            return float(query @ weights["score.weight"][0] @ key)
        left, right = weights["score.query_weight"][0], weights["score.key_weight"][0]
        if self.settings.score == "low_rank_bilinear":
            return float(query @ left @ right @ key)
        return float(np.tanh(query @ left + key @ right) @ weights["score.vector"][0, :, 0])

    def logits(self, source: list[int], target: list[int]) -> Array:
        """(T, V): what follows each target token."""
        embedded, states, begins = self.encode(source)
        looked = embedded if self.settings.attend_over == "embeddings" else states
        said, rows = np.zeros(E), []
        for token in target:
            output = self.weights["target_embedding.weight"][token]
            if self.settings.input_feeding:
                output = np.concatenate((output, said))
            for layer, state in enumerate(begins):
                begins[layer] = self.cell(output, state, f"decoder.layers.{layer}", "")
                output = begins[layer][0]
            if self.settings.score != "none":
                weights = np.exp([self.score(output, key) for key in looked])
                context = (weights / weights.sum()) @ np.array(looked)
                output = np.concatenate((context, output))
            weight, bias = self.weights["readout.weight"], self.weights["readout.bias"]
            said = np.tanh(weight @ output + bias)
            rows.append(self.weights["head.weight"] @ said)
        return np.array(rows)


SETTINGS: list[dict[str, Any]] = [
    {"score": "none", "cell": "gru"},
    {"score": "none", "cell": "lstm", "n_layers": 2},
    {"score": "dot", "cell": "gru", "bidirectional": False},
    {"score": "scaled_dot", "cell": "lstm"},
    {"score": "bilinear", "cell": "gru", "n_layers": 2},
    {"score": "bilinear", "cell": "lstm", "attend_over": "embeddings"},
    {"score": "low_rank_bilinear", "score_rank": 3, "cell": "gru"},
    {"score": "low_rank_bilinear", "score_rank": 3, "cell": "lstm", "attend_over": "embeddings"},
    {"score": "additive", "cell": "gru", "n_layers": 2},
    {"score": "additive", "cell": "lstm", "bidirectional": False, "n_layers": 2},
    {"score": "additive", "score_rank": 5, "cell": "gru", "attend_over": "embeddings"},
    {"score": "additive", "cell": "gru", "tie": "output"},
    {"score": "additive", "cell": "gru", "n_layers": 2, "input_feeding": True},
    {"score": "dot", "cell": "lstm", "input_feeding": True},
]


@pytest.mark.parametrize("changed", SETTINGS, ids=lambda row: "-".join(map(str, row.values())))
def test_equals_the_loop(changed: dict[str, Any]) -> None:
    settings = RecurrentSettings(d_embedding=E, d_hidden=W, **changed)
    model = build(settings, n_source=V_SOURCE, n_target=V_TARGET)
    assert isinstance(model, RecurrentTranslator)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.4)
    loop = Loop(model, settings)
    longest = max(map(len, SOURCE))
    source = torch.tensor([row + [8] * (longest - len(row)) for row in SOURCE])
    real = torch.tensor([[place < len(row) for place in range(longest)] for row in SOURCE])
    found = model(source, real, torch.tensor(TARGET))
    wanted = [loop.logits(*pair) for pair in zip(SOURCE, TARGET, strict=True)]
    np.testing.assert_allclose(found.detach().numpy(), np.array(wanted), rtol=1e-4, atol=1e-5)
