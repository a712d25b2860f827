"""Laws of layers that do not look at everything: windows, global tokens, mixtures of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.models.build import build_decoder, build_masked
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.nn import attend as core
from headway.nn.dropout import Noise
from headway.settings.base import parse
from headway.settings.model import DecoderSettings, EncoderSettings

SMALL: dict[str, Any] = {
    "d_model": 16,
    "d_feed_forward": 24,
    "n_heads": 4,
    "n_layers": 3,
    "max_length": 64,
    "dropout": 0.0,
}
V, T = 30, 48


def encoder(**settings: Any) -> Encoder:
    made = build_masked(EncoderSettings(**SMALL | settings), n_tokens=V, seed=1).encoder
    with torch.no_grad():  # so that all that is learned shows
        for weight in made.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    return made


def decoder(**settings: Any) -> Decoder:
    row = {"order": "pre", "positions": "rotary", "n_kv_heads": 2}
    return build_decoder(DecoderSettings(**SMALL | row | settings), n_tokens=V, seed=1)


def texts(n: int = 2, length: int = T) -> Tensor:
    return torch.randint(V, (n, length), generator=torch.Generator().manual_seed(3))


def real(*lengths: int) -> Tensor:
    return torch.arange(T) < torch.tensor(lengths)[:, None]


@pytest.fixture(params=[False, True], ids=["whole", "in bands"])
def in_bands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Windows by masks, or by bands wherever there is one."""
    monkeypatch.setattr(core, "BAND_CROSSING", 0 if request.param else 10**9)
    return bool(request.param)


