"""Training on several ranks in the short form."""

from __future__ import annotations

from typing import Any

from oneflow.dialect.sbp import B, S
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.global_tensor import to_global
from oneflow.frontend.nn.module import Module
from oneflow.runtime.global_array import Placement


class DistributedDataParallel(Module):
    """Data parallelism: parameters are replicated on every rank, arguments are split along the batch.

    All ranks pass the same whole batch; targets of the loss should be split like the batch (`to_global`). Results and
    their gradients stay split along the batch, so that gradients of parameters are sums over ranks and no activations
    move. Losses and gradients belong to the whole batch: the compiled program sums over ranks. The module is called
    within functions of `flow.compile` or `nn.Graph`.

    Args:
        module: the module; its parameters become global tensors with the values of rank 0.
        placement: the ranks, along one axis; None for all of the job.
    """

    def __init__(self, module: Module, placement: Placement | None = None) -> None:
        super().__init__()
        self.placement = Placement.all() if placement is None else placement
        if len(self.placement.mesh) != 1:
            raise ValueError(f"expected ranks along one axis for data parallelism, got {self.placement}")
        self.module = module.to_global(self.placement, B)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module, on shards of the tensors among its arguments."""
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.rank]
        results = self.module(*map(self._split, args), **{k: self._split(v) for k, v in kwargs.items()})
        batches = {x.shape[0] for x in tensors}
        leaves, tree = flatten(results)
        return tree.unflatten([self._keep_batch_split(x, batches) for x in leaves])

    def _split(self, value: Any) -> Any:
        return to_global(value, self.placement, S(0)) if isinstance(value, Tensor) and value.rank else value

    def _keep_batch_split(self, value: Any, batches: set[Any]) -> Any:
        """A result split along the batch; its gradient is split in the same way, so that no activations move."""
        if not isinstance(value, Tensor) or not value.rank or value.shape[0] not in batches:
            return value
        return to_global(value, self.placement, S(0), grad_sbp=S(0))
