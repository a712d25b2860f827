"""Training against JoeyNMT 2.3: a Transformer of the same shape on the same batches.

JoeyNMT asks for a protobuf of before 2022 and for much that training does not need, so `make bench`
installs it without its requirements, beside those that its model imports. It is trained by the
steps of its TrainManager, without its data loader. Its first weights, the norm after the last layer
and the form of label smoothing are its own, so the losses are alike but do not coincide.

    .venv-bench/bin/python benchmarks/run.py --only train-joeynmt
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from contest import Row, Work, contest, memory_row, serve, speed_row
from joeynmt.batch import Batch
from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary
from multi30k import MISSING, Setting, folder, recipe
from torch import nn
from train_torch import BATCHES, DTYPES, KINDS, ours

from headway.base.runtime import keep_pages
from headway.batches.pairs import PairBatch
from headway.training.schedules import learning_rate

CASE, PEER = "train-joeynmt", "JoeyNMT"
UNK, PAD, BOS, EOS = range(4)  # JoeyNMT's


def model(setting: Setting) -> Model:
    """JoeyNMT's Transformer in the shape of ours, one embedding for all."""
    settings = setting.settings.model
    side = {
        "type": "transformer",
        "num_heads": settings.n_heads,
        "embeddings": {"embedding_dim": settings.d_model, "scale": True},
        "hidden_size": settings.d_model,
        "ff_size": settings.d_feed_forward,
        "dropout": settings.dropout,
        "layer_norm": "post",
    }
    config = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "encoder": side | {"num_layers": settings.n_encoder_layers},
        "decoder": side | {"num_layers": settings.n_decoder_layers},
    }
    names = {"unk": UNK, "pad": PAD, "bos": BOS, "eos": EOS}
    symbols = {f"{name}_id": id for name, id in names.items()}
    symbols |= {f"{name}_token": f"<{name}>" for name in names}
    n_ids = len(setting.data.tokenizers.target)
    words = [str(number) for number in range(len(names), n_ids)]
    vocabulary = Vocabulary(words, SimpleNamespace(**symbols, lang_tags=[], sep_token=None))
    made = build_model(config, vocabulary, vocabulary)
    made.loss_function = ("crossentropy", setting.settings.train.label_smoothing)
    return made.train()


def its_batch(batch: PairBatch) -> Batch:
    """One of our batches as it wants it: the padding has its id, targets have both ends."""
    source = batch.source.masked_fill(~batch.source_real, PAD)
    following = batch.following.masked_fill(~batch.target_real, PAD)
    begin = torch.full_like(following[:, :1], BOS)
    return Batch(
        src=source,
        src_length=batch.source_real.sum(dim=1),
        src_prompt_mask=None,
        trg=torch.cat((begin, following), dim=1),
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
    )


def theirs(setting: Setting, dtype: str, *, kept: bool) -> Work:
    """The steps of its training."""
    if kept:
        keep_pages()
    target = setting.data.tokenizers.target
    assert (target.bos, target.eos) == (BOS, EOS)
    network, settings, batches = model(setting), setting.settings.train, setting.batches(BATCHES)
    optimizer = torch.optim.Adam(
        network.parameters(), betas=tuple(settings.betas), eps=settings.eps, fused=True
    )
    steps = 0

    def step(batch: Batch) -> float:
        nonlocal steps
        steps += 1
        batch.sort_by_src_length()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            summed, *_ = network(return_type="loss", **vars(batch))
        loss = batch.normalize(summed, normalization="tokens")
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, steps)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def work() -> tuple[float, dict[str, Any]]:
        tokens, losses = 0, 0.0
        for rows in batches:
            batch = its_batch(setting.tensors(rows))
            losses += step(batch) * batch.ntokens
            tokens += batch.ntokens
        return tokens, {"loss": losses / tokens}

    return work


def rows(rounds: int) -> list[Row]:
    """Speed and memory against the better dtype of theirs, as it is and with pages kept."""
    if folder() is None:
        return [{"case": CASE, "peer": PEER, "reason": MISSING}]
    names = [f"{dtype}{kept}" for kept in ("", "+kept") for dtype in DTYPES]
    turns = contest({name: _command(name) for name in ("ours", *names)}, rounds=rounds)
    found = []
    for kept, words in (("", "as it is"), ("+kept", "with pages kept")):
        rates = {dtype: median(turn.rate for turn in turns[dtype + kept]) for dtype in DTYPES}
        better = max(rates, key=lambda dtype: rates[dtype])
        mine, other = turns["ours"], turns[better + kept]
        about = {"case": CASE, "peer": f"{PEER}, {better} {words}"}
        losses = [round(each[-1].told["loss"], 4) for each in (mine, other)]
        found.append(about | {"measure": "target tokens a second"})
        found[-1] |= speed_row(mine, other, limit=mine[-1].told["limit"])
        found[-1] |= {"losses_of_last_round": losses}
        found.append(about | {"measure": "largest memory of the process, MiB"})
        found[-1] |= memory_row(mine, other)
    return found


def _command(name: str) -> list[str]:
    return [sys.executable, __file__, "--as", name]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    arguments = parser.parse_args()

    def prepare_work() -> Work:
        setting = Setting(recipe(model=KINDS[""]))  # JoeyNMT drops attention weights too
        if arguments.name == "ours":
            return ours(setting)
        dtype, _, kept = arguments.name.partition("+")
        return theirs(setting, dtype, kept=bool(kept))

    serve(prepare_work)


if __name__ == "__main__":
    main()