@torch.no_grad()
def test_a_window_that_shows_all_is_none(in_bands: bool) -> None:
    ids, shown = texts(), real(T, 30)
    wide, plain = encoder(reach=[2 * T]), encoder()
    near = {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(wide(ids, shown)[shown], plain(ids, shown)[shown], **near)
    torch.testing.assert_close(decoder(reach=[T])(ids), decoder()(ids), **near)


@torch.no_grad()
@pytest.mark.parametrize("n_global", [0, 1])
@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_texts_together_are_as_alone(n_global: int, n_heads: int, in_bands: bool) -> None:
    """As many heads as texts, fewer, more; with gaps in the window and tokens that see all."""
    model = encoder(reach=[4, 8], dilation=[2, 1], n_global=n_global, n_heads=n_heads).eval()
    ids, shown = texts(), real(T, 30)
    found = model(ids, shown)
    for row, length in enumerate((T, 30)):
        alone = model(ids[row : row + 1, :length], shown[row : row + 1, :length])
        torch.testing.assert_close(found[row, :length], alone[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("feed_forward", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_an_encoder_guesses_with_any_feed_forward(feed_forward: str) -> None:
    model = build_masked(EncoderSettings(**SMALL, feed_forward=feed_forward), n_tokens=V)
    logits = model(texts(), real(T, 30))
    assert logits.shape == (2, T, V)
    assert logits.isfinite().all()


@pytest.mark.parametrize("n_global", [0, 1, 3])
def test_bands_and_masks_agree(n_global: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, shown = texts(), real(T, 30)
    found = []
    for crossing in (0, 10**9):
        monkeypatch.setattr(core, "BAND_CROSSING", crossing)
        model = encoder(reach=[4, 8, 0], n_global=n_global)
        hidden = model(ids, shown)[shown]
        (hidden**2).sum().backward()
        slopes = {name: weight.grad for name, weight in model.named_parameters()}
        found.append({"hidden": hidden, **slopes})
    for name, value in found[0].items():
        if name.startswith("pooler"):
            continue
        assert value is not None, name
        torch.testing.assert_close(value, found[1][name], atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize(
    "settings", [{"reach": [4], "n_global": 2}, {"reach": [4], "n_global": T}, {"n_keys": 8}]
)
def test_dropped_weights_are_the_same_when_recomputed(
    settings: dict[str, Any], in_bands: bool
) -> None:
    ids, shown, found = texts(), real(T, 30), []
    for recomputes in (False, True):
        model = encoder(**settings, attention_dropout=0.4, dropout=0.2)
        model.stack.recomputes = recomputes
        (model(ids, shown, noise=Noise(1, 2))[shown] ** 2).sum().backward()
        found.append([weight.grad for weight in model.stack.parameters()])
    assert all(
        one is not None and other is not None and torch.equal(one, other)
        for one, other in zip(*found, strict=True)
    )
    calm = encoder(**settings, attention_dropout=0.4)
    with torch.no_grad():
        plain, other = calm(ids, shown), calm(ids, shown, noise=Noise(1, 3))
        assert not torch.allclose(plain, other)
        assert torch.equal(calm(ids, shown, noise=Noise(1, 3)), other)


def test_training_with_dropped_weights_is_linear_in_memory(peak_of: Callable[[], Any]) -> None:
    """Trap H4, of a whole encoder: all weights of a head would take sixteen times the bytes."""
    most = []
    for length in (1024, 4096):
        own = {"reach": [8], "n_global": 1, "n_layers": 1, "max_length": 4096}
        model = encoder(**own, attention_dropout=0.1)
        shown = torch.ones(1, length, dtype=torch.bool)
        with peak_of() as peak:
            model(texts(1, length), shown, noise=Noise(1, 2)).sum().backward()
        most.append(peak.most)
    assert most[1] < 5 * most[0]


@torch.no_grad()
def test_what_is_beyond_the_reach_changes_nothing(in_bands: bool) -> None:
    model, ids = encoder(reach=[4], n_layers=1), texts(1)
    changed = ids.clone()
    changed[0, 20] = (ids[0, 20] + 1) % V
    differs = (model(ids, real(T)) != model(changed, real(T))).any(dim=-1)[0].nonzero()[:, 0]
    assert differs.tolist() == [18, 19, 20, 21, 22]
    causal = decoder(reach=[4], n_layers=1, positions="none")
    differs = (causal(ids) != causal(changed)).any(dim=-1)[0].nonzero()[:, 0]
    assert differs.tolist() == [20, 21, 22, 23]


@torch.no_grad()
def test_global_tokens_see_all_and_are_seen_by_all(in_bands: bool) -> None:
    model, ids = encoder(reach=[4], n_layers=1, n_global=2), texts(1)
    for place, seen_by in ((1, list(range(T))), (40, [0, 1, *range(38, 43)])):
        changed = ids.clone()
        changed[0, place] = (ids[0, place] + 1) % V
        differs = (model(ids, real(T)) != model(changed, real(T))).any(dim=-1)[0].nonzero()[:, 0]
        assert differs.tolist() == seen_by


@torch.no_grad()
@pytest.mark.parametrize(
    "settings", [{"reach": [6], "n_global": 1}, {"n_keys": 8}, {"n_keys": 8, "mixes": "layers"}]
)
def test_padding_changes_nothing(settings: dict[str, Any], in_bands: bool) -> None:
    model, ids, shown = encoder(**settings), texts(), real(T, 30)
    padded = model(ids, shown)
    alone = model(ids[1:, :30], torch.ones(1, 30, dtype=torch.bool))
    torch.testing.assert_close(padded[1:, :30], alone, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("reach", [[5], [5, 0], [3, 0, 7]])
def test_a_cache_changes_nothing(reach: list[int], in_bands: bool) -> None:
    model, ids = decoder(reach=reach), texts()
    whole = model(ids)
    state = model.start(ids[:, :20], torch.tensor([20, 20]))
    for place in range(20, T):
        logits, state = model.step(ids[:, place : place + 1], state)
        torch.testing.assert_close(logits[:, -1], whole[:, place], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_mixtures_that_are_the_keys_are_plain_attention() -> None:
    ids, shown = texts(), real(T, T)
    plain, mixed = encoder(max_length=T), encoder(max_length=T, n_keys=T)
    mixed.load_state_dict(plain.state_dict(), strict=False)
    for name, weight in mixed.named_parameters():
        if ".mixtures." in name:
            weight.copy_(torch.eye(T))
    torch.testing.assert_close(mixed(ids, shown), plain(ids, shown), atol=1e-5, rtol=1e-4)


def test_a_stack_is_one_graph_for_torch_compile() -> None:
    model = encoder(reach=[4, 0], n_global=1, n_layers=2)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    ids, shown = texts(), real(T, 30)
    assert torch.equal(compiled(ids, shown), model(ids, shown))


def test_mixtures_are_shared_as_the_settings_say() -> None:
    """Wang et al., section 4: 24, 12 and 1 matrices for 12 layers."""
    counts = {
        mixes: sum(
            weight.numel()
            for name, weight in encoder(n_keys=8, mixes=mixes).named_parameters()
            if ".mixtures." in name
        )
        for mixes in ("heads", "keys_and_values", "layers")
    }
    one = 8 * 64
    assert counts == {"heads": 6 * one, "keys_and_values": 3 * one, "layers": one}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n_global": 1}, "n_global is for layers that do not see all"),
        ({"n_keys": 8, "reach": [4]}, "it goes without reach"),
        ({"n_keys": 65}, "n_keys = 65 are more than max_length = 64"),
        ({"reach": [5]}, "make it even"),
        ({"reach": []}, "reach"),
        ({"reach": [-2]}, "reach"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse(EncoderSettings, {"kind": "encoder", **SMALL, **settings}, where="model")
