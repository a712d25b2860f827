from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.base.errors import UserError
from headway.decode.steps import Hypothesis
from headway.runs.sentences import LongText
from headway.runs.translator import Translation, Translator

Run = Callable[[str], Path]
KINDS = ["transformer", "attention", "plain"]
WIDTH, BEST = 4, 3


@pytest.fixture(scope="module", params=KINDS)
def translator(request: pytest.FixtureRequest, trained: Run) -> Translator:
    return headway.load(trained(request.param), device="cpu")


@pytest.fixture(scope="module")
def sources(toy: Path) -> list[str]:
    """Of 1, 5 and 20 words (trap D1), one of a word that nobody knows, and the test part's."""
    lines = (toy / "test.fr").read_text(encoding="utf-8").splitlines()
    return ["chat", "un petit chien boit vert", " ".join(lines)[:110], "hippopotame", *lines[:16]]


def test_no_result_depends_on_batch_or_order(translator: Translator, sources: list[str]) -> None:
    found = translator.n_best(sources, BEST, beam=WIDTH)
    order = random.Random(3).sample(range(len(sources)), len(sources))
    shuffled = translator.n_best([sources[place] for place in order], BEST, beam=WIDTH)
    for place, other in zip(order, shuffled, strict=True):
        same(found[place], other)
    for place in range(8):
        (alone,) = translator.n_best([sources[place]], BEST, beam=WIDTH)
        same(found[place], alone)


def same(ours: list[Translation], theirs: list[Translation]) -> None:
    assert [each.text for each in ours] == [each.text for each in theirs]
    assert len({each.text for each in ours}) > 1
    for one, other in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_no_greedy_translation_depends_on_its_batch(
    translator: Translator, sources: list[str]
) -> None:
    together = translator.translate(sources, beam=1)
    assert together == [translator.translate([source], beam=1)[0] for source in sources]
    assert translator.translate(sources[::-1], beam=1) == together[::-1]
    assert len(set(together)) > 3


def test_a_beam_of_one_is_greedy(translator: Translator, sources: list[str]) -> None:
    beams = translator.n_best(sources, 1, beam=1)
    assert [best.text for (best,) in beams] == translator.translate(sources, beam=1)


def test_the_best_of_n_is_the_translation(translator: Translator, sources: list[str]) -> None:
    best = [found[0].text for found in translator.n_best(sources, BEST, beam=WIDTH)]
    assert best == translator.translate(sources, beam=WIDTH)
    assert translator.recipe.evaluate.beam == WIDTH
    assert best == translator.translate(sources)


