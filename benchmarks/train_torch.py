"""Training against torch.nn.Transformer: same batches, first weights, loss and optimiser.

Theirs is written the ordinary way: its modules, a mask of booleans, CrossEntropyLoss over the whole
(tokens, vocabulary) matrix, fused Adam, clipping. What is not ordinary: the two norms that
torch.nn.Transformer puts after post-norm layers are taken away, and one embedding serves all, so
that both compute the same function. Ours trains as `headway train` does.

    .venv-bench/bin/python benchmarks/run.py --only train-torch
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from statistics import median
from typing import Any

import torch
from contest import Row, Turn, Work, contest, memory_row, once, serve, speed_row
from multi30k import MISSING, Setting, folder, our_steps, recipe
from torch import Tensor, nn

from headway.base.runtime import keep_pages
from headway.batches.pairs import PairBatch
from headway.models.seq2seq import Transformer
from headway.nn.attention import Attention
from headway.settings.model import TransformerSettings
from headway.settings.training import TrainSettings
from headway.training.probe import faster_dtype
from headway.training.schedules import learning_rate

CASE, PEER = "train-torch", "torch.nn.Transformer"
BATCHES = 4  # a turn; the same ones in each
CHECKED = 5  # steps over which the losses are compared
TOLERANCE = 1e-4
KINDS = {  # what is dropped; torch.nn.Transformer always drops attention weights too
    "": {"attention_dropout": 0.3},
    " without dropout of attention weights": {"attention_dropout": 0.0},
}
DTYPES = ("float32", "bfloat16")


class Ordinary(nn.Module):
    """A translator around torch.nn.Transformer, with as many ids on both sides."""

    def __init__(self, settings: TransformerSettings, n_ids: int) -> None:
        super().__init__()
        D = settings.d_model
        self.tokens = nn.Embedding(n_ids, D)
        self.dropout = nn.Dropout(settings.dropout)
        self.transformer = nn.Transformer(
            D,
            settings.n_heads,
            settings.n_encoder_layers,
            settings.n_decoder_layers,
            settings.d_feed_forward,
            settings.dropout,
            batch_first=True,
        )
        self.transformer.encoder.norm = None
        self.transformer.decoder.norm = None
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = settings.attention_dropout
        self.head = nn.Linear(D, n_ids, bias=False)
        self.head.weight = self.tokens.weight
        position = torch.arange(settings.max_length)[:, None]
        angles = position * torch.exp(torch.arange(0, D, 2) * (-math.log(10_000.0) / D))
        waves = torch.zeros(settings.max_length, D)
        waves[:, 0::2], waves[:, 1::2] = torch.sin(angles), torch.cos(angles)
        self.register_buffer("waves", waves)

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)."""
        hidden = self.tokens(ids) * math.sqrt(self.tokens.embedding_dim)
        return self.dropout(hidden + self.waves[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor, pad: int) -> Tensor:
        """(B, S), (B, T) -> logits (B, T, V)."""
        T = target.shape[1]
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == pad,
            tgt_key_padding_mask=target == pad,
            memory_key_padding_mask=source == pad,
        )
        return self.head(hidden)


