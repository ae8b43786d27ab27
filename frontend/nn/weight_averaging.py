"""Averages of the parameters of a model during training: `AveragedModel`, `update_bn`.

Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.nn.layers import _BatchNorm
from oneflow.frontend.nn.module import Module


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's parameters at the calls of `update_parameters`.

    The buffer `n_averaged` is the number of calls.

    Args:
        device: the device of the copy; by default its tensors stay where they are.
        avg_fn: the new average from the average, the parameter and the number of averaged parameters; by default all
            parameters have equal weights.
        use_buffers: whether buffers are averaged like parameters; otherwise the copy has the model's newest buffers.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", wrapped(np.zeros([], np.int64)))
        if device is not None:
            self.to(device)
        self.avg_fn = _equally_weighted if avg_fn is None else avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the copy."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> Iterator[Any]:
        """The tensors of a model that are averaged."""
        return itertools.chain(model.parameters(), model.buffers() if self.use_buffers else ())

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Adds the parameters of `model` to the averages; the first parameters are the averages."""
        count = int(self.n_averaged.item())
        for average, newest in zip(self._averaged(self.module), self._averaged(model), strict=True):
            newest = newest.detach().to(average.device)
            average.copy_(self.avg_fn(average.detach(), newest, self.n_averaged) if count else newest)
        if not self.use_buffers:
            for buffer, newest in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.copy_(newest.detach().to(buffer.device))
        self.n_averaged.add_(1)


def _equally_weighted(average: Any, newest: Any, count: Any) -> Any:
    return average + (newest - average) / (count.to(average.device) + 1)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Replaces the running statistics of batch norms of a model by averages over the batches of `loader`, with equal
    weights. A batch is the argument of the model, or a list or tuple that begins with it.

    Args:
        device: the device that batches are moved to; by default batches stay where they are.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
    if not norms:
        return
    was_training, momenta = model.training, [norm.momentum for norm in norms]
    for norm in norms:
        norm.running_mean.zero_()
        norm.running_var.fill_(1)
        norm.num_batches_tracked.zero_()
        norm.momentum = None
    model.train()
    for batch in loader:
        first = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(first if device is None else first.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)
