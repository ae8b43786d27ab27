"""The base of schedules of the learning rate."""

from __future__ import annotations

from typing import Any

from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.mode import tracing
from oneflow.frontend.optim.optimizer import Optimizer


def counted(value: int | None, name: str) -> int:
    """A number of steps.

    Raises:
        ValueError: the number is not an int of at least 1.
    """
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"expected {name} to be a number of steps of at least 1, got {value!r}")
    return value


class LRScheduler:
    """The base of schedules: `rate(base, epoch)` is the rate after `epoch` steps of a group that began with `base`.

    Several schedules of one optimizer multiply their factors, like PyTorch's.
    `last_epoch` -1 restarts, from the groups' `initial_lr`, which is their `lr` when the first schedule is made;
    another number continues after that many steps.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, max(last_epoch, 0)
        for group in optimizer.param_groups:
            if last_epoch < 0:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"expected initial_lr in every group to continue after last_epoch={last_epoch}, got a group with"
                    f" {', '.join(group)}; load the state of the optimizer first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._latest = self.base_lrs if last_epoch < 0 else self.get_last_lr()
        self._set()

    def rate(self, base: float, epoch: int, group_index: int) -> float:
        """The rate of the group `group_index` after `epoch` steps."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method rate")

    def step(self) -> None:
        """Takes one step.

        Raises:
            TraceError: in a traced function, where the step would be taken once only.
        """
        if tracing():
            raise fail(
                f"{type(self).__name__}.step() within a compiled function would be taken once only, during tracing: "
                f"call "
                "it after the function, or give the schedule to nn.Graph.add_optimizer"
            )
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        """Sets the rates; changes of a rate by other schedules are kept as factors."""
        latest, self._latest = self._latest, self.rates(self.last_epoch)
        for group, before, rate in zip(self.optimizer.param_groups, latest, self._latest, strict=True):
            group["lr"] = rate if group["lr"] == before or not before else group["lr"] * rate / before

    def rates(self, epoch: int) -> list[float]:
        """The rates of all groups after `epoch` steps."""
        return [self.rate(base, epoch, i) for i, base in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[float]:
        """The rates that are set."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs), "_last_lr": self.get_last_lr()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state."""
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._latest = self.rates(self.last_epoch)
        for group, rate in zip(self.optimizer.param_groups, state.get("_last_lr", self._latest), strict=True):
            group["lr"] = rate


def restarted(optimizer: Optimizer) -> None:
    """Has the groups of an optimizer have the rates that its schedules began with."""
    for group in optimizer.param_groups:
        group["lr"] = group.get("initial_lr", group["lr"])


def of_groups(value: Any, optimizer: Optimizer, name: str) -> list[float]:
    """A number for each group of an optimizer, given as one for all or one by one.

    Raises:
        ValueError: the number of values differs.
    """
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"expected one {name} for each of {count} groups, got {len(values)}")
    return values
