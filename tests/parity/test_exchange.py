"""Every family equals transformers' own, from its folders and in folders for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.decode.batching import Batcher
from headway.decode.request import Request
from headway.models.build import build
from headway.nn.block import Block
from headway.settings.model import TransformerSettings
from headway.settings.presets import PRESETS

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V = 53
SMALL_BERT = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
}
SMALL_GPT = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 20}
SMALL_LLAMA = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "max_position_embeddings": 32,
}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
SMALL_MARIAN = {
    "vocab_size": V,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
SPECIALS_OF_MARIAN = {key: value for key, value in SMALL_MARIAN.items() if key.endswith("_id")}
DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", SMALL_GPT),
    "gpt2 untied": (
        "GPT2Config",
        "GPT2LMHeadModel",
        SMALL_GPT | {"tie_word_embeddings": False, "n_inner": 24, "activation_function": "relu"},
    ),
    "gpt1": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", SMALL_GPT),
    "llama": ("LlamaConfig", "LlamaForCausalLM", SMALL_LLAMA),
    "llama tied": (
        "LlamaConfig",
        "LlamaForCausalLM",
        SMALL_LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 4, "head_dim": 6},
    ),
    "llama stretched": (
        "LlamaConfig",
        "LlamaForCausalLM",
        SMALL_LLAMA | {"rope_parameters": STRETCHED, "num_key_value_heads": 1},
    ),
    "llama biased": (
        "LlamaConfig",
        "LlamaForCausalLM",
        SMALL_LLAMA | {"attention_bias": True, "mlp_bias": True},
    ),
    "llama biased in its attention": (
        "LlamaConfig",
        "LlamaForCausalLM",
        SMALL_LLAMA | {"attention_bias": True},
    ),
    "llama biased elsewhere": ("LlamaConfig", "LlamaForCausalLM", SMALL_LLAMA | {"mlp_bias": True}),
    "mistral": ("MistralConfig", "MistralForCausalLM", SMALL_LLAMA | {"sliding_window": 4}),
}
ENCODERS = {
    "alone": "BertModel",
    "masked": "BertForMaskedLM",
    "pretraining": "BertForPreTraining",
    "classifier": "BertForSequenceClassification",
}


def random(config: str, kind: str, table: dict[str, Any]) -> nn.Module:
    """transformers' model of this configuration, no weight of which is 0 or 1 throughout."""
    torch.manual_seed(1)
    model: nn.Module = getattr(transformers, kind)(getattr(transformers, config)(**table)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:  # Marian's sines are no weights
                weight.copy_(torch.randn_like(weight) * 0.3)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer.copy_(torch.randn_like(buffer))
    return model


def padded(left: bool) -> tuple[Tensor, Tensor]:
    """Ids (3, 9) and which of them are real, with padding on one side."""
    lengths = torch.tensor([9, 4, 1])
    ids = torch.randint(2, V, (3, 9), generator=torch.Generator().manual_seed(2))
    places = torch.arange(9)
    real = places >= 9 - lengths[:, None] if left else places < lengths[:, None]
    return torch.where(real, ids, 0), real


def close(mine: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


@pytest.fixture(params=DECODERS.values(), ids=DECODERS.keys())
def decoder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any, Any]:
    theirs = random(*request.param)
    theirs.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    ours, settings = read_model(tmp_path / "theirs")
    return theirs, ours, settings


@pytest.mark.parametrize("left", [True, False])
def test_a_decoder_has_the_same_logits_and_gradients(decoder: Any, left: bool) -> None:
    theirs, ours, _ = decoder
    ids, real = padded(left)
    positions = (real.long().cumsum(1) - 1).clamp_min(0)
    wanted = theirs(ids, attention_mask=real.long(), position_ids=positions).logits
    found = ours(ids, real)
    close(found[real], wanted[real])
    theirs.zero_grad()
    wanted[real].log_softmax(-1)[:, 5].sum().backward()
    found[real].log_softmax(-1)[:, 5].sum().backward()
    close(ours.embedding.tokens.weight.grad, theirs.get_input_embeddings().weight.grad)


def test_a_decoder_goes_on_from_prompts_of_different_lengths(decoder: Any) -> None:
    theirs, ours, _ = decoder
    ids, real = padded(left=True)
    with torch.inference_mode():
        wanted = theirs.generate(
            ids,
            attention_mask=real.long(),
            max_new_tokens=8,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )[:, ids.shape[1] :]
    batcher = Batcher(ours, memory=200)
    tickets = [
        batcher.submit(Request(ids=row[shown].tolist(), limit=8))
        for row, shown in zip(ids, real, strict=True)
    ]
    batcher.run()
    assert [ticket.result().ids for ticket in tickets] == wanted.tolist()


def test_transformers_opens_what_a_decoder_writes(decoder: Any, tmp_path: Path) -> None:
    theirs, ours, settings = decoder
    write_model(tmp_path / "ours", ours, settings)
    again, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report.values())
    assert type(again) is type(theirs)
    ids, _ = padded(left=False)
    assert torch.equal(again.eval()(ids).logits, theirs(ids).logits)


