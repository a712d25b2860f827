"""Log-likelihoods of continuations, on a toy Llama whose tokeniser merges across words."""

from __future__ import annotations

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from torch import Tensor

from headway.base.errors import UserError
from headway.models.build import build_decoder
from headway.models.decoder import DecoderState
from headway.runs.language_model import LanguageModel, Sampling
from headway.runs.likelihoods import Asked, encode_requests, likelihoods, windows
from headway.settings.model import DecoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.text import Roles, TextTokenizer

CONTEXT = 48
MERGES = ["A n", "An s", "w e", "we r", "Ans wer", "Ġ b", "Ġb i", "Ġ Ġ"]


def tokenizer(*, adds_bos: bool = False) -> TextTokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, *(merge.replace(" ", "") for merge in MERGES)]
    pairs = [(merge.split(" ")[0], merge.split(" ")[1]) for merge in MERGES]
    made = Backend(models.BPE({piece: id for id, piece in enumerate(pieces)}, pairs))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<|start|>", normalized=False)])
    start = made.token_to_id("<|start|>")
    return TextTokenizer(made, Roles(bos=start, ends=frozenset({start}), adds_bos=adds_bos))


def language_model(*, adds_bos: bool = False) -> LanguageModel:
    made = tokenizer(adds_bos=adds_bos)
    row = PRESETS["smollm2-135m"] | {"n_layers": 2, "d_model": 48, "d_feed_forward": 64}
    settings = DecoderSettings(**row | {"n_heads": 4, "n_kv_heads": 2, "max_length": CONTEXT})
    model = build_decoder(settings, n_tokens=len(made), seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)) * 0.3)
    return LanguageModel(model, made, settings, torch.device("cpu"))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return language_model()


def by_hand(model: LanguageModel, context: list[int], continuation: list[int]) -> float:
    """The product of conditionals, one token at a time, each by a forward pass of its own."""
    total, ids = 0.0, list(context)
    for token in continuation:
        with torch.inference_mode():
            logits = model.model(torch.tensor([ids[-CONTEXT:]]))[0, -1].double()
        total += float(logits.log_softmax(-1)[token])
        ids.append(token)
    return total


REQUESTS = [
    ("The capital of Norway is", " big"),
    ("The capital of Norway is", " small"),
    ("The capital of Norway is ", "big"),
    ("", "bigger"),
    ("Ans", "wer"),
    ("An", "swer b"),
    ("  \n", "x"),
    ("été", " à b"),
]


def test_it_is_the_product_of_conditionals(model: LanguageModel) -> None:
    rows = encode_requests(model.tokenizer, REQUESTS, model.tokenizer.opening)
    found = model.log_likelihoods(REQUESTS)
    assert [each.log_prob for each in found] == pytest.approx(
        [by_hand(model, *row) for row in rows], abs=1e-4
    )
    assert [each.tokens for each in found] == [len(row.continuation) for row in rows]


def test_blanks_before_a_continuation_are_a_part_of_it(model: LanguageModel) -> None:
    apart, moved = model.log_likelihoods([("a ", "big"), ("a", " big")])
    assert apart == moved
    (row,) = encode_requests(model.tokenizer, [("a ", "big")], model.tokenizer.opening)
    assert model.tokenizer.pieces(row.continuation) == ["▁bi", "g"]


def test_a_token_across_the_join_leaves_some_of_the_continuation() -> None:
    made = tokenizer()
    (row,) = encode_requests(made, [("Ans", "wer")], lambda: 0)
    assert made.pieces(row.context) == ["Ans"]
    assert made.pieces(row.continuation) == ["wer"]
    (row,) = encode_requests(made, [("An", "swerx")], lambda: 0)  # as the harness cuts it
    assert made.pieces(row.context + row.continuation) == ["An", "x"]


def test_an_empty_context_is_the_start_symbol() -> None:
    made = tokenizer()
    rows = encode_requests(made, [("", "b"), (" ", "b")], lambda: 77)
    assert [row.context for row in rows] == [[77], [77]]
    assert [made.pieces(row.continuation) for row in rows] == [["b"], ["▁b"]]
    beginning = tokenizer(adds_bos=True)
    start = beginning.roles.bos
    rows = encode_requests(beginning, [("", "b"), ("a", "b")], lambda: 77)
    assert [row.context[0] for row in rows] == [start, start]
    assert [len(row.context) for row in rows] == [1, 2]


