"""Training a GPT of 10 million parameters at context 256, against nanoGPT, the Trainer and litgpt.

    git clone https://github.com/karpathy/nanoGPT
    NANOGPT=nanoGPT .venv-bench/bin/python benchmarks/run.py --only train-gpt

The model is that of nanoGPT's config/train_shakespeare_char.py (6 layers, 6 heads, width 384), the
text the sources of the interpreter as bytes; all are given the same batches of 16 rows. nanoGPT is
its model file as it is with its loop, which on a CPU is float32; the same under autocast to
bfloat16 stands beside it, and the better counts. transformers' is GPT2LMHeadModel with its Trainer,
litgpt's its GPT with the loss that it trains with; both in the better dtype too. Ours trains as
`headway train` does. Without dropout and with nanoGPT's 0.2.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
import torch
from contest import Row, Work, contest, memory_row, once, serve, speed_row
from torch import Tensor, nn

from headway.base.runtime import keep_pages
from headway.batches.packed import PackedBatches, Packing
from headway.batches.pairs import EncodedSide
from headway.data.builtin_text import stdlib_documents
from headway.models.build import build_decoder
from headway.models.decoder import Decoder
from headway.settings.model import DecoderSettings
from headway.settings.training import TextTrainSettings
from headway.training.loop import Trainer
from headway.training.objectives import PredictNext
from headway.training.probe import faster_dtype
from headway.training.state import Window

CASE = "train-gpt"
V, LENGTH, ROWS = 256, 256, 16
BATCHES = 4  # a turn; the same ones in each
CHECKED, TOLERANCE = 5, 1e-4
DROPOUTS = (0.0, 0.2)
DTYPES = ("float32", "bfloat16")
SIZES: dict[str, int] = {"n_layers": 6, "n_heads": 6, "d_model": 384}
RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0
Step = Callable[[Tensor, Tensor], float]
"""One step on ids and what follows each (B, T): the loss."""


class Given:
    """The text and the model that all begin with."""

    def __init__(self, dropout: float) -> None:
        text = b"\n".join(text.encode("utf-8") for _, text in stdlib_documents())[: 2**22]
        one = EncodedSide.of([list(text)])  # a single document, so that there are no borders
        self.batches = PackedBatches(
            [Packing(one, LENGTH, seed=None)], [1.0], ROWS * LENGTH, seed=1, pad=0
        )
        self.dropout = dropout
        self.settings = DecoderSettings(
            **SIZES,
            d_feed_forward=4 * SIZES["d_model"],
            max_length=LENGTH,
            order="pre",
            feed_forward="gelu",
            positions="learned",
            tie="output",
            dropout=dropout,
        )

    def model(self) -> Decoder:
        """Ours with its first weights."""
        return build_decoder(self.settings, n_tokens=V, seed=1)

    def trainer(self, dtype: str) -> Trainer:
        """Our trainer, at step 0."""
        train = TextTrainSettings(
            steps=100_000,
            batch_tokens=ROWS * LENGTH,
            learning_rate=RATE,
            schedule="constant",
            warmup=0,
            betas=list(BETAS),
            weight_decay=DECAY,
            clip=CLIP,
            dtype=dtype,
        )
        device = torch.device("cpu")
        return Trainer(self.model(), train, self.batches, PredictNext(0.0), seed=1, device=device)

    def tensors(self, n: int) -> list[tuple[Tensor, Tensor]]:
        """The first batches."""
        made = (self.batches.batch(0, rows) for rows in self.batches.epoch(0)[:n])
        return [(batch.ids, batch.following) for batch in made]


def ours(given: Given) -> Work:
    """As `headway train` does it: pages kept, the dtype that is measured to be faster."""
    keep_pages()
    with tempfile.TemporaryDirectory() as cache:  # measured now, not remembered
        os.environ["XDG_CACHE_HOME"] = cache
        dtype = faster_dtype(given.trainer("auto"))
    trainer = given.trainer(dtype)

    def work() -> tuple[float, dict[str, Any]]:
        return BATCHES * ROWS * LENGTH, {"dtype": dtype, "loss": _our_loss(given, trainer, BATCHES)}

    return work


def _our_loss(given: Given, trainer: Trainer, n: int) -> float:
    feed = iter([(0, 0, rows) for rows in given.batches.epoch(0)[:n]])
    trainer.state.window = Window()
    for _ in range(n):
        trainer.advance(feed)
    return trainer.state.window.nll / trainer.state.window.targets


def _looped(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], dtype: str) -> Step:
    """The ordinary loop."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, betas=BETAS, weight_decay=DECAY, fused=True
    )
    return _step(model, optimizer, loss, dtype)


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor, Tensor], Tensor],
    dtype: str,
) -> Step:
    def step(ids: Tensor, following: Tensor) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            found = loss(ids, following)
        found.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(found.item())

    return step


