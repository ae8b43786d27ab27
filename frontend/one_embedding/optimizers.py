"""Updates of rows of tables by the formulas of optimizers, and the optimizer Ftrl."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import dispatch_all
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.optim import optimizer as base
from oneflow.frontend.optim.algorithms import SGD, Adagrad, Adam
from oneflow.frontend.optim.optimizer import Group, corrections

__all__ = ["Ftrl"]


class Ftrl(base.Optimizer):
    """FTRL-proximal: a parameter is 0 if the sum of the parameter's gradients is below `lambda1`."""

    operator = "ftrl_update"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        weight_decay: float = 0.0,
        lr_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        lambda1: float = 0.0,
        lambda2: float = 0.0,
        beta: float = 0.0,
    ) -> None:
        numbers = {"lr": lr, "weight_decay": weight_decay, "lr_power": lr_power, "lambda1": lambda1, "beta": beta}
        more = {"lambda2": lambda2, "initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, numbers | more)

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The sum of squared gradients, and z."""
        first = base.zeros(p) + p.dtype.numpy.type(group["initial_accumulator_value"])
        return {"accumulate": first, "z": base.zeros(p)}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        operands = (rate, None, state["accumulate"], state["z"])
        return dispatch_all("ftrl_update", p, grad, *operands, l2=group["weight_decay"], **_ftrl(group))


def _ftrl(group: Group) -> dict[str, float]:
    return {name: group[name] for name in ("lr_power", "lambda1", "lambda2", "beta")}


#: An update of rows: the operator, operands by name, and attributes, for a group and the number of previous steps.
Update = tuple[str, dict[str, Any], dict[str, Any]]


def _sgd(group: Group, steps: Any) -> Update:
    if group["momentum"]:
        return "momentum_update", {}, {"beta": group["momentum"]}
    return "sgd_update", {}, {}


def _adam(group: Group, steps: Any) -> Update:
    factors = dict(zip(("bias_correction1", "bias_correction2"), corrections(steps, group), strict=True))
    beta1, beta2 = group["betas"]
    numbers = {"beta1": beta1, "beta2": beta2, "epsilon": group["eps"]}
    return "adam_update", factors, numbers | {"do_bias_correction": group["do_bias_correction"]}


def _adagrad(group: Group, steps: Any) -> Update:
    numbers = {"lr_decay": group["lr_decay"], "epsilon": group["eps"]}
    return "adagrad_update", {"train_step": steps}, numbers


def _first(group: Group) -> float:
    value: float = group["initial_accumulator_value"]
    return value


#: The update of rows for each optimizer, and the first values of the states in a row.
UPDATES: dict[type, tuple[Callable[[Group, Any], Update], Callable[[Group], list[float]]]] = {
    SGD: (_sgd, lambda group: [0.0] if group["momentum"] else []),
    Adam: (_adam, lambda group: [0.0, 0.0]),
    Adagrad: (_adagrad, lambda group: [_first(group)]),
    Ftrl: (lambda group, steps: ("ftrl_update", {}, _ftrl(group)), lambda group: [_first(group), 0.0]),
}
#: Settings of groups that updates of rows do not have.
UNSUPPORTED = ("amsgrad", "dampening", "maximize", "nesterov")


def expect_update(kind: type, group: Group) -> None:
    """Checks that the optimizer `kind` with the settings of a group has an update of rows.

    Raises:
        ValueError: the optimizer has no update of rows.
    """
    if kind not in UPDATES:
        known = ", ".join(each.__name__ for each in UPDATES)
        raise ValueError(f"expected one of the optimizers {known} for rows of tables, got {kind.__name__}")
    refused = [name for name in UNSUPPORTED if group.get(name)]
    if refused:
        raise ValueError(f"expected a group without {', '.join(refused)} for rows of tables")


def update_of(kind: type, group: Group, steps: Any) -> tuple[Update, list[float]]:
    """The update of rows that a step of the optimizer `kind` makes, and the first values of the states in a row.

    Raises:
        ValueError: the optimizer, or the optimizer with the settings of the group, has no update of rows.
    """
    expect_update(kind, group)
    update, first_states = UPDATES[kind]
    return update(group, steps), first_states(group)
