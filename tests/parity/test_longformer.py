"""Longformer equals transformers' own, from its folders and in folders for it; what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.base.errors import UserError
from headway.checkpoint.exchange.families import FAMILIES
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.models.build import build_classifier, build_masked
from headway.models.encoder import MaskedLanguageModel
from headway.nn import attend as core
from headway.settings.counting import count_parameters
from headway.settings.model import EncoderSettings
from headway.settings.presets import PRESETS, VOCABULARIES

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V, PAD = 37, 3
SMALL = {
    "vocab_size": V,
    "hidden_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 23,
    "max_position_embeddings": 34,
    "attention_window": [4, 8],
    "pad_token_id": PAD,
    "type_vocab_size": 1,
    "num_labels": 3,
    "layer_norm_eps": 1e-5,
}
AUTO = {
    "LongformerModel": "AutoModel",
    "LongformerForMaskedLM": "AutoModelForMaskedLM",
    "LongformerForSequenceClassification": "AutoModelForSequenceClassification",
}
OURS = {
    "d_model": 18,
    "d_feed_forward": 23,
    "n_heads": 3,
    "n_layers": 2,
    "max_length": 30,
    "reach": [4],
    "n_global": 1,
    "pooler": False,
}


def random(kind: str, **changed: Any) -> Any:
    """transformers' model, no weight of which is 0 or 1 throughout."""
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.LongformerConfig(**SMALL | changed)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return model


def texts(*lengths: int) -> tuple[Tensor, Tensor]:
    """Ids and which are real (B, T), padded at their ends."""
    T = max(lengths)
    ids = torch.randint(PAD + 1, V, (len(lengths), T), generator=torch.Generator().manual_seed(2))
    real = torch.arange(T) < torch.tensor(lengths)[:, None]
    return torch.where(real, ids, PAD), real


def first(ids: Tensor, n: int = 1) -> Tensor:
    return (torch.arange(ids.shape[1]) < n).long().expand(ids.shape)


def close(mine: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


@pytest.fixture(params=[0, 10**9], ids=["in bands", "whole"])
def crossing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "BAND_CROSSING", request.param)


@pytest.mark.filterwarnings("ignore:.*the first token sees all")
@pytest.mark.parametrize("lengths", [(13, 7, 2), (16, 8, 16), (3, 1)])
@pytest.mark.parametrize("kind", AUTO)
def test_states_loss_and_gradients(
    kind: str, lengths: tuple[int, ...], crossing: None, tmp_path: Path
) -> None:
    theirs = random(kind)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, settings = read_model(tmp_path / "theirs")
    assert (settings.reach, settings.n_global, settings.max_length) == ((4, 8), 1, 30)
    ids, real = texts(*lengths)
    given = {"attention_mask": real.long(), "global_attention_mask": first(ids)}
    wanted, found = theirs(ids, **given, output_hidden_states=True), ours(ids, real)
    if kind == "LongformerModel":
        close(found[real], wanted.last_hidden_state[real])
        close(ours.pool(found), wanted.pooler_output)
        loss, right = (found[real] ** 2).sum(), (wanted.last_hidden_state[real] ** 2).sum()
        loss, right = loss + ours.pool(found).sum(), right + wanted.pooler_output.sum()
    elif kind == "LongformerForMaskedLM":
        close(found[real], wanted.logits[real])
        labels = torch.where(real, ids, -100)
        right = theirs(ids, **given, labels=labels).loss
        loss = nn.functional.cross_entropy(found.flatten(0, 1), labels.flatten())
    else:
        close(found, wanted.logits)
        labels = torch.arange(len(ids)) % 3
        right = theirs(ids, **given, labels=labels).loss
        loss = nn.functional.cross_entropy(found, labels)
    close(loss, right)
    loss.backward()
    right.backward()
    same_gradients(theirs, ours, settings, tmp_path)


def same_gradients(theirs: Any, ours: nn.Module, settings: Any, folder: Path) -> None:
    """All of them: ours are put in the place of the weights, and written under their names."""
    with torch.no_grad():
        for name, weight in ours.named_parameters():
            assert weight.grad is not None, name
            weight.copy_(weight.grad)
    write_model(folder / "gradients", ours, settings, extra={"pad_token_id": PAD})
    found = load_file(folder / "gradients" / "model.safetensors")
    wanted = {
        name: weight.grad for name, weight in theirs.named_parameters() if weight.grad is not None
    }
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        close(found[name], gradient)


