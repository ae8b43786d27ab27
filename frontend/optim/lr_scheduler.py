"""Schedules of the learning rate: `step()` after each epoch or step sets `lr` of every group.

The rate is a function of the number of steps taken, so a schedule that is restored goes on exactly. Imports
`optimizer`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.optim.optimizer import Optimizer


class LRScheduler:
    """The base of schedules: `rate(base, epoch)` is the rate after `epoch` steps of a group that began with `base`.

    `last_epoch` -1 starts anew; another number goes on after that many steps, from the groups' `initial_lr`.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, max(last_epoch, 0)
        for group in optimizer.param_groups:
            if last_epoch < 0:
                group["initial_lr"] = group["lr"]
            elif "initial_lr" not in group:
                raise ValueError("expected initial_lr in every group to go on after last_epoch")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._set()

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of group `number` after `epoch` steps."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method rate")

    def step(self) -> None:
        """Goes one step on."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates(self.last_epoch), strict=True):
            group["lr"] = rate

    def rates(self, epoch: int) -> list[float]:
        """The rates of all groups after `epoch` steps."""
        return [self.rate(base, epoch, i) for i, base in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[float]:
        """The rates that are set."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state."""
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._set()


class LambdaLR(LRScheduler):
    """The first rate times a function of the number of steps; one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(f"expected one function per group ({count}), got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        return base * self.lr_lambdas[number](epoch)


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        return base * float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        return base * float(self.gamma ** sum(m <= epoch for m in self.milestones))


class ExponentialLR(LRScheduler):
    """The rate times `gamma` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        return base * float(self.gamma**epoch)


class CosineAnnealingLR(LRScheduler):
    """From the first rate to `eta_min` in `T_max` steps along half a cosine, and back."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 (PyTorch's name)
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.period, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.period)) / 2


class LinearLR(LRScheduler):
    """The first rate times a factor that goes evenly from `start_factor` to `end_factor` in `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.ends, self.total_iters = (start_factor, end_factor), total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.ends[0] + (self.ends[1] - self.ends[0]) * share)


class WarmupLR(LRScheduler):
    """A rate that rises to that of another schedule, or to the first one, in `warmup_iters` steps.

    It begins with `warmup_factor` of what it rises to; `warmup_method` is "linear" or "constant". The other schedule
    runs along from its own start.
    """

    def __init__(
        self,
        scheduler_or_optimizer: LRScheduler | Optimizer,
        warmup_factor: float = 1 / 3,
        warmup_iters: int = 5,
        warmup_method: str = "linear",
        last_epoch: int = -1,
    ) -> None:
        if warmup_method not in ("linear", "constant"):
            raise ValueError(f'expected warmup_method to be "linear" or "constant", got {warmup_method!r}')
        self.factor, self.warmup_iters, self.method = warmup_factor, warmup_iters, warmup_method
        self.after: LRScheduler | None = None
        if isinstance(scheduler_or_optimizer, Optimizer):
            super().__init__(scheduler_or_optimizer, last_epoch)
            return
        self.after = scheduler_or_optimizer
        for group, base in zip(self.after.optimizer.param_groups, self.after.base_lrs, strict=True):
            group["lr"] = base
        super().__init__(self.after.optimizer, last_epoch)

    def rate(self, base: float, epoch: int, number: int) -> float:
        """The rate of a group."""
        goal = base if self.after is None else self.after.rate(base, epoch, number)
        if epoch >= self.warmup_iters:
            return goal
        linear = self.factor + (1 - self.factor) * epoch / self.warmup_iters
        return goal * (linear if self.method == "linear" else self.factor)
