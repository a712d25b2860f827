"""Texts of unlike lengths that come and go give what each gives alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.nn import attend as core
from headway.nn.attend import attend
from headway.nn.scores import make_score
from headway.nn.slots import Slots
from headway.nn.visibility import causal
from headway.settings.model import DecoderSettings

SMALL: dict[str, Any] = {
    "d_model": 16,
    "d_feed_forward": 24,
    "n_heads": 4,
    "n_layers": 3,
    "max_length": 64,
    "dropout": 0.0,
}
ROWS: dict[str, dict[str, Any]] = {
    "learned": {"positions": "learned"},
    "sinusoidal": {"order": "post", "positions": "sinusoidal"},
    "rotary, grouped": {"positions": "rotary", "n_kv_heads": 2, "norm": "rms"},
    "window": {"positions": "rotary", "n_kv_heads": 1, "reach": [4]},
    "windows in turn": {"positions": "learned", "reach": [5, 0, 3]},
    "additive": {"positions": "learned", "score": "additive", "n_kv_heads": 2},
}
V = 19


@pytest.fixture(params=list(ROWS), scope="module")
def model(request: pytest.FixtureRequest) -> Decoder:
    made = build_decoder(DecoderSettings(**SMALL | ROWS[request.param]), n_tokens=V, seed=1)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    return made.eval()


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def text(length: int, seed: int = 0) -> Tensor:
    return torch.randint(V, (length,), generator=torch.Generator().manual_seed(seed))


TEXTS = [text(9), text(2, 1), text(14, 2), text(6, 3)]


def read(model: Decoder, slots: Slots, row: int, ids: Tensor, size: int = 5) -> None:
    for piece in ids.split(size):
        model.read(piece[None], slots.part(row, row + 1))


def filled(model: Decoder, *texts: Tensor, rows: int = 4, places: int = 40) -> Slots:
    slots = model.slots(rows, places)
    slots.add(len(texts))
    for row, ids in enumerate(texts):
        read(model, slots, row, ids)
    return slots


def goes_on(model: Decoder, slots: Slots, texts: list[Tensor], steps: int = 4) -> None:
    """The next tokens of all rows, one by one, beside one pass over each text alone."""
    more = [text(steps, 50 + row) for row in range(len(texts))]
    for step in range(steps):
        ids = torch.stack([each[step : step + 1] for each in more])
        logits, _ = model.step(ids, slots.part(0, len(texts)))
        for row, before in enumerate(texts):
            alone = model(torch.cat((before, more[row][: step + 1]))[None])[0, -1]
            torch.testing.assert_close(logits[row, -1], alone, atol=1e-5, rtol=1e-4)
    assert slots.lengths == [len(each) + steps for each in texts]


@pytest.mark.parametrize("bands", [False, True], ids=["whole", "in bands"])
def test_texts_of_unlike_lengths_go_on_as_alone(
    model: Decoder, bands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "BAND_CROSSING", 0 if bands else 10**9)
    goes_on(model, filled(model, *TEXTS), TEXTS)


def test_texts_of_like_lengths_go_on_as_alone(model: Decoder) -> None:
    texts = [text(7, 5), text(7, 6)]
    goes_on(model, filled(model, *texts), texts)


def test_several_tokens_at_once_of_unlike_texts(model: Decoder) -> None:
    slots, more = filled(model, *TEXTS), torch.stack([text(5, 60 + row) for row in range(4)])
    logits, _ = model.step(more, slots.part(0, 4))
    for row, before in enumerate(TEXTS):
        alone = model(torch.cat((before, more[row]))[None])[0, len(before) :]
        torch.testing.assert_close(logits[row], alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("back", [0, 1, 4, 9])
def test_going_back_is_never_having_been(model: Decoder, back: int) -> None:
    slots = filled(model, *TEXTS)
    other = torch.stack([text(6, 70 + row) for row in range(4)])
    model.step(other, slots.part(0, 4))
    for row, before in enumerate(TEXTS):
        slots.rewind(row, max(0, len(before) - back))
    goes_on(model, slots, [before[: max(0, len(before) - back)] for before in TEXTS])
    with pytest.raises(ValueError, match="cannot go back"):
        slots.rewind(0, 30)


def test_the_last_text_takes_the_place_of_one_that_goes(model: Decoder) -> None:
    slots = filled(model, *TEXTS)
    slots.move(3, 0)
    slots.drop()
    goes_on(model, slots, [TEXTS[3], TEXTS[1], TEXTS[2]])


def test_a_newcomer_is_no_heir(model: Decoder) -> None:
    """Whatever stood in its row: what is no number would come through a weight of 0."""
    slots = filled(model, TEXTS[2], TEXTS[0])
    slots.drop()
    for room in slots._rooms:
        for part in room:
            part[1:] = torch.nan
    slots.add(1)
    read(model, slots, 1, TEXTS[1])
    goes_on(model, slots, [TEXTS[2], TEXTS[1]])
    for room in slots._rooms:
        for part in room:
            part[1] = torch.nan
    slots.move(0, 1)
    assert all(part[1, :, : max(slots.lengths)].isfinite().all() for part in slots._rooms[0])


def test_some_go_on_while_another_is_read(model: Decoder) -> None:
    slots = filled(model, *TEXTS[:2])
    slots.add(1)
    more = [text(3, 80), text(3, 81)]
    for step, piece in enumerate(TEXTS[2].split(5)):
        ids = torch.stack([each[step : step + 1] for each in more])
        model.step(ids, slots.part(0, 2))
        model.read(piece[None], slots.part(2, 3))
    texts = [torch.cat((one, other)) for one, other in zip(TEXTS, more, strict=False)]
    goes_on(model, slots, [*texts, TEXTS[2]])


def test_more_room_changes_nothing(model: Decoder) -> None:
    slots = filled(model, *TEXTS[:3], rows=3, places=14)
    with pytest.raises(ValueError, match="room for 3"):
        slots.add(1)
    with pytest.raises(ValueError, match="room for 14"):
        model.step(torch.zeros(1, 1, dtype=torch.int64), slots.part(2, 3))
    with pytest.raises(ValueError, match="do not fit in 2"):
        slots.resize(2, 40)
    slots.resize(5, 23)
    slots.add(1)
    read(model, slots, 3, TEXTS[3])
    goes_on(model, slots, TEXTS)


@pytest.mark.parametrize("name", ["blockwise", "banded"])
def test_what_takes_the_queries_for_the_last_refuses_others(name: Any) -> None:
    score = make_score("scaled_dot", 4, 4, n_heads=1, n_kv_heads=1, rank=None)
    query, key = torch.randn(2, 1, 2, 4), torch.randn(2, 1, 9, 4)
    sees = causal(torch.tensor([[3, 4], [7, 8]])).within(3)
    with pytest.raises(ValueError, match="takes the queries for the last keys"):
        attend(query, key, key, score=score, visibility=sees, implementation=name)
    found = [
        attend(query, key, key, score=score, visibility=sees, implementation=each)
        for each in ("auto", "reference", "fused")
    ]
    for each in found:
        torch.testing.assert_close(each, found[0])
