"""The landmark models: as many parameters as published, and the laws of their forward passes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.models.build import build_classifier, build_decoder, build_masked
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder, mean_pool
from headway.settings.base import parse
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.presets import PRESETS, VOCABULARIES

BERT, GPT1, GPT2, LLAMA2, LLAMA3, SMOLLM = 30_522, 40_478, 50_257, 32_000, 128_256, 49_152
# Of encoders with their pooler, of decoders with their output; as their authors' files have them
ENCODERS = {
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
}
# With their pooler, and with the two rows that their table has before the first position
LONGFORMERS = {"longformer-base": 148_659_456, "longformer-large": 434_600_960}
DECODERS = {
    "gpt1": (GPT1, 116_534_784),
    "gpt2": (GPT2, 124_439_808),
    "gpt2-medium": (GPT2, 354_823_168),
    "gpt2-large": (GPT2, 774_030_080),
    "gpt2-xl": (GPT2, 1_557_611_200),
    "llama-2-7b": (LLAMA2, 6_738_415_616),
    "llama-2-13b": (LLAMA2, 13_015_864_320),
    "llama-2-70b": (LLAMA2, 68_976_648_192),
    "llama-3.1-8b": (LLAMA3, 8_030_261_248),
    "llama-3.1-70b": (LLAMA3, 70_553_706_496),
    "llama-3.1-405b": (LLAMA3, 405_853_388_800),
    "llama-3.2-1b": (LLAMA3, 1_235_814_400),
    "llama-3.2-3b": (LLAMA3, 3_212_749_824),
    "smollm2-135m": (SMOLLM, 134_515_008),
    "smollm2-360m": (SMOLLM, 361_821_120),
    "smollm2-1.7b": (SMOLLM, 1_711_376_384),
}


def count(network: nn.Module) -> int:
    return sum(weight.numel() for weight in network.parameters())


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_have_the_published_size(name: str) -> None:
    settings = parse(EncoderSettings, PRESETS[name], where=name)
    with torch.device("meta"):
        assert count(Encoder(settings, BERT)) == ENCODERS[name]


@pytest.mark.parametrize("name", LONGFORMERS)
def test_longformers_have_the_published_size(name: str) -> None:
    settings = parse(EncoderSettings, PRESETS[name] | {"pooler": True}, where=name)
    with torch.device("meta"):
        found = count(Encoder(settings, VOCABULARIES[name]))
    assert found + 2 * settings.d_model == LONGFORMERS[name]


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_have_the_published_size(name: str) -> None:
    n_tokens, published = DECODERS[name]
    settings = parse(DecoderSettings, PRESETS[name], where=name)
    with torch.device("meta"):
        assert count(Decoder(settings, n_tokens)) == published


SMALL = {"n_layers": 2, "d_model": 16, "d_feed_forward": 24, "n_heads": 2, "max_length": 32}
KINDS = {
    "gpt": {"positions": "learned", "order": "pre", "feed_forward": "gelu_tanh"},
    "llama": {"norm": "rms", "positions": "rotary", "order": "pre", "feed_forward": "swiglu"},
    "sinusoidal": {"positions": "sinusoidal"},
    "no positions": {"positions": "none"},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def decoder(request: pytest.FixtureRequest) -> Decoder:
    model = build_decoder(DecoderSettings(**SMALL, **request.param), n_tokens=11, seed=1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(3)) * 0.3)
    return model.eval()


def ids_of(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randint(0, 11, (length,), generator=generator) for length in lengths]


def test_packed_documents_do_not_see_one_another(decoder: Decoder) -> None:
    first, second = ids_of(3, 4)
    packed = torch.cat((first, second))[None]
    numbers = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    together = decoder(packed, numbers=numbers)[0]
    torch.testing.assert_close(together[:3], decoder(first[None])[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(together[3:], decoder(second[None])[0], atol=1e-6, rtol=1e-5)
    changed = packed.clone()
    changed[0, :3] = (changed[0, :3] + 1) % 11
    assert torch.equal(decoder(changed, numbers=numbers)[0, 3:], together[3:])


def test_documents_of_one_number_apart_are_two(decoder: Decoder) -> None:
    """A document begins wherever the number changes, whatever number it had before."""
    (ids,) = ids_of(5)
    there_and_back = decoder(ids[None], numbers=torch.tensor([[0, 0, 1, 1, 0]]))[0, 2:4]
    plain = decoder(ids[None, 2:4])[0]
    torch.testing.assert_close(there_and_back, plain, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("read", [0, 4])
def test_a_step_equals_the_whole(decoder: Decoder, read: int) -> None:
    (ids,) = ids_of(9)
    whole = decoder(ids[None])[0]
    state = decoder.start(ids[None, :read], torch.tensor([read]))
    for begin, end in ((read, 7), (7, 8), (8, 9)):
        logits, state = decoder.step(ids[None, begin:end], state)
        torch.testing.assert_close(logits[0], whole[begin:end], atol=1e-5, rtol=1e-5)


def test_prompts_in_a_batch_are_as_alone(decoder: Decoder) -> None:
    short, long = ids_of(2, 7)
    both = torch.zeros(2, 7, dtype=torch.long)
    both[0, 5:], both[1] = short, long
    state = decoder.start(both, torch.tensor([2, 7])).select(torch.tensor([1, 0]))
    after, _ = decoder.step(torch.tensor([[3, 4], [5, 6]]), state)
    for row, (prompt, next_ids) in enumerate(((long, [3, 4]), (short, [5, 6]))):
        alone = decoder(torch.cat((prompt, torch.tensor(next_ids)))[None])[0]
        torch.testing.assert_close(after[row], alone[-2:], atol=1e-5, rtol=1e-5)


def test_a_prompt_of_one_token_beside_a_longer_one(decoder: Decoder) -> None:
    """Nothing of it was read before, so that all that its row remembers is padding."""
    (long,) = ids_of(5)
    both = torch.stack((torch.zeros(4, dtype=torch.long), long[:4]))
    state = decoder.start(both, torch.tensor([0, 4]))
    logits, _ = decoder.step(torch.stack((long[:1], long[4:])), state)
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[0, 0], decoder(long[None, :1])[0, 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits[1, 0], decoder(long[None])[0, 4], atol=1e-5, rtol=1e-5)


def test_padding_of_an_encoder_changes_nothing() -> None:
    settings = EncoderSettings(**SMALL)
    model = build_masked(settings, n_tokens=11, seed=1)
    short, long = ids_of(3, 6)
    both, real = torch.zeros(2, 6, dtype=torch.long), torch.ones(2, 6, dtype=torch.bool)
    both[0, :3], both[1] = short, long
    real[0, 3:] = False
    padded = model(both, real)
    alone = model(short[None], torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(padded[0, :3], alone[0], atol=1e-6, rtol=1e-5)
    both[0, 3:] = 7
    assert torch.equal(model(both, real)[0, :3], padded[0, :3])


def test_a_mean_is_of_real_tokens_alone() -> None:
    hidden = torch.tensor([[[1.0], [3.0], [100.0]], [[5.0], [6.0], [7.0]]])
    real = torch.tensor([[True, True, False], [False, False, False]])
    assert mean_pool(hidden, real).tolist() == [[2.0], [0.0]]


def test_an_encoder_without_a_pooler_says_so() -> None:
    model = build_classifier(EncoderSettings(**SMALL, pooler=False), n_tokens=11, n_classes=2)
    with pytest.raises(ValueError, match="pooler = false"):
        model(torch.zeros(1, 2, dtype=torch.long), torch.ones(1, 2, dtype=torch.bool))


def test_a_token_sees_what_its_layers_windows_leave() -> None:
    """Layers take reach and dilation in turn; texts long enough for bands, and short ones."""
    settings = EncoderSettings(
        d_model=16,
        d_feed_forward=16,
        n_heads=2,
        n_layers=2,
        max_length=128,
        reach=(4,),
        dilation=(1, 3),
        dropout=0.0,
    )
    model = build_masked(settings, n_tokens=9, seed=1).encoder.eval()
    for length in (31, 90):
        ids = torch.randint(9, (1, length), generator=torch.Generator().manual_seed(1))
        real, place = torch.ones(1, length, dtype=torch.bool), 15
        other = ids.clone()
        other[0, place] = (ids[0, place] + 1) % 9
        moved = (model(ids, real) - model(other, real)).abs().amax(dim=-1)[0] > 1e-7
        near = {place + one + 3 * two for one in range(-2, 3) for two in range(-2, 3)}
        assert {*moved.nonzero().flatten().tolist()} == {at for at in near if 0 <= at < length}
