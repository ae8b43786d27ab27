"""Schedules of the learning rate: `step()` after each epoch or step sets `lr` of every group.

The rate is a function of the number of steps taken, so that a restored schedule continues exactly.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.frontend.optim.cyclic_schedulers import CyclicLR, OneCycleLR
from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.optim.schedule import LRScheduler, counted, of_groups, restarted

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CosineDecayLR", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "WarmUpLR", "WarmupLR",
]  # fmt: skip


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

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base * self.lr_lambdas[group_index](epoch)


class MultiplicativeLR(LambdaLR):
    """The rate times a function of the number of steps, at every step; one function, or one for each group."""

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base * math.prod(self.lr_lambdas[group_index](i) for i in range(1, epoch + 1))


class ConstantLR(LRScheduler):
    """The first rate times `factor`, from 0 to 1, for `total_iters` steps, then the first rate."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        _check_factor(factor, "factor")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base * self.factor if epoch < self.total_iters else base


class PolynomialLR(LRScheduler):
    """From the first rate to `end_learning_rate`: (1 - steps / total_iters)^power of the difference is left.

    `decay_batch` is OneFlow's name of `total_iters`, with which the default of `end_learning_rate` is 1e-4,
    and else 0. With `cycle` the number `total_iters` is rounded up to its next multiple when the steps reach it.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
        *,
        decay_batch: int | None = None,
        end_learning_rate: float | None = None,
        cycle: bool = False,
    ) -> None:
        self.total_iters, self.power, self.cycle = counted(decay_batch or total_iters, "total_iters"), power, cycle
        default = 0.0 if decay_batch is None else 1e-4
        self.end_learning_rate = default if end_learning_rate is None else end_learning_rate
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        total = self.total_iters * (max(-(-epoch // self.total_iters), 1) if self.cycle else 1)
        left = float((1 - min(epoch, total) / total) ** self.power)
        return (base - self.end_learning_rate) * left + self.end_learning_rate


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = counted(step_size, "step_size"), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base * float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base * float(self.gamma ** sum(m <= epoch for m in self.milestones))


class ExponentialLR(LRScheduler):
    """The rate times `gamma` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
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
        self.period, self.eta_min = counted(T_max, "T_max"), eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.period)) / 2


class CosineDecayLR(LRScheduler):
    """From the first rate to `alpha` times it in `decay_steps` steps along half a cosine, then constant."""

    def __init__(self, optimizer: Optimizer, decay_steps: int, alpha: float = 0.0, last_epoch: int = -1) -> None:
        self.decay_steps, self.alpha = counted(decay_steps, "decay_steps"), alpha
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        share = (1 + math.cos(math.pi * min(epoch / self.decay_steps, 1.0))) / 2
        return base * ((1 - self.alpha) * share + self.alpha)


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the first rate to `eta_min` along half a cosine, repeatedly from the first rate.

    A cycle has `T_0` steps, the next cycle `T_mult` times as many. The first rate is multiplied by `decay_rate` at
    each restart; after `restart_limit` restarts, if that is not 0, the rate is `eta_min`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 (PyTorch's name)
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
        *,
        decay_rate: float = 1.0,
        restart_limit: int = 0,
    ) -> None:
        self.first, self.growth, self.eta_min = counted(T_0, "T_0"), counted(T_mult, "T_mult"), eta_min
        self.decay_rate, self.restart_limit = decay_rate, restart_limit
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        period, restarts = self.first, 0
        while epoch >= period:
            epoch, period, restarts = epoch - period, period * self.growth, restarts + 1
        if self.restart_limit and restarts >= self.restart_limit:
            return self.eta_min
        highest = base * self.decay_rate**restarts
        return self.eta_min + (highest - self.eta_min) * (1 + math.cos(math.pi * epoch / period)) / 2


class SequentialLR(LRScheduler):
    """Schedules one after the other: schedule i begins after `milestones[i - 1]` steps.

    A schedule begins from its own start. If `interval_rescaling` (one flag, or one for each milestone) is false,
    the schedule is as far as after a run from the first step.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
        *,
        interval_rescaling: bool | Sequence[bool] = True,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"expected {len(schedulers) - 1} milestones between schedules, got {len(milestones)}")
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("expected schedules of the optimizer that is given, got a schedule of another optimizer")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        rescaling = interval_rescaling
        self.rescaling = [rescaling] * len(milestones) if isinstance(rescaling, bool) else list(rescaling)
        if len(self.rescaling) != len(milestones):
            raise ValueError(f"expected interval_rescaling for {len(milestones)} milestones, got {rescaling}")
        restarted(optimizer)
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        which = bisect.bisect_right(self.milestones, epoch)
        start = self.milestones[which - 1] if which and self.rescaling[which - 1] else 0
        return self.schedulers[which].rate(base, epoch - start, group_index)


class ChainedScheduler(LRScheduler):
    """Schedules at the same time: their factors of the first rate are multiplied; a `LambdaLR` restarts."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("expected at least one schedule, got none")
        optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("expected schedules of one optimizer, got schedules of several")
        self.schedulers = list(schedulers)
        restarted(optimizer)
        super().__init__(optimizer)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        rate = base
        for schedule in self.schedulers:
            own = schedule.rate(base, epoch, group_index)
            rate = own if type(schedule) is LambdaLR or not base else rate * own / base
        return rate


