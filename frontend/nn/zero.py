"""ZeRO: replicated parameters, their gradients and the states of optimizers are sharded over the ranks.

A graph splits the parameters of its optimizers before a call. In the program, the computation reads each parameter in
its layout before the split; the optimizers update the shards. Each stage adds to the stages before it:

    1   parameters and states of optimizers are split between calls; a call gathers each parameter once
    2   gradients are split when they are computed, so that gradients of parts of a batch are added up as shards
    3   a parameter is gathered again for the backward pass, so that no whole parameter is kept until then

Reference: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from oneflow.dialect.nd_sbp import Mesh, NdSbp
from oneflow.dialect.sbp import B, S
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import Leaf, enable_grad, no_grad
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.global_tensor import to_global
from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.tracing.activation_checkpointing import unsaved
from oneflow.frontend.tracing.builder import TraceBuilder
from oneflow.frontend.tracing.capture import layout_of
from oneflow.runtime.global_array import Placement


class ZeroOptions(NamedTuple):
    """The options of ZeRO.

    Attributes:
        stage: what is split, 1 to 3.
        shard_min_size: the least number of elements of a shard; parameters with smaller shards stay whole.
        restores: whether the computation reads parameters in their layouts before the split, else in any layout.
    """

    stage: int = 1
    shard_min_size: int = 1
    restores: bool = True


@dataclass(frozen=True)
class Split:
    """The split of a parameter: the placement, the layout before the split, and the layout since."""

    placement: Placement
    whole: NdSbp
    shards: NdSbp


#: The splits of parameters.
_splits: WeakKeyDictionary[Leaf, Split] = WeakKeyDictionary()


def split_of(p: EagerTensor) -> Split | None:
    """The split of a parameter that still has the layout of the split, else None."""
    split = None if p.variable.leaf is None else _splits.get(p.variable.leaf)
    return split if split is not None and layout_of(p) == (split.placement, split.shards) else None


def split_parameters(optimizers: Sequence[Optimizer], options: ZeroOptions) -> None:
    """Shards the replicated parameters, and the states of the optimizers that have these parameters."""
    for optimizer in optimizers:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        found = [(p, split) for p in parameters if (split := _new_split(p, options)) is not None]
        for p, split in found:
            with no_grad():
                p.data = to_global(p.detach(), split.placement, split.shards)
            _splits[p.variable.leaf] = split
        if found:
            optimizer.follow_layouts()


def gathered_parameters(
    builder: TraceBuilder, parameters: Iterable[EagerTensor], options: ZeroOptions, after: Tensor | None
) -> list[tuple[EagerTensor, Tensor]]:
    """The parameters that are split, with the tensors that the computation reads in place of the shards.

    At stage 3, the parameters are gathered after the tensor `after`, so that two computations share no gathered
    parameter.
    """
    found = ((p, split_of(p)) for p in {id(p): p for p in parameters}.values())
    return [(p, _gathered(builder, p, split, options, after)) for p, split in found if split is not None]


def _gathered(
    builder: TraceBuilder, p: EagerTensor, split: Split, options: ZeroOptions, after: Tensor | None
) -> Tensor:
    """A split parameter in the layout that the computation reads; its gradient is split from stage 2 on."""
    nd = split.whole if options.restores else split.shards
    grad_sbp = split.shards if options.stage >= 2 else None

    def gather(shards: Tensor) -> Tensor:
        later = shards if after is None else dispatch("depend", shards, after)
        return to_global(later, split.placement, nd, grad_sbp=grad_sbp)

    with enable_grad():
        if options.stage < 3:
            return to_global(p, split.placement, nd, grad_sbp=grad_sbp)
        gathered: Tensor = unsaved(builder, gather, p)
        return gathered


def _new_split(p: EagerTensor, options: ZeroOptions) -> Split | None:
    """The split of a parameter; None for a parameter that is not replicated or has too few elements."""
    layout: Any = layout_of(p) if p.requires_grad else None
    if layout is None:
        return None
    placement, nd = layout
    shards = split_layout(nd, placement.mesh)
    if shards is None or _shard_size(p.shape, shards, placement.mesh) < options.shard_min_size:
        return None
    return Split(placement, nd, shards)


def split_layout(nd: NdSbp, mesh: Mesh) -> NdSbp | None:
    """A layout with one broadcast replaced by a split, None for a layout without one to replace.

    A whole tensor is split along its first dimension over the last mesh axis of several ranks. A tensor that is split
    over one mesh axis is split along the same dimension over an axis next to that.
    """
    several = [i for i, size in enumerate(mesh) if size > 1]
    if all(s == B for s in nd):
        at, axis = (several[-1], 0) if several else (None, 0)
    else:
        pairs = ((i, nd[j].axis) for i in several if nd[i] == B for j in (i - 1, i + 1) if 0 <= j < len(nd))
        at, axis = next(((i, a) for i, a in pairs if a is not None), (None, 0))
    return None if at is None else (*nd[:at], S(axis), *nd[at + 1 :])


def _shard_size(shape: Sequence[int], nd: NdSbp, mesh: Mesh) -> int:
    """The elements of the smallest shard; 0 for a tensor without the dimension that is split."""
    sizes = list(shape)
    for sbp, ranks in zip(nd, mesh, strict=True):
        if sbp.axis is not None:
            if sbp.axis >= len(sizes):
                return 0
            sizes[sbp.axis] //= ranks
    return math.prod(sizes)