class OrdinaryTrainer:
    """The training loop that goes with it."""

    def __init__(self, model: Ordinary, settings: TrainSettings, pad: int, dtype: str) -> None:
        self.model, self.settings, self.pad, self.dtype = model, settings, pad, dtype
        self.loss = nn.CrossEntropyLoss(ignore_index=pad, label_smoothing=settings.label_smoothing)
        self.optimizer = torch.optim.Adam(
            model.parameters(), betas=tuple(settings.betas), eps=settings.eps, fused=True
        )
        self.steps = 0

    def step(self, batch: PairBatch) -> float:
        """One step; gives the loss."""
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, self.steps)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bfloat16"):
            logits = self.model(batch.source, batch.target, self.pad)
            loss = self.loss(logits.flatten(0, 1), batch.following.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimizer.step()
        return loss.item()


@torch.no_grad()
def copy_weights(ours: Transformer, theirs: Ordinary) -> None:
    """Give theirs the weights of ours."""
    theirs.tokens.weight.copy_(ours.target_embedding.tokens.weight)
    stacks = (
        (ours.encoder, theirs.transformer.encoder),
        (ours.decoder, theirs.transformer.decoder),
    )
    for mine, other in stacks:
        for block, layer in zip(mine.layers, other.layers, strict=True):
            _copy_attention(block.attention, layer.self_attn)
            parts = [
                (block.around_attention.norm, layer.norm1),
                (block.feed_forward.up, layer.linear1),
                (block.feed_forward.down, layer.linear2),
            ]
            if hasattr(block, "cross_attention"):
                _copy_attention(block.cross_attention, layer.multihead_attn)
                parts.append((block.around_cross_attention.norm, layer.norm2))
                parts.append((block.around_feed_forward.norm, layer.norm3))
            else:
                parts.append((block.around_feed_forward.norm, layer.norm2))
            for part, copy in parts:
                copy.weight.copy_(part.weight)
                copy.bias.copy_(part.bias)


def _copy_attention(mine: Attention, other: nn.MultiheadAttention) -> None:
    ways = (mine.to_query, mine.to_key, mine.to_value)
    other.in_proj_weight.copy_(torch.cat([way.weight for way in ways]))
    other.in_proj_bias.copy_(torch.cat([way.bias for way in ways]))
    other.out_proj.weight.copy_(mine.to_output.weight)
    other.out_proj.bias.copy_(mine.to_output.bias)


def ordinary(setting: Setting, dtype: str) -> OrdinaryTrainer:
    """Their trainer, at step 0, with the same first weights as ours."""
    mine, settings = setting.model(), setting.settings
    assert isinstance(settings.model, TransformerSettings)
    model = Ordinary(settings.model, mine.vocabulary_sizes()[1])
    copy_weights(mine, model)
    return OrdinaryTrainer(model.train(), settings.train, setting.order.pad, dtype)


def ours(setting: Setting) -> Work:
    """As `headway train` does it: pages kept, the dtype that is measured to be faster."""
    keep_pages()
    with tempfile.TemporaryDirectory() as cache:  # measured now, not remembered
        os.environ["XDG_CACHE_HOME"] = cache
        dtype = faster_dtype(setting.trainer("auto"))
    trainer, batches = setting.trainer(dtype), setting.batches(BATCHES)

    def work() -> tuple[float, dict[str, Any]]:
        tokens, loss = our_steps(trainer, batches)
        return tokens, {"dtype": dtype, "loss": loss}

    return work


def theirs(setting: Setting, dtype: str, *, kept: bool) -> Work:
    """The ordinary loop; `kept` gives it our trick with the pages."""
    if kept:
        keep_pages()
    trainer, batches = ordinary(setting, dtype), setting.batches(BATCHES)

    def work() -> tuple[float, dict[str, Any]]:
        tokens, losses = 0, 0.0
        for rows in batches:
            batch = setting.tensors(rows)
            n = int(batch.target_real.sum())
            losses += trainer.step(batch) * n
            tokens += n
        return tokens, {"dtype": dtype, "loss": losses / tokens}

    return work


def losses(setting: Setting) -> tuple[list[float], list[float]]:
    """Loss of each of the first steps, ours and theirs, in float32."""
    one, other = setting.trainer("float32"), ordinary(setting, "float32")
    batches = setting.batches(CHECKED)
    return (
        [our_steps(one, [rows])[1] for rows in batches],
        [other.step(setting.tensors(rows)) for rows in batches],
    )


def rows(rounds: int) -> list[Row]:
    """Speed and memory against the better dtype of theirs, as it is and with pages kept; losses."""
    if folder() is None:
        return [{"case": CASE, "peer": PEER, "reason": MISSING}]
    found = []
    for kind in KINDS:
        found += _speed(kind, rounds)
    told = once(_command("losses", ""))
    pairs = list(zip(told["ours"], told["theirs"], strict=True))
    apart = max(abs(one - other) / other for one, other in pairs)
    return [
        *found,
        {
            "case": CASE,
            "peer": PEER,
            "measure": f"loss of step {CHECKED}, float32, no dropout",
            "ours": pairs[-1][0],
            "theirs": pairs[-1][1],
            "ratio": pairs[-1][0] / pairs[-1][1],
            "largest_relative_difference": apart,
            "agrees": apart < TOLERANCE,
        },
    ]


def _speed(kind: str, rounds: int) -> list[Row]:
    names = [f"{dtype}{kept}" for kept in ("", "+kept") for dtype in DTYPES]
    turns = contest(
        {name: _command(name, kind) for name in ("ours", *names)},
        rounds=rounds,
    )
    found = []
    for kept, words in (("", "as it is"), ("+kept", "with pages kept")):
        rates = {dtype: median(turn.rate for turn in turns[dtype + kept]) for dtype in DTYPES}
        better = max(rates, key=lambda dtype: rates[dtype])
        mine, other = turns["ours"], turns[better + kept]
        about = {
            "case": CASE + kind.replace(" ", "-"),
            "peer": f"{PEER}, {better} {words}",
        }
        found.append(
            about
            | {"measure": "target tokens a second"}
            | speed_row(mine, other)
            | {"ours_dtype": mine[-1].told["dtype"], "theirs_by_dtype": _rounded(rates)}
            | {"losses_of_last_round": [_loss(mine), _loss(other)]}
        )
        found.append(about | {"measure": "largest memory of the process, MiB"})
        found[-1] |= memory_row(mine, other)
    return found


def _rounded(rates: dict[str, float]) -> dict[str, float]:
    return {dtype: round(rate, 1) for dtype, rate in rates.items()}


def _loss(turns: list[Turn]) -> float:
    return round(turns[-1].told["loss"], 4)


def _command(name: str, kind: str) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--kind", kind]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--kind", choices=[*KINDS], default="")
    arguments = parser.parse_args()

    def prepare_work() -> Work:
        checks = arguments.name == "losses"
        dropped = {"dropout": 0.0, "attention_dropout": 0.0} if checks else KINDS[arguments.kind]
        # checked at rates at which the weights move within a few steps
        settings = recipe(model=dropped, warmup=10) if checks else recipe(model=dropped)
        setting = Setting(settings)
        if checks:
            return lambda: (0.0, dict(zip(("ours", "theirs"), losses(setting), strict=True)))
        if arguments.name == "ours":
            return ours(setting)
        dtype, _, kept = arguments.name.partition("+")
        return theirs(setting, dtype, kept=bool(kept))

    serve(prepare_work)


if __name__ == "__main__":
    main()
