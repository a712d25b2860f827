"""What a masked language model minimises equals transformers' BertForPreTraining."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.batches.masked import MaskedBatch, Masking, Vocabulary, masked
from headway.batches.order import generator
from headway.batches.sentences import ANOTHER, FOLLOWS, UNASKED, Texts
from headway.checkpoint.exchange.huggingface import write_model
from headway.models.build import build_masked
from headway.settings.model import EncoderSettings
from headway.training.objectives import PredictMasked

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V = 61
SETTINGS = EncoderSettings(
    n_layers=2,
    d_model=24,
    d_feed_forward=40,
    n_heads=3,
    max_length=32,
    norm_eps=1e-12,
    dropout=0.1,  # which no noise makes nothing of
)


def batch_of(relations: list[int]) -> MaskedBatch:
    random = np.random.Generator(np.random.PCG64(3))
    ids = np.arange(V)
    words = Vocabulary(2, 3, 0, 4, ids < 5, ids > 0, ids[5:])
    rows = []
    for number, relation in enumerate(relations):
        first, second = (
            random.integers(5, V, n).astype(np.int32) for n in random.integers(1, 12, 2)
        )
        second = second[:0] if relation == UNASKED else second
        rows.append((Texts(first, second, relation), generator(number)))
    return masked(rows, Masking(words, 0.3, False), asks=True)


def test_loss_and_gradients_are_those_of_bert(tmp_path: Path) -> None:
    mine = build_masked(SETTINGS, n_tokens=V, seed=5)
    with torch.no_grad():
        for weight in mine.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(7)) * 0.2)
    folder = tmp_path / "bert"
    write_model(folder, mine, SETTINGS)
    theirs = transformers.BertForPreTraining.from_pretrained(folder).eval()
    batch = batch_of([FOLLOWS, ANOTHER, ANOTHER, FOLLOWS, FOLLOWS])
    losses = PredictMasked(0.0)(mine, batch, None, "float32")
    counts = batch.counts
    loss: Tensor = sum(part.objective / counts[name] for name, part in losses.items())  # type: ignore[assignment]
    loss.backward()  # type: ignore[no-untyped-call]
    labels = torch.full_like(batch.ids, -100)
    labels[batch.chosen] = batch.targets
    found = theirs(
        input_ids=batch.ids,
        attention_mask=batch.real.long(),
        token_type_ids=batch.segments,
        labels=labels,
        next_sentence_label=batch.relation,
    )
    found.loss.backward()
    torch.testing.assert_close(loss.float(), found.loss, atol=1e-5, rtol=1e-5)
    pairs = {
        "encoder.embedding.tokens.weight": "bert.embeddings.word_embeddings.weight",
        "encoder.embedding.positions.weight": "bert.embeddings.position_embeddings.weight",
        "encoder.embedding.segments.weight": "bert.embeddings.token_type_embeddings.weight",
        "encoder.stack.layers.0.attention.to_query.weight": (
            "bert.encoder.layer.0.attention.self.query.weight"
        ),
        "encoder.stack.layers.1.feed_forward.down.bias": "bert.encoder.layer.1.output.dense.bias",
        "encoder.pooler.weight": "bert.pooler.dense.weight",
        "masked.transform.weight": "cls.predictions.transform.dense.weight",
        "masked.norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "masked.output.bias": "cls.predictions.bias",
        "follows.weight": "cls.seq_relationship.weight",
        "follows.bias": "cls.seq_relationship.bias",
    }
    ours, other = dict(mine.named_parameters()), dict(theirs.named_parameters())
    for name, theirs_name in pairs.items():
        mine_gradient, gradient = ours[name].grad, other[theirs_name].grad
        assert mine_gradient is not None
        assert bool(gradient.abs().sum() > 0), name
        torch.testing.assert_close(mine_gradient, gradient, atol=1e-5, rtol=1e-4)


def test_rows_of_which_nothing_is_asked_add_nothing() -> None:
    model = build_masked(SETTINGS, n_tokens=V, seed=5)
    batch = batch_of([FOLLOWS, UNASKED, ANOTHER, UNASKED])
    losses = PredictMasked(0.0)(model, batch, None, "float32")
    assert batch.relation is not None
    hidden = model.encoder(batch.ids, batch.real, batch.segments)
    logits = model.follows(model.encoder.pool(hidden)).log_softmax(-1)  # type: ignore[misc]
    wanted = -(logits[0, 0] + logits[2, 1])
    assert float(losses["follows"].nll) == pytest.approx(wanted.item(), rel=1e-5)
    none = PredictMasked(0.0)(model, batch_of([UNASKED]), None, "float32")
    assert float(none["follows"].nll) == 0.0


def test_padding_changes_no_loss() -> None:
    model = build_masked(SETTINGS, n_tokens=V, seed=5)
    batch = batch_of([FOLLOWS, ANOTHER, FOLLOWS])
    wider = batch._replace(
        **{
            name: torch.nn.functional.pad(getattr(batch, name), (0, 4), value=0)
            for name in ("ids", "real", "segments", "chosen")
        }
    )
    one, other = (PredictMasked(0.0)(model, each, None, "float32") for each in (batch, wider))
    for name in one:
        assert float(one[name].nll) == pytest.approx(float(other[name].nll), rel=1e-5)