@pytest.mark.parametrize("adds_bos", [False, True])
def test_the_batch_changes_nothing(adds_bos: bool) -> None:
    model = language_model(adds_bos=adds_bos)
    alone = [model.log_likelihoods([each])[0].log_prob for each in REQUESTS]
    for batch_tokens in (1, 32, 4096):
        together = model.log_likelihoods(REQUESTS[::-1] * 2, batch_tokens=batch_tokens)
        assert [each.log_prob for each in together] == pytest.approx(alone[::-1] * 2, abs=1e-5)


def count_read(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of ids in each batch that the model reads from now on."""
    sizes, read = [], model.model.read

    def counted(ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        sizes.append(ids.numel())
        return read(ids, state)

    monkeypatch.setattr(model.model, "read", counted)
    return sizes


def test_what_all_begin_with_is_read_once(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = "one: 1, two: 2, three: 3, "
    requests = [(examples + word, ": 45") for word in ("four", "five", "a")]
    wanted = [
        by_hand(model, *row)
        for row in encode_requests(model.tokenizer, requests, model.tokenizer.opening)
    ]
    sizes = count_read(model, monkeypatch)
    found = model.log_likelihoods(requests)
    assert [each.log_prob for each in found] == pytest.approx(wanted, abs=1e-4)
    assert sizes == [3 * len("four: 4")]


def test_choices_of_one_token_are_read_together(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [("is it?", letter) for letter in "acegi"]
    sizes = count_read(model, monkeypatch)
    found = model.log_likelihoods([*requests, ("else", "f")])
    assert sizes == [2 * len("is it?")]
    assert len({each.log_prob for each in found}) == 6
    assert sum(torch.tensor([each.log_prob for each in found[:5]]).exp()) < 1


def test_greedy_is_what_greedy_decoding_gives(model: LanguageModel) -> None:
    (written,) = model.generate(["ab"], Sampling(temperature=0.0, max_new_tokens=6))
    (context,), ids = model.tokenizer.encode(["ab"]), written.ids
    rows = [Asked(context, ids), Asked(context, [*ids[:-1], ids[-1] - 1])]
    same, other = likelihoods(model.model, rows, device=model.device)
    assert same.greedy
    assert not other.greedy
    assert same.log_prob == pytest.approx(written.log_prob, abs=1e-4)


def test_a_long_context_loses_its_beginning(model: LanguageModel) -> None:
    long = "".join(chr(97 + place % 26) for place in range(80))
    with pytest.warns(UserWarning, match="request 2 has more tokens than the 48"):
        found = model.log_likelihoods([("a", "xyz"), (long, "xyz")])
    (row,) = encode_requests(model.tokenizer, [(long, "xyz")], model.tokenizer.opening)
    kept = row.context[-(CONTEXT + 1 - 3) :]
    assert found[1].log_prob == pytest.approx(by_hand(model, kept, row.continuation), abs=1e-4)


def test_what_cannot_be_scored_is_told(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="request 2 has nothing to score"):
        model.log_likelihoods([("a", "b"), ("a", "")])
    with pytest.raises(UserError, match="a continuation of 60 tokens; the model's context is 48"):
        model.log_likelihoods([("a", "x" * 60)])
    assert model.log_likelihoods([]) == []


@pytest.mark.parametrize("n", [1, 47, 48, 49, 96, 130])
def test_each_token_of_a_text_is_scored_once(model: LanguageModel, n: int) -> None:
    text = "".join(chr(97 + place * 7 % 26) for place in range(n))
    (found,) = model.rolling_log_likelihoods([text])
    (ids,) = model.tokenizer.encode([text])
    rows = list(windows(ids, 0, CONTEXT))
    assert [id for row in rows for id in row.continuation] == ids
    assert all(len(row.read()) <= CONTEXT for row in rows)
    assert all(len(row.read()) == CONTEXT for row in rows[1:])
    assert found.tokens == n
    if n <= CONTEXT:
        wanted = by_hand(model, [model.tokenizer.opening()], ids)
        assert found.log_prob == pytest.approx(wanted, abs=1e-4)


def test_texts_together_are_as_alone(model: LanguageModel) -> None:
    texts = ["abc" * 40, "", "x"]
    alone = [model.rolling_log_likelihoods([each])[0].log_prob for each in texts]
    together = model.rolling_log_likelihoods(texts, batch_tokens=60)
    assert [each.log_prob for each in together] == pytest.approx(alone, abs=1e-4)
    assert together[1].tokens == 0
    with pytest.raises(UserError, match="a list of texts"):
        model.rolling_log_likelihoods("abc")
