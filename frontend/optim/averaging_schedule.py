"""The schedule of stochastic weight averaging: `SWALR`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.optim.schedule import LRScheduler, of_groups


class SWALR(LRScheduler):
    """From the rate that a group has to the constant rate `swa_lr`, in `anneal_epochs` steps, along half a period of
    a cosine ("cos") or a line ("linear"). Other schedules may change the rates before the first step.

    Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018.

    Args:
        swa_lr: the last rate, one for all groups or one for each.

    Raises:
        ValueError: another strategy, another number of rates than of groups, or a number of steps below 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"expected anneal_strategy to be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"expected anneal_epochs to be a number of steps of at least 0, got {anneal_epochs!r}")
        self.swa_lrs = of_groups(swa_lr, optimizer, "swa_lr")
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        self._annealed = self._share(max(last_epoch, 0))
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of a group."""
        share = self._share(epoch)
        return base * (1 - share) + self.swa_lrs[group_index] * share

    def _share(self, epoch: int) -> float:
        """The share of `swa_lr` in the rate after `epoch` steps."""
        done = min(epoch / self.anneal_epochs, 1.0) if self.anneal_epochs else 1.0
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def _set(self) -> None:
        """Sets the rates; the rate to begin from is what is left of a group's rate without the share of `swa_lr`."""
        share, self._annealed = self._annealed, self._share(self.last_epoch)
        for i, (group, last) in enumerate(zip(self.optimizer.param_groups, self.swa_lrs, strict=True)):
            first = last if share == 1 else (group["lr"] - last * share) / (1 - share)
            group["lr"] = self.rate(first, self.last_epoch, i)

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`, with the arguments."""
        names = "swa_lrs", "anneal_epochs", "anneal_strategy"
        return {**super().state_dict(), **{name: getattr(self, name) for name in names}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state, with the arguments."""
        self.swa_lrs = list(state["swa_lrs"])
        self.anneal_epochs, self.anneal_strategy = state["anneal_epochs"], state["anneal_strategy"]
        super().load_state_dict(state)
        self._annealed = self._share(self.last_epoch)
