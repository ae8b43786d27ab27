"""Cyclic schedules of learning rate and momentum: `OneCycleLR`, `CyclicLR`.

Momentum is the group's `momentum`, or its first beta. A group whose momentum is scheduled has the flag `cycled`, by
which optimizers read at every run of a compiled step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from oneflow.frontend.optim.optimizer import CYCLED, Group, Optimizer
from oneflow.frontend.optim.schedule import LRScheduler, counted, of_groups


class _Cycle(LRScheduler):
    """The base: `momentum(epoch, group_index)` is the momentum of a group after `epoch` steps, None for a constant
    momentum.
    """

    def __init__(self, optimizer: Optimizer, firsts: Sequence[float], cycles: bool, last_epoch: int) -> None:
        self.cycles = cycles
        if cycles and not ({"momentum", "betas"} & optimizer.defaults.keys()):
            name = type(optimizer).__name__
            raise ValueError(f"expected an optimizer with momentum or betas, got {name}; pass cycle_momentum=False")
        for group, first in zip(optimizer.param_groups, firsts, strict=True):
            if last_epoch < 0:
                group["lr"] = group["initial_lr"] = first
            if cycles:
                group[CYCLED] = True
        super().__init__(optimizer, last_epoch)

    def momentum(self, epoch: int, group_index: int) -> float:
        """The momentum of a group."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method momentum")

    def _set(self) -> None:
        super()._set()
        if self.cycles:
            for group_index, group in enumerate(self.optimizer.param_groups):
                _give(group, self.momentum(self.last_epoch, group_index))


def _give(group: Group, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class OneCycleLR(_Cycle):
    """From `max_lr` / `div_factor` up to `max_lr` in the fraction `pct_start` of all steps, then far down.

    The rate ends at the first rate over `final_div_factor`; with `three_phase` the rate falls to the first rate as
    fast as it rose before. Momentum falls from `max_momentum` to `base_momentum` while the rate rises, and then rises
    again.

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate, one for all groups or one for each.
        total_steps: the number of steps, which else is `epochs` * `steps_per_epoch`.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether momentum is set too.

    Raises:
        ValueError: an argument is none of these.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f'expected anneal_strategy to be "cos" or "linear", got {anneal_strategy!r}')
        if total_steps is None:
            total_steps = counted(epochs, "epochs") * counted(steps_per_epoch, "steps_per_epoch")
        total_steps = counted(total_steps, "total_steps")
        rise = pct_start * total_steps
        self.strategy = anneal_strategy
        self.ends = [rise - 1, 2 * rise - 2, total_steps - 1] if three_phase else [rise - 1, total_steps - 1]
        self.highest = of_groups(max_lr, optimizer, "max_lr")
        self.momenta = [of_groups(m, optimizer, "momentum") for m in (max_momentum, base_momentum)]
        firsts = [m / div_factor for m in self.highest]
        between = [firsts] if three_phase else []
        self.levels = [firsts, self.highest, *between, [f / final_div_factor for f in firsts]]
        super().__init__(optimizer, firsts, cycle_momentum, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group.

        Raises:
            ValueError: the cycle is over.
        """
        total = int(self.ends[-1]) + 1
        if epoch > total:
            raise ValueError(f"expected at most {total} steps of OneCycleLR, got one more; pass a larger total_steps")
        return self._along([level[group_index] for level in self.levels], epoch)

    def momentum(self, epoch: int, group_index: int) -> float:
        """The momentum of a group."""
        most, least = (m[group_index] for m in self.momenta)
        return self._along([most, least, *[most] * (len(self.levels) - 2)], epoch)

    def _along(self, levels: Sequence[float], epoch: int) -> float:
        """The value between two levels after `epoch` steps."""
        which = next((i for i, end in enumerate(self.ends) if epoch <= end), len(self.ends) - 1)
        begin, end = self.ends[which - 1] if which else 0.0, self.ends[which]
        share = min((epoch - begin) / (end - begin), 1.0) if end != begin else 1.0
        if self.strategy == "cos":
            share = (1 - math.cos(math.pi * share)) / 2
        return levels[which] + (levels[which + 1] - levels[which]) * share


#: How much of the height of cycle i, or of step i, is left.
MODES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "triangular": (lambda gamma, i: 1.0, "cycle"),
    "triangular2": (lambda gamma, i: 1 / 2.0 ** (i - 1), "cycle"),
    "exp_range": (lambda gamma, i: float(gamma**i), "iterations"),
}


class CyclicLR(_Cycle):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps and down in `step_size_down`, repeatedly.

    `mode` "triangular" repeats the cycle, "triangular2" halves its height each time, "exp_range" multiplies the
    height by `gamma` at each step; `scale_fn` replaces the mode: a function of the number of the cycle from 1 on, or
    of the step where `scale_mode` is "iterations". Momentum falls from `max_momentum` as the rate rises.

    Raises:
        ValueError: `mode` or `scale_mode` is another one.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in MODES or scale_mode not in ("cycle", "iterations"):
            raise ValueError(
                f"expected mode to be one of {', '.join(MODES)}, got {mode!r}, scale_mode {scale_mode!r}"
            )
        scale, self.scale_mode = MODES[mode] if scale_fn is None else (lambda _, i: scale_fn(i), scale_mode)
        self.scale: Callable[[float], float] = lambda i: scale(gamma, i)
        self.up = counted(step_size_up, "step_size_up")
        self.total = self.up + counted(step_size_up if step_size_down is None else step_size_down, "step_size_down")
        self.highest = of_groups(max_lr, optimizer, "max_lr")
        self.momenta = [of_groups(m, optimizer, "momentum") for m in (max_momentum, base_momentum)]
        super().__init__(optimizer, of_groups(base_lr, optimizer, "base_lr"), cycle_momentum, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        return base + (self.highest[group_index] - base) * self._height(epoch)

    def momentum(self, epoch: int, group_index: int) -> float:
        """The momentum of a group."""
        most, least = (m[group_index] for m in self.momenta)
        return most - (most - least) * self._height(epoch)

    def _height(self, epoch: int) -> float:
        """The height of the rate in the cycle, from 0 to 1."""
        cycle = 1 + epoch // self.total
        x, turn = epoch / self.total - (cycle - 1), self.up / self.total
        part = x / turn if x <= turn else (x - 1) / (turn - 1)
        return part * self.scale(cycle if self.scale_mode == "cycle" else epoch)
