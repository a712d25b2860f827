"""Every family's inside equals transformers': states of each layer, loss, all gradients, beams.

Odd widths, grouped heads, tied and untied outputs; padding on either side.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from headway.checkpoint.exchange.huggingface import read_model, write_model
from headway.decode.beam import beam_search
from headway.decode.greedy import greedy

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V = 37
GPT = {"vocab_size": V, "n_embd": 21, "n_layer": 2, "n_head": 3, "n_positions": 24}
BERT = {
    "vocab_size": V,
    "hidden_size": 15,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 23,
    "max_position_embeddings": 24,
}
LLAMA = {
    "vocab_size": V,
    "hidden_size": 15,
    "intermediate_size": 23,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "max_position_embeddings": 24,
    "tie_word_embeddings": True,
}
MARIAN = {
    "vocab_size": V,
    "d_model": 15,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 23,
    "decoder_ffn_dim": 23,
    "max_position_embeddings": 24,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt1": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel", GPT),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT | {"n_inner": 21}),
    "gpt2 untied": ("GPT2Config", "GPT2LMHeadModel", GPT | {"tie_word_embeddings": False}),
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA),
    "llama untied": (
        "LlamaConfig",
        "LlamaForCausalLM",
        LLAMA
        | {"tie_word_embeddings": False, "num_attention_heads": 6, "num_key_value_heads": 2}
        | {"hidden_size": 18},
    ),
    "llama biased": ("LlamaConfig", "LlamaForCausalLM", LLAMA | {"attention_bias": True}),
    "mistral": ("MistralConfig", "MistralForCausalLM", LLAMA | {"sliding_window": 3}),
    "mistral without a window": (
        "MistralConfig",
        "MistralForCausalLM",
        LLAMA | {"sliding_window": None, "tie_word_embeddings": False},
    ),
    "bert": ("BertConfig", "BertForMaskedLM", BERT),
    "marian": ("MarianConfig", "MarianMTModel", MARIAN),
    "marian of two": (
        "MarianConfig",
        "MarianMTModel",
        MARIAN | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": V - 6},
    ),
}
DECODERS = [name for name in CASES if name.startswith(("gpt", "llama", "mistral"))]
MARIANS = [name for name in CASES if name.startswith("marian")]
LIMIT = 8  # tokens that are generated
Spread = Callable[[str], float]


def pair(
    name: str, folder: Path, seed: int = 1, gain: float = 0, deviation: Spread = lambda _: 0.3
) -> tuple[Any, Any, Any]:
    """transformers' model with random weights, ours of the same folder, its settings."""
    config, kind, table = CASES[name]
    torch.manual_seed(seed)
    theirs: Any = getattr(transformers, kind)(getattr(transformers, config)(**table)).eval()
    with torch.no_grad():
        for each, weight in theirs.named_parameters():
            if "embed_positions" not in each:  # Marian's sines are no weights
                of_norm = weight.dim() == 1 and each.endswith("weight")
                weight.copy_(torch.randn_like(weight) * deviation(each) + gain * of_norm)
        if name in MARIANS:
            bias = theirs.final_logits_bias
            bias.copy_(torch.randn_like(bias) * deviation("final_logits_bias"))
    theirs.save_pretrained(folder / "theirs")
    return theirs, *read_model(folder / "theirs")


