"""Optimizers of train jobs: `flow.optimizer`.

    schedule = flow.optimizer.PiecewiseConstantScheduler([100], [0.1, 0.01])
    flow.optimizer.SGD(schedule, momentum=0).minimize(loss)

These are the optimizers of `flow.optim` on the variables of the job, for the mean of the loss.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import mean
from oneflow.frontend.methods.backward import backward
from oneflow.frontend.oneflow_v0.jobs import current_job
from oneflow.frontend.optim import algorithms
from oneflow.frontend.optim.optimizer import Optimizer

#: A function from the number of a run to its learning rate.
Schedule = Callable[[int], float]


class JobOptimizer:
    """An optimizer of a train job: `minimize(loss)` in its function."""

    def __init__(self, schedule: Schedule | float, make: Callable[..., Optimizer], **numbers: Any) -> None:
        self.schedule: Schedule = schedule if callable(schedule) else constant(schedule)
        self._make, self._numbers = make, numbers
        self._base: Optimizer | None = None
        self.count = 0

    def minimize(self, loss: Tensor, variables: Sequence[str] | None = None) -> None:
        """Updates the variables of the job, or the named ones, after each run, to minimize the mean of the loss.

        Raises:
            CallError: the call is outside of a train job, or the job has no variables.
        """
        job = current_job("minimize")
        if job.type != "train":
            raise CallError('minimize is for jobs of type="train", got one of type="predict"')
        chosen = [v for n, v in job.variables.items() if v.requires_grad and (variables is None or n in variables)]
        if not chosen:
            raise CallError("minimize: expected the job to have variables (flow.get_variable), got none")
        job.optimizer(self).step(loss, chosen)

    def step(self, loss: Tensor, variables: Sequence[Any]) -> None:
        """Traces one update."""
        if self._base is None:
            self._base = self._make(list(variables), lr=self.schedule(0), **self._numbers)
        backward([mean(loss)])
        self._base.step()
        for v in variables:
            v.grad = None

    def set_rate(self) -> None:
        """Sets the learning rate of the next run."""
        assert self._base is not None
        for group in self._base.param_groups:
            group["lr"] = self.schedule(self.count)


def SGD(lr_scheduler: Schedule | float, *, momentum: float = 0.9) -> JobOptimizer:  # noqa: N802
    """Stochastic gradient descent with momentum."""
    return JobOptimizer(lr_scheduler, algorithms.SGD, momentum=momentum)


def Adam(  # noqa: N802
    lr_scheduler: Schedule | float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
) -> JobOptimizer:
    """Adam, with bias correction."""
    return JobOptimizer(lr_scheduler, algorithms.Adam, betas=(beta1, beta2), eps=epsilon)


def AdamW(  # noqa: N802
    lr_scheduler: Schedule | float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> JobOptimizer:
    """Adam with decoupled weight decay."""
    return JobOptimizer(lr_scheduler, algorithms.AdamW, betas=(beta1, beta2), eps=epsilon, weight_decay=weight_decay)


def constant(rate: float) -> Schedule:
    """The same learning rate at every run."""
    return lambda run: rate


def PiecewiseConstantScheduler(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:  # noqa: N802
    """`values[0]` before run `boundaries[0]`, then `values[1]` before run `boundaries[1]`, and so on.

    Raises:
        CallError: the number of values is not the number of boundaries plus 1.
    """
    if len(values) != len(boundaries) + 1:
        raise CallError(f"expected {len(boundaries) + 1} values for {len(boundaries)} boundaries, got {len(values)}")
    return lambda run: values[bisect.bisect_right(boundaries, run)]


def CosineScheduler(base_lr: float, steps: int, alpha: float = 0.0) -> Schedule:  # noqa: N802
    """From `base_lr` down to `alpha * base_lr` in `steps` runs, along half a cosine."""

    def rate(run: int) -> float:
        done = min(run, steps) / steps
        return base_lr * (alpha + (1 - alpha) * (1 + math.cos(math.pi * done)) / 2)

    return rate
