"""The peers of train-gpt: each its own model, optimiser and loop, built once before its turns."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import numpy as np
import torch
from contest import Work
from gpt_setting import BATCHES, BETAS, CLIP, DECAY, LENGTH, RATE, ROWS, SIZES, Given, V
from torch import Tensor, nn

from headway.models.decoder import Decoder

Step = Callable[[Tensor, Tensor], float]
"""One step on ids and what follows each (B, T): the loss."""


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


class _Turns:
    """A training of theirs that is held still between turns of `BATCHES` steps.

    So a turn is what it is for the others: steps of a training that was made once and is warm.
    """

    def __init__(self, made: Any) -> None:
        from transformers import TrainerCallback

        self.asked, self.losses = threading.Semaphore(0), SimpleQueue[float | BaseException]()
        turns = self

        class Held(TrainerCallback):
            def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if state.global_step % BATCHES == 0:
                    turns.asked.acquire()

            def on_log(
                self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any
            ) -> None:
                if "loss" in logs:  # the mean of `logging_steps` steps, after the last of them
                    turns.losses.put(float(logs["loss"]))

        made.add_callback(Held)
        self.made = made
        threading.Thread(target=self._train, daemon=True).start()

    def _train(self) -> None:
        try:
            self.made.train()
            self.losses.put(RuntimeError("the Trainer has come to its end"))
        except BaseException as error:  # it is raised where the turn is waited for
            self.losses.put(error)

    def one(self) -> float:
        """The loss of the next steps, once they are made."""
        self.asked.release()
        found = self.losses.get()
        if isinstance(found, BaseException):
            raise found
        return found


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
    settings = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=1_000_000,
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
        logging_steps=BATCHES,
        report_to="none",
        disable_tqdm=True,
    )
    data = [{"input_ids": row, "labels": row} for ids, _ in given.tensors(BATCHES) for row in ids]
    turns = _Turns(Theirs(model=GPT2LMHeadModel(config), args=settings, train_dataset=data))
    return lambda: (BATCHES * ROWS * LENGTH, {"dtype": dtype, "loss": turns.one()})


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
IMPORTED = {
    "transformers Trainer": ("transformers", "accelerate"),
    "litgpt": ("litgpt", "lightning"),
}
WITHOUT_DROPOUT = ("litgpt",)


def absent() -> dict[str, str]:
    """Peers that are not here, and why."""
    found = {}
    if not Path(os.environ.get("NANOGPT", ""), "model.py").is_file() or "NANOGPT" not in os.environ:
        found["nanoGPT"] = "NANOGPT names no folder with its model.py"
    for peer, modules in IMPORTED.items():
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            found[peer] = f"{' and '.join(missing)}: not installed"
    return found