@pytest.mark.filterwarnings("ignore:.*the first token sees all")
@pytest.mark.parametrize("kind", AUTO)
def test_transformers_opens_what_is_written(kind: str, tmp_path: Path) -> None:
    theirs = random(kind)
    theirs.save_pretrained(tmp_path / "theirs")
    write_model(tmp_path / "ours", *read_model(tmp_path / "theirs"), extra={"pad_token_id": PAD})
    opened = getattr(transformers, AUTO[kind])
    again, report = opened.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report.values())
    assert (type(again), again.config.architectures) == (type(theirs), [kind])
    ids, real = texts(13, 7, 2)
    shown = real if kind != "LongformerForSequenceClassification" else slice(None)
    for given in ({}, {"global_attention_mask": first(ids)}):
        found, wanted = (
            each(ids, attention_mask=real.long(), **given)[0][shown]
            for each in (again.eval(), theirs)
        )
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("n_global", [0, 1, 2])
def test_tokens_that_see_all_are_those_that_transformers_is_told(
    n_global: int, tmp_path: Path
) -> None:
    settings = EncoderSettings(**OURS | {"n_global": n_global, "reach": (4, 8)})
    ours = build_masked(settings, n_tokens=V, seed=1)
    write_model(tmp_path / "a", ours, settings, extra={"pad_token_id": PAD})
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "a").eval()
    ids, real = texts(13, 7, 2)
    given = {"global_attention_mask": first(ids, n_global)} if n_global else {}
    close(ours(ids, real)[real], theirs(ids, attention_mask=real.long(), **given)[0][real])
    again, found = read_model(tmp_path / "a")
    assert (found.n_global, found.reach) == (n_global, (4, 8))
    assert torch.equal(again(ids, real), ours(ids, real))


@pytest.mark.parametrize("name", ["longformer-base", "longformer-large"])
def test_a_preset_is_as_large_as_transformers_own(name: str) -> None:
    settings = EncoderSettings(**PRESETS[name])
    config = FAMILIES["longformer"].config(settings, VOCABULARIES[name])
    with torch.device("meta"):
        ours = MaskedLanguageModel(settings, VOCABULARIES[name])
        theirs = transformers.LongformerForMaskedLM(transformers.LongformerConfig(**config))
    rows = 2 * settings.d_model  # before the first position
    assert count(ours) + rows == count(theirs)
    assert count_parameters(settings, VOCABULARIES[name]).all == count(ours)


def count(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


@pytest.mark.parametrize("reach", [(4,), (4, 8)])
def test_one_window_for_all_layers_or_one_for_each(reach: tuple[int, ...], tmp_path: Path) -> None:
    settings = EncoderSettings(**OURS | {"reach": reach, "n_layers": 4})
    write_model(tmp_path / "a", build_masked(settings, n_tokens=V), settings)
    table = json.loads((tmp_path / "a" / "config.json").read_text("utf-8"))
    assert table["attention_window"] == [*reach, *reach, *reach, *reach][:4]
    assert (table["max_position_embeddings"], table["pad_token_id"]) == (32, 1)
    if len(reach) == 1:  # as a config may say it
        (tmp_path / "a" / "config.json").write_text(
            json.dumps(table | {"attention_window": 4}), encoding="utf-8"
        )
    assert read_model(tmp_path / "a")[1].reach == (reach if len(reach) == 1 else 2 * reach)


def changed(tmp_path: Path, kind: str = "LongformerForMaskedLM", **table: Any) -> Path:
    """A folder of transformers, with other keys in its config.json."""
    random(kind).save_pretrained(tmp_path / "a")
    path = tmp_path / "a" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | table), encoding="utf-8")
    return tmp_path / "a"


