"""Processes that train one model together: who they are, what they agree on, how they wait."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headway.base.errors import UserError
from headway.base.runtime import launched
from headway.nn.block import Block
from headway.training.objectives import Losses

ANSWER = datetime.timedelta(minutes=10)  # in which every rank must come to what all do together
_EVALUATION = datetime.timedelta(days=20)  # the first rank's own work can take any time
_LOST = re.compile(r"gloo|nccl|connection (closed|reset)|timed? ?out|broken pipe|socket", re.I)


@dataclass(frozen=True)
class Ranks:
    """This process among the `size` that train together; the first one writes and speaks.

    `patient` is the group in which the others wait for the first one's own work.
    """

    rank: int = 0
    size: int = 1
    patient: Any = None

    @property
    def leads(self) -> bool:
        """Whether this is the first."""
        return self.rank == 0

    def total(self, values: Sequence[float]) -> list[float]:
        """The sums over all ranks of each value."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def most(self, value: int) -> int:
        """The largest that any rank gives."""
        return int(self._reduced([value], dist.ReduceOp.MAX)[0])

    def told(self, values: Sequence[float]) -> list[float]:
        """What the first rank gives, as many on each; it is waited for as long as it takes."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(tensor, 0, group=self.patient)
        found: list[float] = tensor.tolist()
        return found

    def wait(self) -> None:
        """Until all have come here, as long as it takes."""
        if self.size > 1:
            dist.barrier(group=self.patient)

    def agree(self, digest: str, what: str) -> None:
        """Raise UserError unless all ranks have this SHA-256 of `what`."""
        self.wait()  # some machines read more slowly
        number = int(digest[:12], 16)  # as float64 holds it
        if [self.most(number), -self.most(-number)] != [number, number]:
            raise UserError(
                f"the ranks have read different {what}",
                todo="give each machine the same files and the same version of headway",
            )

    def deal(self, n: int) -> list[tuple[int, int, int]]:
        """Which of a step's `n` batches this rank has: (batch, part, parts), rows `part::parts`.

        Batches are dealt whole as far as the ranks divide them, and split by rows beyond that: so
        each rank has as many as the others.
        """
        groups = math.gcd(n, self.size)
        part, parts = self.rank // groups, self.size // groups
        return [(batch, part, parts) for batch in range(self.rank % groups, n, groups)]

    def _reduced(self, values: Sequence[float], operation: Any) -> list[float]:
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, operation)
        found: list[float] = tensor.tolist()
        return found


ALONE = Ranks()


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[tuple[Ranks, torch.device]]:
    """The ranks that torchrun started, this one among them, and the device that is its own.

    Without torchrun this process is alone. Raises UserError if there are more ranks than GPUs, and
    where another rank has ended or does not answer in time.
    """
    rank, size, local = launched()
    if size == 1:
        yield ALONE, device
        return
    device = _own(device, local)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        with _explained():
            dist.init_process_group(backend, timeout=ANSWER, rank=rank, world_size=size)
            patient = dist.new_group(backend="gloo", timeout=_EVALUATION)
            yield Ranks(rank, size, patient), device
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _own(device: torch.device, local: int) -> torch.device:
    if device.type == "cpu":
        return device
    if str(device) != "cuda":
        what = f"several ranks cannot share the device {device}"
        raise UserError(what, todo="use --device cpu, or --device cuda: a GPU for each rank")
    n = torch.cuda.device_count()
    if local >= n:
        what = f"this machine has {n} GPUs, and torchrun started more processes"
        raise UserError(what, todo=f"use --nproc-per-node {n}, or --device cpu")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what it means where the others are not heard of any more."""
    try:
        yield
    except RuntimeError as error:
        if not _LOST.search(str(error)):
            raise
        minutes = ANSWER.total_seconds() / 60
        raise UserError(
            f"another rank has ended, or has not answered for {minutes:g} minutes",
            todo="if it had a message, it stands above; go on from the last checkpoint with "
            "--resume",
        ) from error


class _Whole(nn.Module):
    """A model whose forward pass is a whole objective: what DDP and FSDP put their hooks on."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, objective: Callable[..., Losses], counts: Mapping[str, int], *given: Any
    ) -> Losses:
        """The losses of an objective that is given the model and the rest: those that count.

        What does not count is not given, for DDP would take it as used and make gradients of 0.
        """
        losses = objective(self.model, *given)
        return {part: loss for part, loss in losses.items() if counts[part]}


def spread(model: nn.Module, ranks: Ranks, *, shards: bool) -> nn.Module:
    """The model over ranks, called with an objective, its counts, and what it takes beside a model.

    Gradients become the sum over all ranks. Replicated (DistributedDataParallel; Li et al., 2020)
    each rank has all weights; with `shards` (FSDP2; Zhao et al., 2023) each has a part of every
    weight, its gradient and its optimiser's state, and the whole of a layer only while it is used.
    The model's own names stay.
    """
    whole = _Whole(model)
    if ranks.size == 1:
        return whole
    if shards:
        return _sharded(whole)
    # a step may ask nothing of a part of the model, such as which text follows which; most ask all,
    # of which torch would warn on every rank, were it not for one number that is never asked for
    whole.unused = nn.Parameter(next(model.parameters()).new_zeros(1))
    replicated = nn.parallel.DistributedDataParallel(whole, find_unused_parameters=True)
    replicated.register_comm_hook(None, lambda _, bucket: _summed(bucket))
    return replicated


def _summed(bucket: Any) -> torch.futures.Future[Tensor]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None, "this rank is one of them"
    found: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return found


def _sharded(whole: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    # keys and values are views, and nothing is done to them in place
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
    kind = next(whole.parameters()).device.type
    mesh = init_device_mesh(kind, (dist.get_world_size(),))
    for tensor in whole.state_dict().values():
        dist.broadcast(tensor, 0)
    for unit in _units(whole):
        fully_shard(unit, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    for module in whole.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return whole


def _units(whole: nn.Module) -> list[nn.Module]:
    """What is gathered by itself: blocks. What is called from outside its forward pass is none.

    The keys of a cross-attention are made for all layers at once, so that of such a block only the
    feed-forward layer is a unit. All the rest, and blocks that share weights, are gathered for the
    whole of a batch.
    """
    blocks = [module for module in whole.modules() if isinstance(module, Block)]
    own = [set(block.parameters()) for block in blocks]
    if len(set().union(*own)) < sum(map(len, own)):
        return []
    return [block.feed_forward if hasattr(block, "cross_attention") else block for block in blocks]


def last_sums(network: nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
    """Where replicated gradients are still being added up, ranks need not sum them yet."""
    if last or not isinstance(network, nn.parallel.DistributedDataParallel):
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[None] = network.no_sync()
    return found


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which each rank may have a part, whole: all ranks must ask."""
    full = getattr(tensor, "full_tensor", None)
    return tensor if full is None else full()


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor spread over the ranks as `like` is."""
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor), "only these are gathered"
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
