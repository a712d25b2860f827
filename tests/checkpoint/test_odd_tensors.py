"""Tensors that are no plain named numbers: quantised, sparse, named twice, in no file of theirs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.base.errors import UserError
from headway.checkpoint.exchange.folders import read_pickled
from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.models.build import build_decoder
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS

SMALL = {"n_layers": 1, "d_model": 8, "d_feed_forward": 12, "n_heads": 2, "max_length": 9}
LLAMA = DecoderSettings(**PRESETS["smollm2-135m"] | SMALL | {"n_kv_heads": 2})
GPT2 = DecoderSettings(**PRESETS["gpt2"] | SMALL)
UP = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    write_model(tmp_path / "llama", build_decoder(LLAMA, n_tokens=11, seed=1), LLAMA)
    return tmp_path / "llama"


def change(folder: Path, tensors: dict[str, Tensor]) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | tensors, path)


def say(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | keys), "utf-8")


def test_a_tensor_has_one_name(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    change(llama, {"embed_tokens.weight": torch.zeros(11, 8)})
    with pytest.raises(UserError, match=r"llama: named twice: embed_tokens\.weight"):
        read_model(llama)
    (llama / "model.safetensors").unlink()
    save_file(tensors, llama / "a.safetensors")
    save_file({UP: torch.zeros(12, 8)}, llama / "b.safetensors")
    index = llama / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}), "utf-8"
    )
    with pytest.raises(UserError, match=rf"named twice: {UP}"):
        read_model(llama)


@pytest.mark.parametrize(
    "name",
    ["", "..", ".", "a\0b", "\ud800", "absent.safetensors", "long" * 99, None, 5],
    ids=ascii,
)
def test_an_index_names_files_beside_it(llama: Path, name: Any) -> None:
    index = llama / "model.safetensors.index.json"
    (llama / "model.safetensors").unlink()
    index.write_text(json.dumps({"weight_map": {"a": name}}), "utf-8")
    with pytest.raises(UserError, match="names what is no file beside it: "):
        read_model(llama)


@pytest.mark.parametrize(
    "dtype",
    [torch.int8, torch.bool, torch.int64, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64],
    ids=str,
)
def test_numbers_that_need_a_scale_are_refused(llama: Path, dtype: torch.dtype) -> None:
    change(llama, {UP: torch.ones(12, 8).to(dtype)})
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(UserError, match=rf"'{UP.removeprefix('model.')}' holds {kind}"):
        read_model(llama)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_plain_numbers_are_read(llama: Path, dtype: torch.dtype) -> None:
    change(llama, {UP: torch.full((12, 8), 0.5, dtype=dtype)})
    model, _ = read_model(llama)
    found = model.get_parameter("stack.layers.0.feed_forward.up.weight")
    assert torch.equal(found, torch.full((12, 8), 0.5))


def test_masks_of_old_files_are_no_weights(tmp_path: Path) -> None:
    write_model(tmp_path / "a", build_decoder(GPT2, n_tokens=11, seed=1), GPT2)
    mask = torch.ones(1, 1, 9, 9, dtype=torch.uint8)
    change(tmp_path / "a", {"transformer.h.0.attn.bias": mask})
    read_model(tmp_path / "a")
    change(tmp_path / "a", {"lm_head.weight": torch.ones(11, 8).to(torch.float8_e4m3fn)})
    with pytest.raises(UserError, match=r"'lm_head\.weight' holds float8_e4m3fn"):
        read_model(tmp_path / "a")


def test_a_quantised_model_is_refused(llama: Path) -> None:
    say(llama, quantization_config=None)
    read_model(llama)
    say(llama, quantization_config={"quant_method": "bitsandbytes"})
    with pytest.raises(UserError, match="'quantization_config'"):
        read_model(llama)


ODD: dict[str, Callable[[], Any]] = {
    "sparse": lambda: torch.ones(2).to_sparse(),
    "meta": lambda: torch.ones(2, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2)]),
    "repeated": lambda: torch.ones(1, 1).expand(10**6, 10**6),
    "no tensor": lambda: 5,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_a_pickle_holds_plain_tensors(tmp_path: Path, make: Callable[[], Any]) -> None:
    torch.save({"good": torch.ones(2), "odd": make()}, tmp_path / "a.bin")
    with pytest.raises(UserError, match=r"a\.bin: not a table of plain tensors: 'odd'"):
        read_pickled(tmp_path / "a.bin")


def test_a_pickle_has_names(tmp_path: Path) -> None:
    for found in ({5: torch.ones(2)}, [torch.ones(2)], {}):
        torch.save(found, tmp_path / "a.bin")
        with pytest.raises(UserError, match="not a table of plain tensors"):
            read_pickled(tmp_path / "a.bin")


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return (print, ("touched",))


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_refused_pickle_brings_no_advice_of_torch(
    tmp_path: Path, protocol: int, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "a.bin").write_bytes(pickle.dumps({"a": Trap()}, protocol=protocol))
    with pytest.raises(UserError, match="not a file of tensors alone") as told:
        read_pickled(tmp_path / "a.bin")
    assert "weights" not in str(told.value)
    assert "torch" not in str(told.value)
    assert not recwarn.list


def test_a_pickle_may_name_the_embedding_as_head_too(llama: Path) -> None:
    """As those of tied Llamas do."""
    tensors = load_file(llama / "model.safetensors")
    (llama / "model.safetensors").unlink()
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    torch.save(tensors, llama / "pytorch_model.bin")
    model, settings = read_model(llama)
    assert settings.tie == "output"
    assert model.get_parameter("head.weight") is model.get_parameter("embedding.tokens.weight")