def talkative(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """A pair that says many things: with other random weights the first token comes for ever."""
    spreads = {r"norm|ln_|bias": 0.1, "": 0.6}
    if name in MARIANS:
        spreads = {r"decoder.*final_layer_norm\.weight": 1.0, r"norm|bias": 0.1}
        spreads |= {r"fc[12]": 0.2, r"_proj": 0.6, "": 1.0}

    def deviation(weight: str) -> float:
        return next(each for like, each in spreads.items() if re.search(like, weight))

    return pair(name, folder, 24 if name in MARIANS else 1, 1.0, deviation)


def padded(left: bool, n_ids: int = V) -> tuple[Tensor, Tensor]:
    """The same three texts (3, 9), and which places they have, with padding on one side."""
    ids, real = torch.zeros(3, 9, dtype=torch.int64), torch.zeros(3, 9, dtype=torch.bool)
    generator = torch.Generator().manual_seed(2)
    for row, n in enumerate((9, 5, 2)):
        places = slice(9 - n, 9) if left else slice(n)
        ids[row, places] = torch.randint(2, n_ids, (n,), generator=generator)
        real[row, places] = True
    return ids, real


def close(mine: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(mine, theirs, atol=tolerance, rtol=tolerance)


def states_of(model: nn.Module, stack: str) -> list[Tensor]:
    """What each layer of a stack gives, filled as the model runs."""
    found: list[Tensor] = []
    for layer in model.get_submodule(stack).layers:  # type: ignore[union-attr]
        layer.register_forward_hook(lambda _module, _given, made: found.append(made[0]))
    return found


def same_gradients(theirs: Any, ours: nn.Module, settings: Any, folder: Path) -> None:
    """All of them: ours are put in the place of the weights, and written under their names."""
    with torch.no_grad():
        for name, weight in ours.named_parameters():
            assert weight.grad is not None, name
            weight.copy_(weight.grad)
    write_model(folder / "gradients", ours, settings)
    found = load_file(folder / "gradients" / "model.safetensors")
    compared = 0
    for name, weight in theirs.named_parameters():
        if weight.grad is not None and name in found:
            # they leave out what the embedding of padding learns as an input
            first = 1 if name.endswith(("shared.weight", "coder.embed_tokens.weight")) else 0
            close(found[name][first:], weight.grad[first:])
            compared += 1
    assert compared == len(found) - ("final_logits_bias" in found)  # a buffer with them


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", [*DECODERS, "bert"])
def test_states_loss_and_gradients(name: str, left: bool, tmp_path: Path) -> None:
    theirs, ours, settings = pair(name, tmp_path)
    ids, real = padded(left)
    given = {"attention_mask": real.long(), "position_ids": (real.long().cumsum(1) - 1).clamp(0)}
    labels = torch.where(real, ids, -100)
    if name != "bert":
        first = real.long().cumsum(1) == 1
        labels = labels.masked_fill(first, -100)  # what stands before it is padding
    wanted = theirs(ids, **given, labels=labels, output_hidden_states=True)
    states = states_of(ours, "encoder.stack" if name == "bert" else "stack")
    logits = ours(ids, real)
    last = len(states) if settings.order == "post" else len(states) - 1  # they norm the last
    for mine, other in zip(states[:last], wanted.hidden_states[1:], strict=False):
        close(mine[real], other[real])
    if name == "bert":
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    else:
        close(ours.hidden(ids, real=real)[real], wanted.hidden_states[-1][real])
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    close(loss, wanted.loss)
    wanted.loss.backward()
    loss.backward()
    same_gradients(theirs, ours, settings, tmp_path)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", MARIANS)
def test_a_marians_states_loss_and_gradients(name: str, left: bool, tmp_path: Path) -> None:
    # Theirs count positions from the padding on, so they are given the same texts without it before
    theirs, ours, settings = pair(name, tmp_path)
    (ids, real), (target, _) = padded(False), padded(False, V - 6)
    labels = torch.cat((target[:, 1:], torch.ones(3, 1, dtype=torch.int64)), dim=1)
    wanted = theirs(
        ids,
        attention_mask=real.long(),
        decoder_input_ids=target,
        labels=labels,
        output_hidden_states=True,
    )
    encoded, decoded = states_of(ours, "encoder"), states_of(ours, "decoder")
    own, own_real = padded(left)
    logits = ours(own, own_real, target)
    for mine, other in zip(encoded, wanted.encoder_hidden_states[1:], strict=True):
        close(width(mine)[own_real], other[real])
    for mine, other in zip(decoded, wanted.decoder_hidden_states[1:], strict=True):
        close(width(mine), other)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    close(loss, wanted.loss)
    wanted.loss.backward()
    loss.backward()
    same_gradients(theirs, ours, settings, tmp_path)


def width(states: Tensor) -> Tensor:
    """Ours with the width as they have it: what meets sines first, then what meets cosines."""
    return torch.cat((states[..., 0::2], states[..., 1::2]), dim=-1)


def found_by(ours: Any, state: Any, beam: int, **given: Any) -> list[list[int]]:
    """What greedy or beam search says, its end included."""
    more: dict[str, Any] = {"width": beam, "length_penalty": 0.0, **given}
    found = [best for (best,) in beam_search(ours, state, **more)] if beam > 1 else None
    found = greedy(ours, state, **given) if found is None else found
    return [[*each.ids, *[given["eos"]] * each.ended] for each in found]


def said_by(theirs: Any, ids: Tensor, real: Tensor, beam: int, eos: int | None) -> list[list[int]]:
    """What transformers generates, without what fills rows up after their ends."""
    settings = {"max_new_tokens": LIMIT, "do_sample": False, "length_penalty": 0.0}
    settings |= {"num_beams": beam, "pad_token_id": 0, "eos_token_id": eos}
    made = theirs.generate(ids, attention_mask=real.long(), **settings)
    rows = made[:, 1 if theirs.config.is_encoder_decoder else ids.shape[1] :].tolist()
    return [row[: row.index(eos) + 1] if eos in row else row for row in rows]


def ends_of(free: list[list[int]]) -> list[int]:
    """Tokens that come late in some of the rows, which differ: as ends they come on the way."""
    assert len(set(map(tuple, free))) == len(free)
    late = {row[place] for row in free for place in (2, 5) if row[place] not in row[:2]}
    assert late or len(free) == 1
    return sorted(late)[:3]


def same_texts(
    theirs: Any, ours: Any, state: Any, given: tuple[Tensor, Tensor], beam: int, bos: int
) -> int:
    """Rows that go on together are the same, with several ends; gives how many of them ended.

    A beam of theirs gives a text that was cut where it is likelier than all that ended, ours never.
    """
    n, n_ended = len(given[0]), 0
    free = said_by(theirs, *given, beam, None)
    for eos in ends_of(free):
        wanted = said_by(theirs, *given, beam, eos)
        settings: dict[str, Any] = {"rows": n, "bos": bos, "eos": eos, "limits": [LIMIT] * n}
        for mine, other in zip(found_by(ours, state, beam, **settings), wanted, strict=True):
            cut = beam > 1 and eos not in other and mine[-1] == eos
            assert cut or mine == other
            n_ended += mine == other and len(other) < LIMIT
    return n_ended


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", DECODERS)
def test_a_prompt_is_continued_by_the_same_tokens(name: str, beam: int, tmp_path: Path) -> None:
    theirs, ours, _ = talkative(name, tmp_path)
    n_ended = 0
    for prompt in (row[row != 0][None] for row in padded(False)[0]):
        state = ours.start(prompt[:, :-1], torch.tensor([prompt.shape[1] - 1]))
        given = (prompt, torch.ones_like(prompt))
        n_ended += same_texts(theirs, ours, state, given, beam, int(prompt[0, -1]))
    assert n_ended


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", DECODERS)
def test_prompts_together_are_continued_by_the_same(name: str, beam: int, tmp_path: Path) -> None:
    theirs, ours, _ = talkative(name, tmp_path)
    ids, real = padded(left=True)
    ids[:, -1] = bos = 5
    state = ours.start(ids[:, :-1], real.sum(1) - 1)
    assert same_texts(theirs, ours, state, (ids, real), beam, bos)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MARIANS)
def test_a_source_has_the_same_translation(name: str, beam: int, tmp_path: Path) -> None:
    theirs, ours, _ = talkative(name, tmp_path)
    ids, real = padded(False)
    state = ours.start(ids, real.sum(1))
    assert same_texts(theirs, ours, state, (ids, real), beam, bos=0)