def nanogpt(given: Given, dtype: str) -> Step:
    """nanoGPT's model, its optimiser and its loop."""
    module = _nanogpt_file()
    config = module.GPTConfig(
        block_size=LENGTH,
        vocab_size=V,
        n_layer=SIZES["n_layers"],
        n_head=SIZES["n_heads"],
        n_embd=SIZES["d_model"],
        dropout=given.dropout,
        bias=True,
    )
    model = module.GPT(config)
    _copy(given.model(), model)
    optimizer = model.configure_optimizers(DECAY, RATE, BETAS, "cpu")
    return _step(model.train(), optimizer, lambda ids, following: model(ids, following)[1], dtype)


def _nanogpt_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "nanogpt", Path(os.environ["NANOGPT"], "model.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt"] = module
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def _copy(mine: Decoder, theirs: Any) -> None:
    body = theirs.transformer
    body.wte.weight.copy_(mine.embedding.tokens.weight)
    body.wpe.weight.copy_(mine.embedding.positions.weight)  # type: ignore[union-attr,arg-type]
    pairs = [(mine.stack.final_norm, body.ln_f)]
    for block, layer in zip(mine.stack.layers, body.h, strict=True):
        own: Any = block
        ways = (own.attention.to_query, own.attention.to_key, own.attention.to_value)
        layer.attn.c_attn.weight.copy_(torch.cat([way.weight for way in ways]))
        layer.attn.c_attn.bias.copy_(torch.cat([way.bias for way in ways]))
        pairs += [
            (own.attention.to_output, layer.attn.c_proj),
            (own.around_attention.norm, layer.ln_1),
            (own.around_feed_forward.norm, layer.ln_2),
            (own.feed_forward.up, layer.mlp.c_fc),
            (own.feed_forward.down, layer.mlp.c_proj),
        ]
    for part, copy in pairs:
        copy.weight.copy_(part.weight)
        copy.bias.copy_(part.bias)


def litgpt(given: Given, dtype: str) -> Step:
    """litgpt's model with the loss that its pretraining computes."""
    from litgpt.model import GPT, Config
    from litgpt.utils import chunked_cross_entropy

    config = Config(
        block_size=LENGTH,
        vocab_size=V,
        padded_vocab_size=V,
        n_layer=SIZES["n_layers"],
        n_head=SIZES["n_heads"],
        n_embd=SIZES["d_model"],
        intermediate_size=4 * SIZES["d_model"],
        norm_class_name="LayerNorm",
        mlp_class_name="GptNeoxMLP",
        parallel_residual=False,
        bias=True,
    )
    model = GPT(config).train()
    return _looped(model, lambda ids, next: chunked_cross_entropy(model(ids), next), dtype)


def trainer(given: Given, dtype: str) -> Work:
    """transformers' GPT-2 with its Trainer."""
    from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
    from transformers import Trainer as Theirs

    config = GPT2Config(
        vocab_size=V,
        n_positions=LENGTH,
        n_layer=SIZES["n_layers"],
        n_head=SIZES["n_heads"],
        n_embd=SIZES["d_model"],
        activation_function="gelu",
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), given.dropout),
    )
    model = GPT2LMHeadModel(config)
    data = [{"input_ids": row, "labels": row} for ids, _ in given.tensors(BATCHES) for row in ids]
    folder = tempfile.mkdtemp()

    def work() -> tuple[float, dict[str, Any]]:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=BATCHES,
            per_device_train_batch_size=ROWS,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=DECAY,
            adam_beta1=BETAS[0],
            adam_beta2=BETAS[1],
            max_grad_norm=CLIP,
            bf16=dtype == "bfloat16",
            use_cpu=True,
            save_strategy="no",
            logging_steps=10_000,
            report_to="none",
            disable_tqdm=True,
        )
        found = Theirs(model=model, args=settings, train_dataset=data).train()
        return BATCHES * ROWS * LENGTH, {"dtype": dtype, "loss": found.training_loss}

    return work