def test_each_hypothesis_scores_what_it_was_said_to(
    translator: Translator, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap D5: by a plain forward pass, where the text has the same ids again."""
    target = translator.tokenizers.target
    seen: dict[str, Hypothesis] = {}
    texts = translator._texts

    def spy(hypotheses: list[Hypothesis]) -> list[Translation]:
        made = texts(hypotheses)
        seen.update(zip((each.text for each in made), hypotheses, strict=True))
        return made

    monkeypatch.setattr(translator, "_texts", spy)
    checked = 0
    for source in sources[:8]:
        seen.clear()
        (found,) = translator.n_best([source], BEST, beam=WIDTH)
        for each in found:
            hypothesis = seen[each.text]
            if hypothesis.ended and target.encode([each.text]) == [[*hypothesis.ids, target.eos]]:
                (score,) = translator.score([source], [each.text])
                assert score == pytest.approx(each.log_prob, abs=1e-4)
                checked += 1
    assert checked > 8


def test_a_score_is_the_sum_of_its_steps(translator: Translator, sources: list[str]) -> None:
    targets = ["cat", "one two", "", "big dog eats", "hippopotamus"]
    scores = translator.score(sources[: len(targets)], targets)
    sides = translator.tokenizers.source, translator.tokenizers.target
    with torch.no_grad():
        for source, target, score in zip(sources, targets, scores, strict=False):
            (ids,), (wanted,) = (
                tokenizer.encode([text])
                for tokenizer, text in zip(sides, (source, target), strict=True)
            )
            state = translator.model.start(torch.tensor([ids]), torch.tensor([len(ids)]))
            total, last = 0.0, sides[1].bos
            for id in wanted:
                logits, state = translator.model.step(torch.tensor([[last]]), state)
                total += float(logits[0, -1].double().log_softmax(-1)[id])
                last = id
            assert score == pytest.approx(total, abs=1e-4)


def test_likelihoods_count_tokens_and_hits(translator: Translator, sources: list[str]) -> None:
    best = translator.translate(sources[4:12], beam=1)
    for text, found in zip(best, translator.likelihoods(sources[4:12], best), strict=True):
        ids = translator.tokenizers.target.encode([text])[0]
        assert found.tokens == len(ids)
        assert found.nll > 0
    hits = sum(found.correct for found in translator.likelihoods(sources[4:12], best))
    total = sum(found.tokens for found in translator.likelihoods(sources[4:12], best))
    assert hits > 0.8 * total  # greedy takes the likeliest token, where its ids come back


def test_scores_need_pairs(translator: Translator) -> None:
    with pytest.raises(UserError, match="2 sources but 1 targets"):
        translator.score(["un", "deux"], ["one"])


def test_samples_depend_on_seed_and_place_only(translator: Translator) -> None:
    texts = ["un petit chien boit vert", "", "vert chat", "chat"]  # batches begin with the short
    one = translator.sample(texts, seed=5)
    assert one == translator.sample(texts, seed=5)
    assert one[:1] == translator.sample(texts[:1], seed=5)
    assert one[:3] == translator.sample(texts[:3], seed=5)
    assert one[2:] == translator.sample(["", "", *texts[2:]], seed=5)[2:]
    later = translator.draws(texts[2:], seed=5, first=3)
    assert [each.text for each in later] == one[2:]
    # line i under one seed is not line i + 1 under the seed before it
    again = [translator.sample(["", texts[0]], seed=seed)[1] for seed in range(7)]
    assert again != [translator.sample([texts[0]], seed=seed)[0] for seed in range(1, 8)]
    assert one[1] == ""
    assert len({translator.sample(texts[:1], seed=seed)[0] for seed in range(8)}) > 2
    almost_greedy = translator.sample(texts, temperature=1e-4)
    assert almost_greedy == translator.translate(texts, beam=1)


def test_empty_texts_stay_empty(translator: Translator) -> None:
    assert translator.translate([]) == []
    assert translator.translate(["", " \t", "\u2028"]) == ["", "", ""]
    found = translator.n_best(["", "chat"], BEST)
    assert found[0] == [Translation("", 0.0, 0.0)]
    assert len(found[1]) == BEST


def test_a_long_text_is_cut_with_one_warning_that_names_it(translator: Translator) -> None:
    limit = translator.recipe.model.max_length
    texts = ["chat", " ".join(["chat"] * 500), "chien"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        found = translator.translate(texts, beam=1)
        translator.score(texts, found)
    lines = [str(each.message) for each in told if each.category is LongText]
    assert len([line for line in lines if line.startswith("line ")]) == 1
    assert re.match(rf"line 2 has 50[12] tokens and was cut to the {limit} ", lines[0])
    with pytest.warns(LongText, match="line 1 has"):
        cut = translator.translate([" ".join(["chat"] * 900)], beam=1)
    assert cut == found[1:2]


def test_a_text_too_long_for_learned_positions_is_cut_everywhere(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    recipe = toy_recipe("transformer", steps=1)
    recipe["model"] |= {"positions": "learned", "n_decoder_layers": 1}
    translator = headway.train(recipe, out=tmp_path / "run")
    long = " ".join(["chat"] * 500)
    with pytest.warns(LongText, match="target 1 has 502 tokens"):
        (score,) = translator.score(["chat"], [long])
    assert score < 0
    with pytest.warns(LongText, match="line 1 has 502 tokens"):
        found = translator.attention(long, "cat")
    assert found.weights.shape[1] == 64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = translator.attention("un chat " * 15)  # what it writes itself does not end
    assert found.weights.shape[0] == 64


@pytest.mark.parametrize("kind", ["transformer", "attention"])
def test_attention_is_a_distribution_over_the_source(kind: str, trained: Run) -> None:
    translator = headway.load(trained(kind), device="cpu")
    found = translator.attention("un petit chien", "one small dog")
    assert found.weights.shape == (len(found.target), len(found.source))
    assert (found.source[-1], found.target[-1]) == ("</s>", "</s>")
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    assert found.weights.min() >= 0
    own = translator.attention("un petit chien")
    text = translator.translate(["un petit chien"])
    assert own.target == translator.tokenizers.target.pieces(
        translator.tokenizers.target.encode(text)[0]
    )


def test_a_trained_attention_finds_the_word_that_it_translates(trained: Run) -> None:
    translator = headway.load(trained("attention"), device="cpu")
    found = translator.attention("vert chien boit un", "green dog drinks one")
    assert found.weights[:4].argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_layers_and_heads_are_chosen(trained: Run) -> None:
    translator = headway.load(trained("transformer"), device="cpu")
    pair = ("un petit chien", "one small dog")
    each = {
        (layer, head): translator.attention(*pair, layer=layer, head=head)
        for layer in (0, 1)
        for head in (0, 1, None)
    }
    for layer in (0, 1):
        heads = [each[layer, head].weights for head in (0, 1)]
        np.testing.assert_allclose(each[layer, None].weights, np.mean(heads, axis=0), atol=1e-6)
        assert np.abs(heads[0] - heads[1]).max() > 1e-3
        np.testing.assert_allclose(heads[1].sum(axis=1), 1, atol=1e-5)
    assert np.abs(each[0, 0].weights - each[1, 0].weights).max() > 1e-3
    np.testing.assert_array_equal(translator.attention(*pair).weights, each[0, None].weights)
    assert each[1, 0].title == "layer 1, head 0"
    assert each[0, None].title == "layer 0, mean of the heads"


@pytest.mark.parametrize(
    ("kind", "place", "what"),
    [
        ("transformer", {"layer": 2}, "no layer 2; layers are 0 to 1"),
        ("transformer", {"layer": -1}, "no layer -1"),
        ("transformer", {"head": 2}, "no head 2; heads are 0 to 1"),
        ("attention", {"head": 1}, "no head 1; heads are 0 to 0"),
        ("attention", {"layer": 1}, "no layer 1; layers are 0 to 0"),
        ("plain", {}, "this model has no attention"),
    ],
)
def test_attention_that_is_not_there(
    kind: str, place: dict[str, int], what: str, trained: Run
) -> None:
    translator = headway.load(trained(kind), device="cpu")
    with pytest.raises(UserError, match=what):
        translator.attention("un chat", "one cat", **place)


def test_it_says_what_it_is(trained: Run) -> None:
    words = repr(headway.load(trained("attention"), device="cpu"))
    assert words.startswith("Translator(fr → en, recurrent, ")
    assert words.endswith(" parameters, cpu)")
