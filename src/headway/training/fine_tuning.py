"""What fine-tuning adds to a training: the loss of labels, frozen weights, low-rank updates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.base.errors import UserError, unknown
from headway.batches.by_length import LabelBatch
from headway.models.decoder import Decoder
from headway.models.encoder import Classifier
from headway.nn.dropout import Noise
from headway.nn.stack import stacks_of
from headway.settings.training import FineTuneSettings, LoraSettings, TrainSettings
from headway.training.losses import TokenLoss
from headway.training.objectives import Losses, autocast

DOWN, UP = "down_update", "up_update"


class PredictLabel:
    """The label of each row: its class by cross-entropy, or a number by squared error."""

    def __init__(self, smoothing: float, *, regression: bool) -> None:
        self.smoothing, self.regression = smoothing, regression

    def __call__(
        self, model: Classifier, batch: LabelBatch, noise: Noise | None, dtype: str
    ) -> Losses:
        """The loss of all rows of a batch."""
        with autocast(batch.ids.device, dtype):
            outputs = model(batch.ids, batch.real, batch.segments, noise)
        return {"row": label_loss(outputs, batch.labels, self.smoothing, self.regression)}


def label_loss(outputs: Tensor, labels: Tensor, smoothing: float, regression: bool) -> TokenLoss:
    """Sums over N rows of a classifier's outputs (N, classes), or (N, 1) for a regression.

    The plain loss of a regression is its squared error.
    """
    outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    if regression:
        error = F.mse_loss(outputs[:, 0], labels.to(outputs.dtype), reduction="sum")
        return TokenLoss(error, error.detach())
    nll = F.cross_entropy(outputs, labels, reduction="sum")
    if not smoothing:
        return TokenLoss(nll, nll.detach())
    smooth = F.cross_entropy(outputs, labels, reduction="sum", label_smoothing=smoothing)
    return TokenLoss(smooth, nll.detach())


class LowRankLinear(nn.Linear):
    """W x + b + (α / r) B A x with W and b as they were (Hu et al., 2022, section 4.1).

    B begins as 0, so that nothing changes at first.
    """

    def __init__(self, base: nn.Linear, settings: LoraSettings) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.scale = settings.alpha / settings.rank
        down = base.weight.new_empty(settings.rank, base.in_features)
        up = base.weight.new_zeros(base.out_features, settings.rank)
        nn.init.kaiming_uniform_(down, a=math.sqrt(5))
        self.register_parameter(DOWN, nn.Parameter(down))  # A
        self.register_parameter(UP, nn.Parameter(up))  # B

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        narrow = F.linear(hidden, self.get_parameter(DOWN))
        update = F.linear(narrow, self.get_parameter(UP)) * self.scale
        return F.linear(hidden, self.weight, self.bias) + update


def adapt(model: nn.Module, settings: TrainSettings, *, seed: int) -> None:
    """Make a model one that is trained as the settings say; to be called once.

    Raises UserError for names of weights or layers that the model does not have, and if nothing
    were left to be trained.
    """
    for stack in stacks_of(model):
        stack.recomputes = settings.checkpoint_activations
        stack.compiles = settings.compile is True
    if not isinstance(settings, FineTuneSettings):
        return
    if settings.lora is not None:
        _add_updates(model, settings.lora, seed)
    for beginning in settings.freeze:
        _freeze(model, beginning)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise UserError("all weights are frozen: there is nothing to train", where="train.freeze")


def plain_weights(tensors: Mapping[str, Tensor], settings: TrainSettings) -> dict[str, Tensor]:
    """Weights under the names of a model without low-rank updates, these added to them."""
    found = {name: tensor for name, tensor in tensors.items() if not name.endswith((DOWN, UP))}
    lora = settings.lora if isinstance(settings, FineTuneSettings) else None
    for name in tensors:
        if lora is not None and name.endswith(UP):
            layer = name.removesuffix(UP)
            update = tensors[name].detach() @ tensors[layer + DOWN].detach()
            found[f"{layer}weight"] = found[f"{layer}weight"] + update * (lora.alpha / lora.rank)
    return found


def _add_updates(model: nn.Module, settings: LoraSettings, seed: int) -> None:
    # of a decoder's output the loss takes the weights and does not call the layer
    output = model.head if isinstance(model, Decoder) else None
    layers = {
        name: each
        for name, each in model.named_modules()
        if isinstance(each, nn.Linear) and each is not output
    }
    ends = {name.rpartition(".")[2] for name in layers}
    for end in settings.layers:
        if not any(f".{name}".endswith(f".{end}") for name in layers):
            raise unknown("linear layer", end, ends, where="train.lora.layers")
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        for name, layer in layers.items():
            if any(f".{name}".endswith(f".{end}") for end in settings.layers):
                owner, _, last = name.rpartition(".")
                setattr(model.get_submodule(owner), last, LowRankLinear(layer, settings))
    if isinstance(model, Classifier):  # what reads the pooled state is new
        model.head.requires_grad_(True)
        if model.encoder.pooler is not None:
            model.encoder.pooler.requires_grad_(True)


def _freeze(model: nn.Module, beginning: str) -> None:
    found = [
        weight
        for name, weight in model.named_parameters()
        if f"{name}.".startswith(f"{beginning}.") or name == beginning
    ]
    if not found:
        names = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
        raise unknown("weights", beginning, names, where="train.freeze")
    for weight in found:
        weight.requires_grad_(False)