def _work(given: Given, step: Step) -> Work:
    batches = [(ids, following.clone()) for ids, following in given.tensors(BATCHES)]

    def work() -> tuple[float, dict[str, Any]]:
        losses = [step(*batch) for batch in batches]
        return BATCHES * ROWS * LENGTH, {"loss": float(np.mean(losses))}

    return work


PEERS: dict[str, Callable[[Given, str], Work]] = {
    "nanoGPT": lambda given, dtype: _work(given, nanogpt(given, dtype)),
    "transformers Trainer": trainer,
    "litgpt": lambda given, dtype: _work(given, litgpt(given, dtype)),
}


def absent() -> dict[str, str]:
    """Peers that are not here, and why."""
    found = {}
    if not Path(os.environ.get("NANOGPT", ""), "model.py").is_file() or "NANOGPT" not in os.environ:
        found["nanoGPT"] = "NANOGPT names no folder with its model.py"
    if find_spec("litgpt") is None:
        found["litgpt"] = "litgpt is not installed"
    return found


def losses() -> dict[str, list[float]]:
    """Loss of each of the first steps, ours and nanoGPT's, in float32 without dropout."""
    given = Given(0.0)
    mine, step = given.trainer("float32"), nanogpt(given, "float32")
    feed = given.batches.epoch(0)[:CHECKED]
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for rows, (ids, following) in zip(feed, given.tensors(CHECKED), strict=True):
        mine.state.window = Window()
        mine.advance(iter([(0, 0, rows)]))
        found["ours"].append(mine.state.window.nll / mine.state.window.targets)
        found["theirs"].append(step(ids, following))
    return found


def rows(rounds: int) -> list[Row]:
    """Tokens a second and memory against each peer in its better dtype; losses beside nanoGPT's."""
    gone = absent()
    found: list[Row] = [{"case": CASE, "peer": peer, "reason": why} for peer, why in gone.items()]
    peers = [peer for peer in PEERS if peer not in gone]
    for dropout in DROPOUTS:
        names = [f"{peer}+{dtype}" for peer in peers for dtype in DTYPES]
        commands = {name: _command(name, dropout) for name in ("ours", *names)}
        turns = contest(commands, rounds=rounds)
        for peer in peers:
            rates = {d: median(turn.rate for turn in turns[f"{peer}+{d}"]) for d in DTYPES}
            better = max(rates, key=lambda dtype: rates[dtype])
            mine, other = turns["ours"], turns[f"{peer}+{better}"]
            about = {"case": f"{CASE}-dropout-{dropout}", "peer": f"{peer}, {better}"}
            speed = speed_row(mine, other) | {"ours_dtype": mine[-1].told["dtype"]}
            speed["theirs_by_dtype"] = {dtype: round(rate, 1) for dtype, rate in rates.items()}
            speed["losses_of_last_round"] = [round(t[-1].told["loss"], 4) for t in (mine, other)]
            found.append(about | {"measure": "tokens a second"} | speed)
            found.append(about | {"measure": "largest memory of the process, MiB"})
            found[-1] |= memory_row(mine, other)
    if "nanoGPT" not in gone:
        told = once(_command("losses", 0.0))
        pairs = list(zip(told["ours"], told["theirs"], strict=True))
        apart = max(abs(one - other) / other for one, other in pairs)
        about = {"case": CASE, "peer": "nanoGPT"}
        about |= {"measure": f"loss of step {CHECKED}, float32, no dropout"}
        values = {
            "ours": pairs[-1][0],
            "theirs": pairs[-1][1],
            "ratio": pairs[-1][0] / pairs[-1][1],
        }
        found.append(about | values | {"largest_relative_difference": apart})
        found[-1]["agrees"] = apart < TOLERANCE
    return found


def _command(name: str, dropout: float) -> list[str]:
    return [sys.executable, __file__, "--as", name, "--dropout", str(dropout)]


def main() -> None:
    """Be one of the contenders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", required=True)
    parser.add_argument("--dropout", type=float, default=0.0)
    arguments = parser.parse_args()

    def prepare() -> Work:
        if arguments.name == "losses":
            return lambda: (0.0, losses())
        given = Given(arguments.dropout)
        if arguments.name == "ours":
            return ours(given)
        peer, _, dtype = arguments.name.partition("+")
        return PEERS[peer](given, dtype)

    serve(prepare)


if __name__ == "__main__":
    main()