@pytest.mark.filterwarnings("ignore:.*the first token sees all")
@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"attention_window": [4]}, r"'attention_window' is \[4\], not a number of tokens or"),
        ({"attention_window": [4, 0]}, r"'attention_window' is \[4, 0\]"),
        ({"attention_window": "4"}, "'attention_window' is '4'"),
        ({"attention_window": 5}, "make it even"),
        ({"pad_token_id": None}, "'pad_token_id' is None"),
        ({"pad_token_id": -5}, "'pad_token_id' is -5"),
        ({"pad_token_id": 40}, "max_length"),
        ({"hidden_act": "relu"}, "'hidden_act' is 'relu'; Headway computes only 'gelu'"),
        ({"tie_word_embeddings": False}, "'tie_word_embeddings' is False"),
        ({"n_global": 0}, "is not the same as its copy"),
        ({"num_hidden_layers": 1, "attention_window": [4]}, "surplus: encoder.layer.1"),
        ({"max_position_embeddings": 30}, r"position_embeddings.weight \(34, 18\), not \(30, 18\)"),
    ],
)
def test_what_is_wrong_is_one_message(table: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        read_model(changed(tmp_path, **table))


def test_what_transformers_would_compute_otherwise_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="transformers needs a global_attention_mask"):
        read_model(changed(tmp_path))
    folder = changed(tmp_path, "LongformerForSequenceClassification", n_global=2)
    with pytest.raises(UserError, match="2 tokens see all; in transformers' classifiers the first"):
        read_model(folder)


@pytest.mark.filterwarnings("ignore:.*the first token sees all")
def test_an_old_folder_has_a_pooler_and_copies(tmp_path: Path) -> None:
    theirs = random("LongformerForMaskedLM")
    theirs.save_pretrained(tmp_path / "a")
    wanted, _ = read_model(tmp_path / "a")
    path = tmp_path / "a" / "model.safetensors"
    tensors = load_file(path)
    copies = {
        "longformer.embeddings.position_ids": torch.arange(34)[None],
        "longformer.pooler.dense.weight": torch.randn(18, 18),
        "longformer.pooler.dense.bias": torch.randn(18),
        "lm_head.decoder.weight": tensors["longformer.embeddings.word_embeddings.weight"].clone(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
    }
    save_file(tensors | copies, path)
    with pytest.warns(UserWarning, match="its pooler is not taken: nothing reads it"):
        found, settings = read_model(tmp_path / "a")
    assert not settings.pooler
    ids, real = texts(9, 4)
    assert torch.equal(found(ids, real), wanted(ids, real))
    save_file(tensors | copies | {"lm_head.decoder.bias": torch.zeros(V)}, path)
    with pytest.raises(UserError, match="must be the same, but they differ"):
        read_model(tmp_path / "a")


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"pooler": True}, "has this masked head without a pooler"),
        ({"reach": [4, 0]}, r"'\w+' has .*reach = \[0\], not \[4, 0\]"),
        ({"n_segments": 0}, "no Hugging Face model computes"),
        ({"positions": "rotary"}, "'longformer' has positions = 'learned', not 'rotary'"),
        ({"feed_forward": "relu"}, "no Hugging Face model computes"),
        ({"dilation": (1, 2)}, r"'longformer' has dilation = \[1\], not \[1, 2\]"),
        ({"reach": [0], "n_global": 0, "n_keys": 8}, "'bert' has n_keys = None, not 8"),
    ],
)
def test_what_has_no_such_folder_is_refused(own: dict[str, Any], told: str, tmp_path: Path) -> None:
    settings = EncoderSettings(**OURS | own)
    with pytest.raises(UserError, match=told):
        write_model(tmp_path / "a", build_masked(settings, n_tokens=V), settings)
    assert not (tmp_path / "a").exists()


def test_a_classifier_has_one_token_that_sees_all_and_a_pad(tmp_path: Path) -> None:
    for n_global, extra, told in (
        (2, {}, "2 tokens see all"),
        (0, {}, "0 tokens see all"),
        (1, {"pad_token_id": None}, "'pad_token_id' is None"),
    ):
        settings = EncoderSettings(**OURS | {"pooler": True, "n_global": n_global})
        model = build_classifier(settings, n_tokens=V, n_classes=2)
        with pytest.raises(UserError, match=told):
            write_model(tmp_path / "a", model, settings, extra=extra)
