"""Hugging Face folders that are not as they should be, and models that no such folder can hold."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.models.build import build, build_classifier, build_decoder, build_masked
from headway.models.encoder import Classifier
from headway.nn.positions import Sinusoidal
from headway.settings.model import DecoderSettings, EncoderSettings, TransformerSettings
from headway.settings.presets import PRESETS

V = 53
GPT2 = DecoderSettings(
    **PRESETS["gpt2"]
    | {"n_layers": 2, "d_model": 24, "d_feed_forward": 96, "n_heads": 3, "max_length": 20}
)
MARIAN = PRESETS["transformer-tiny"] | {"d_model": 16, "d_feed_forward": 24}


def bad_folder(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, path / "model.safetensors")
    return path


def gpt2_files(tmp_path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    write_model(tmp_path / "whole", build_decoder(GPT2, n_tokens=V, seed=1), GPT2)
    config = json.loads((tmp_path / "whole" / "config.json").read_text("utf-8"))
    return config, load_file(tmp_path / "whole" / "model.safetensors")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"model_type": "gpt3"}, "gpt2"),
        ({"model_type": None}, "there is no 'model_type'"),
        ({"n_layer": 10**9}, "1,000,000,000 layers, but 28 tensors"),
        ({"n_positions": 2**60}, "sizes that no tensor can have"),
        ({"vocab_size": -1}, "'vocab_size' is -1"),
        ({"n_layer": "two"}, "'n_layer' is 'two', not a whole number"),
        ({"n_head": 5}, "n_heads = 5 does not divide d_model = 24"),
        ({"activation_function": "mish"}, "'activation_function' is 'mish'; Headway computes only"),
        ({"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx' is True"),
        ({"n_layer": 3}, r"missing: h\.2\.ln_1\.weight.* and 7 more"),
        ({"n_layer": 1}, r"surplus: h\.1\."),
        ({"n_inner": 50}, r"of another shape: h\.0\.mlp\.c_fc\.weight \(24, 96\), not \(24, 50\)"),
    ],
)
def test_what_is_wrong_is_one_message(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    config, tensors = gpt2_files(tmp_path)
    folder = bad_folder(tmp_path / "bad", config | changed, tensors)
    with pytest.raises(UserError, match=told):
        read_model(folder)


def test_a_head_that_is_the_embedding_may_be_written_out(tmp_path: Path) -> None:
    config, tensors = gpt2_files(tmp_path)
    same = tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()}
    ours, settings = read_model(bad_folder(tmp_path / "same", config, same))
    assert settings.tie == "output"
    assert ours.head.weight is ours.embedding.tokens.weight
    other = tensors | {"lm_head.weight": tensors["transformer.wte.weight"] + 1}
    with pytest.warns(UserWarning, match="both are kept"):
        ours, settings = read_model(bad_folder(tmp_path / "other", config, other))
    assert settings.tie == "none"
    assert torch.equal(ours.head.weight, other["lm_head.weight"])


def test_parts_and_pickles(tmp_path: Path) -> None:
    config, tensors = gpt2_files(tmp_path)
    wanted, _ = read_model(tmp_path / "whole")
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    halves = [dict(list(tensors.items())[:9]), dict(list(tensors.items())[9:])]
    parts = bad_folder(tmp_path / "parts", config, {})
    (parts / "model.safetensors").unlink()
    for number, half in enumerate(halves):
        save_file(half, parts / f"part-{number}.safetensors")
    where = {name: f"part-{n}.safetensors" for n, half in enumerate(halves) for name in half}
    index = parts / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    assert torch.equal(read_model(parts)[0](ids), wanted(ids))
    index.write_text(json.dumps({"weight_map": {"a": "../whole/model.safetensors"}}), "utf-8")
    with pytest.raises(UserError, match="names a file elsewhere"):
        read_model(parts)

    index.unlink()
    torch.save(tensors, parts / "pytorch_model.bin")
    assert torch.equal(read_model(parts)[0](ids), wanted(ids))
    (parts / "pytorch_model.bin").write_bytes(
        pickle.dumps({"a": Trap(tmp_path / "touched")}, protocol=2)
    )
    with pytest.raises(UserError, match="not a file of tensors alone"):
        read_model(parts)
    assert not (tmp_path / "touched").exists()
    (parts / "pytorch_model.bin").unlink()
    with pytest.raises(UserError, match=r"there is no model\.safetensors"):
        read_model(parts)
    (parts / "config.json").unlink()
    with pytest.raises(UserError, match=r"there is no config\.json"):
        read_model(parts)


class Trap:
    """What touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"order": "pre"}, "no Hugging Face model computes what these settings say"),
        ({"n_kv_heads": 1}, "n_kv_heads"),
        ({"score": "dot"}, "score"),
        ({"norm": "lecture"}, "norm"),
    ],
)
def test_what_no_family_computes_is_not_written(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    settings = TransformerSettings(**MARIAN | changed)
    model = build(settings, n_source=V, n_target=V)
    with pytest.raises(UserError, match=told):
        write_model(tmp_path / "a", model, settings)
    assert not (tmp_path / "a").exists()


def test_positions_that_a_file_writes_out_must_be_sines(tmp_path: Path) -> None:
    settings = TransformerSettings(**MARIAN)
    write_model(tmp_path / "a", build(settings, n_source=V, n_target=V), settings)
    config = json.loads((tmp_path / "a" / "config.json").read_text("utf-8"))
    tensors = load_file(tmp_path / "a" / "model.safetensors")
    waves = Sinusoidal(16)(torch.arange(30))
    halves = torch.cat((waves[:, 0::2], waves[:, 1::2]), dim=1)  # sines, then cosines
    name = "model.encoder.embed_positions.weight"
    read_model(bad_folder(tmp_path / "good", config, tensors | {name: halves}))
    for number, other in enumerate((waves, halves * 1.01)):
        folder = bad_folder(tmp_path / f"bad{number}", config, tensors | {name: other.contiguous()})
        with pytest.raises(UserError, match="are not sinusoidal positions"):
            read_model(folder)


def test_what_is_written_twice_must_be_the_same(tmp_path: Path) -> None:
    settings = EncoderSettings(**PRESETS["bert-tiny"] | {"d_model": 24, "n_heads": 3})
    write_model(tmp_path / "a", build_masked(settings, n_tokens=V, seed=1), settings)
    config = json.loads((tmp_path / "a" / "config.json").read_text("utf-8"))
    tensors = load_file(tmp_path / "a" / "model.safetensors")
    name = "cls.predictions.decoder.weight"
    same = tensors["bert.embeddings.word_embeddings.weight"].clone()
    read_model(bad_folder(tmp_path / "same", config, tensors | {name: same}))
    other = bad_folder(tmp_path / "other", config, tensors | {name: same + 1})
    with pytest.raises(UserError, match="must be the same, but they differ"):
        read_model(other)


BERT = EncoderSettings(**PRESETS["bert-tiny"] | {"d_model": 24, "n_heads": 3})
POOLER = ("bert.pooler.dense.weight", "bert.pooler.dense.bias")


def bert_files(
    tmp_path: Path, *, n_classes: int | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Of a BERT with both of its heads, or with a classifier."""
    model: Any = build_masked(BERT, n_tokens=V, seed=1)
    if n_classes is not None:
        model = build_classifier(BERT, n_tokens=V, n_classes=n_classes, seed=1)
    write_model(tmp_path / "whole", model, BERT)
    config = json.loads((tmp_path / "whole" / "config.json").read_text("utf-8"))
    return config, load_file(tmp_path / "whole" / "model.safetensors")


def test_norms_may_have_their_old_names(tmp_path: Path) -> None:
    config, tensors = bert_files(tmp_path)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor.clone()
        for name, tensor in tensors.items()
    }
    assert renamed.keys() != tensors.keys()
    wanted, _ = read_model(tmp_path / "whole")
    found, _ = read_model(bad_folder(tmp_path / "old", config, renamed))
    for name, tensor in wanted.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name
    both = bad_folder(tmp_path / "both", config, tensors | renamed)
    with pytest.raises(UserError, match=r"LayerNorm\.\w+' is there by two names"):
        read_model(both)


def test_a_pooler_that_nothing_reads_is_not_taken(tmp_path: Path) -> None:
    config, tensors = bert_files(tmp_path)
    for part in ("weight", "bias"):
        tensors.pop(f"cls.seq_relationship.{part}")
    folder = bad_folder(tmp_path / "old", config, tensors)
    with pytest.warns(UserWarning, match="its pooler is not taken"):
        found, settings = read_model(folder)
    assert not settings.pooler
    assert found.follows is None
    wanted, _ = read_model(tmp_path / "whole")
    ids, real = torch.tensor([[3, 1, 4]]), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(found(ids, real), wanted(ids, real))
    half = tensors | {"cls.seq_relationship.bias": torch.zeros(2)}
    with pytest.raises(UserError, match=r"missing: cls\.seq_relationship\.weight"):
        read_model(bad_folder(tmp_path / "half", config, half))


@pytest.mark.parametrize(
    ("changed", "n", "told"),
    [
        ({"architectures": ["BertForTokenClassification"]}, 3, "BertForTokenClassification"),
        ({"architectures": ["BertForMultipleChoice"]}, 1, "BertForMultipleChoice"),
        ({"problem_type": "multi_label_classification"}, 3, "'multi_label_classification'"),
        ({"problem_type": "regression"}, 2, "'problem_type' is 'regression' with 2 outputs"),
        ({"problem_type": 3}, 2, "'problem_type' is 3"),
    ],
)
def test_a_classifier_of_another_kind_is_refused(
    tmp_path: Path, changed: dict[str, Any], n: int, told: str
) -> None:
    config, tensors = bert_files(tmp_path, n_classes=n)
    with pytest.raises(UserError, match=told):
        read_model(bad_folder(tmp_path / "bad", config | changed, tensors))


@pytest.mark.parametrize("named", [None, [], ["BertForSequenceClassification"]])
def test_a_classifier_needs_its_pooler_and_no_name(tmp_path: Path, named: Any) -> None:
    config, tensors = bert_files(tmp_path, n_classes=1)
    config |= {"architectures": named, "problem_type": "regression"}
    found, _ = read_model(bad_folder(tmp_path / "good", config, tensors))
    assert isinstance(found, Classifier)
    for name in POOLER:
        tensors.pop(name)
    with pytest.raises(UserError, match="a classifier without a pooler"):
        read_model(bad_folder(tmp_path / "bad", config, tensors))
