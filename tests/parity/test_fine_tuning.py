"""A classifier's loss and gradients equal transformers' BertForSequenceClassification."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headway.batches.by_length import FramedRows, LabelBatches
from headway.batches.pairs import EncodedSide
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.encoder import Classifier
from headway.training.fine_tuning import PredictLabel

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

V = 53
SMALL = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
}


def theirs_of(n_labels: int) -> nn.Module:
    torch.manual_seed(1)
    config = transformers.BertConfig(**SMALL, num_labels=n_labels)
    model: nn.Module = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return model


@pytest.mark.parametrize("n_labels", [3, 1])
def test_loss_and_gradients_are_theirs(n_labels: int, tmp_path: Path) -> None:
    theirs = theirs_of(n_labels)
    theirs.save_pretrained(tmp_path)
    mine, _ = read_model(tmp_path)
    assert isinstance(mine, Classifier)
    random = np.random.default_rng(3)
    ids = [random.integers(2, V, length).tolist() for length in (9, 4, 6)]
    segments = [[0] * 3 + [1] * (len(row) - 3) for row in ids]
    labels = np.array([2, 0, 1]) if n_labels > 1 else np.array([0.5, -2.0, 4.0], np.float32)
    rows = FramedRows(EncodedSide.of(ids), EncodedSide.of(segments))
    batch = LabelBatches(rows, labels, 3, seed=1, pad=0).batch(0, np.arange(3))
    loss = PredictLabel(0.0, regression=n_labels == 1)(mine, batch, None, "float32")["row"]
    (loss.objective / 3).backward()  # type: ignore[no-untyped-call]
    wanted = theirs(
        input_ids=batch.ids,
        attention_mask=batch.real.long(),
        token_type_ids=batch.segments,
        labels=batch.labels,
    ).loss
    wanted.backward()
    torch.testing.assert_close(loss.objective / 3, wanted, atol=1e-5, rtol=1e-5)
    layer = theirs.bert.encoder.layer[0]
    pairs = {
        mine.head: theirs.classifier,
        mine.encoder.pooler: theirs.bert.pooler.dense,
        mine.encoder.embedding.tokens: theirs.bert.embeddings.word_embeddings,
        mine.encoder.embedding.segments: theirs.bert.embeddings.token_type_embeddings,
        mine.encoder.stack.layers[0].attention.to_query: layer.attention.self.query,
        mine.encoder.stack.layers[0].feed_forward.down: layer.output.dense,
    }
    for ours, other in pairs.items():
        assert ours is not None
        torch.testing.assert_close(ours.weight.grad, other.weight.grad, atol=1e-5, rtol=1e-4)