class ReduceLROnPlateau:
    """The rate times `factor` when a measured value has not improved for more than `patience` steps.

    `mode` is "min" or "max", the direction of improvement; an improvement is larger than `threshold`, a fraction
    ("rel") or an amount ("abs"). For `cooldown` steps after a reduction nothing is counted. Rates stay above
    `min_lr`, one for all groups or one for each.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f'expected mode "min" or "max" and "rel" or "abs", got {mode!r} and {threshold_mode!r}')
        if not 0 < factor < 1:
            raise ValueError(f"expected a factor between 0 and 1, got {factor}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lrs, self.eps = of_groups(min_lr, optimizer, "min_lr"), eps
        self.best, self.num_bad_epochs, self.cooldown_counter = math.inf if mode == "min" else -math.inf, 0, 0

    def step(self, metrics: Any) -> None:
        """Records a value, and reduces the rate after `patience` values without improvement."""
        value = float(metrics)
        if self._improves(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _improves(self, value: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "abs" or math.isinf(self.best):
            return sign * (value - self.best) > self.threshold
        return sign * value > sign * self.best * (1 + sign * self.threshold)

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    def get_last_lr(self) -> list[float]:
        """The rates that are set."""
        return [group["lr"] for group in self.optimizer.param_groups]

    _last_lr = property(get_last_lr)

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`; the rates are in the optimizer's state."""
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state."""
        for name in ("best", "num_bad_epochs", "cooldown_counter"):
            setattr(self, name, state[name])


class LinearLR(LRScheduler):
    """The first rate times a factor that changes linearly from `start_factor` to `end_factor`, both from 0 to 1, in
    `total_iters` steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _check_factor(start_factor, "start_factor")
        _check_factor(end_factor, "end_factor")
        self.ends, self.total_iters = (start_factor, end_factor), counted(total_iters, "total_iters")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        share = min(epoch, self.total_iters) / self.total_iters
        return base * (self.ends[0] + (self.ends[1] - self.ends[0]) * share)


class WarmupLR(LRScheduler):
    """A warm-up of `warmup_iters` steps, then the first rate or another schedule.

    `warmup_method` "linear" rises linearly from `warmup_factor` of the first rate to the rate of the schedule after
    `warmup_iters` steps; "constant" stays at `warmup_factor` of the first rate. The schedule is as far then as if it
    had run from the first step; with `warmup_prefix` it begins from its own start, and the warm-up leads to the first
    rate.

    Raises:
        ValueError: as in OneFlow: the wrapped object is neither a schedule nor an optimizer, `warmup_method` or
            `warmup_factor` is another, `warmup_iters` is not above 0 and there is no schedule, or groups of different
            first rates are to reach the rate of a schedule linearly.
    """

    def __init__(
        self,
        scheduler_or_optimizer: LRScheduler | Optimizer,
        warmup_factor: float = 1 / 3,
        warmup_iters: int = 5,
        warmup_method: str = "linear",
        warmup_prefix: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if warmup_method not in ("linear", "constant"):
            raise ValueError(f'expected warmup_method to be "linear" or "constant", got {warmup_method!r}')
        if not isinstance(scheduler_or_optimizer, (LRScheduler, Optimizer)):
            raise ValueError(f"expected a schedule or an optimizer, got {type(scheduler_or_optimizer).__name__}")
        self.factor, self.warmup_iters, self.method = warmup_factor, warmup_iters, warmup_method
        self.begins_anew = warmup_prefix
        self.after: LRScheduler | None = None
        if warmup_iters > 0:
            _check_factor(warmup_factor, "warmup_factor")
        if isinstance(scheduler_or_optimizer, Optimizer):
            if not warmup_iters > 0:
                raise ValueError(f"expected warmup_iters above 0 without a schedule, got {warmup_iters}")
            super().__init__(scheduler_or_optimizer, last_epoch)
            return
        self.after = scheduler_or_optimizer
        if warmup_iters > 0 and warmup_method == "linear" and not warmup_prefix:
            _check_one_rate(self.after.base_lrs)
        restarted(self.after.optimizer)
        super().__init__(self.after.optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        if epoch >= self.warmup_iters:
            return self._afterwards(base, epoch, group_index)
        start = base * self.factor
        if self.method == "constant":
            return start
        return start + (self._afterwards(base, self.warmup_iters, group_index) - start) * epoch / self.warmup_iters

    def _afterwards(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group when the warm-up is over."""
        begin = self.warmup_iters if self.begins_anew else 0
        return base if self.after is None else self.after.rate(base, epoch - begin, group_index)


def _check_factor(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"expected {name} to be from 0 to 1, got {value}")


def _check_one_rate(rates: Sequence[float]) -> None:
    """Checks that the first rates of all groups are equal, but for rounding."""
    if not np.isclose(rates, rates[0]).all():
        raise ValueError(
            f"expected groups of one first rate for a linear warm-up to a schedule, got the rates {rates}; use an"
            ' optimizer for each rate, warmup_prefix=True or warmup_method="constant"'
        )


#: OneFlow's other name.
WarmUpLR = WarmupLR