@pytest.mark.parametrize(
    ("config", "kind", "table", "inner"),
    [
        ("BertConfig", "BertModel", SMALL_BERT | {"hidden_dropout_prob": 0.25}, 0.0),
        ("GPT2Config", "GPT2LMHeadModel", SMALL_GPT | {"resid_pdrop": 0.25}, 0.0),
        ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", SMALL_GPT | {"resid_pdrop": 0.25}, 0.0),
        ("MarianConfig", "MarianMTModel", SMALL_MARIAN | {"dropout": 0.25}, 0.0),
        (
            *("MarianConfig", "MarianMTModel"),
            *(SMALL_MARIAN | {"dropout": 0.25, "activation_dropout": 0.125}, 0.125),
        ),
    ],
)
def test_an_import_drops_where_theirs_does(
    config: str, kind: str, table: dict[str, Any], inner: float, tmp_path: Path
) -> None:
    random(config, kind, table).save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    ours, settings = read_model(tmp_path / "theirs")
    blocks = [module for module in ours.modules() if isinstance(module, Block)]
    assert {block.feed_forward.dropout.rate for block in blocks} == {inner}
    assert {block.around_feed_forward.dropout.rate for block in blocks} == {0.25}
    write_model(tmp_path / "ours", ours, settings, extra=SPECIALS_OF_MARIAN)
    again = getattr(transformers, kind).from_pretrained(tmp_path / "ours").config
    assert getattr(again, "activation_dropout", inner) == inner


@pytest.mark.parametrize("kind", ENCODERS.values(), ids=ENCODERS.keys())
@pytest.mark.parametrize("left", [True, False])
def test_an_encoder_is_the_same_both_ways(kind: str, left: bool, tmp_path: Path) -> None:
    theirs = random("BertConfig", kind, SMALL_BERT | {"num_labels": 3})
    theirs.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    ours, settings = read_model(tmp_path / "theirs")
    ids, real = padded(left)
    segments = (torch.arange(9) > 4).long().expand(3, 9)
    positions = (real.long().cumsum(1) - 1).clamp_min(0)
    given = {"attention_mask": real.long(), "position_ids": positions, "token_type_ids": segments}
    wanted = theirs(ids, **given)
    found = ours(ids, real, segments)
    if kind == "BertForSequenceClassification":
        close(found, wanted.logits)
    else:
        close(found[real], wanted[0][real])
    if kind == "BertForPreTraining":
        hidden = ours.encoder(ids, real, segments)
        close(ours.follows(ours.encoder.pool(hidden)), wanted.seq_relationship_logits)
    if kind == "BertModel":
        close(ours.pool(found), wanted.pooler_output)

    write_model(tmp_path / "ours", ours, settings)
    again, report = getattr(transformers, kind).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report.values())
    assert again.config.architectures == [kind]
    assert torch.equal(again.eval()(ids, **given)[0], wanted[0])


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_marian_is_the_same_both_ways(scaled: bool, activation: str, tmp_path: Path) -> None:
    table = SMALL_MARIAN | {"scale_embedding": scaled, "activation_function": activation}
    theirs = random("MarianConfig", "MarianMTModel", table)
    theirs.save_pretrained(tmp_path / "theirs")  # type: ignore[operator]
    ours, settings = read_model(tmp_path / "theirs")
    ids, real = padded(left=False)
    target, _ = padded(left=False)
    wanted = theirs(ids, attention_mask=real.long(), decoder_input_ids=target).logits
    close(ours(ids, real, target), wanted)

    write_model(tmp_path / "ours", ours, settings, extra=SPECIALS_OF_MARIAN)
    again, report = transformers.MarianMTModel.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report.values())
    again = again.eval()(ids, attention_mask=real.long(), decoder_input_ids=target).logits
    assert torch.equal(again, wanted)


def test_a_translator_of_ours_becomes_a_marian(tmp_path: Path) -> None:
    """Without a bias at its output it gets one of zeros."""
    row = PRESETS["transformer-tiny"] | {"d_model": 16, "d_feed_forward": 24}
    settings = TransformerSettings(**row)
    model = build(settings, n_source=V, n_target=V, seed=2)
    assert write_model(tmp_path / "a", model, settings, extra=SPECIALS_OF_MARIAN) == "marian"
    again = transformers.MarianMTModel.from_pretrained(tmp_path / "a").eval()
    ids, real = padded(left=False)
    found = again(ids, attention_mask=real.long(), decoder_input_ids=ids).logits
    close(model(ids, real, ids), found)
