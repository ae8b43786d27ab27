"""SGD, Adam, AdamW, Lamb, Adagrad, Adadelta, RMSprop, each over its operator, with PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from oneflow.frontend.core.dispatch import current_builder, dispatch_all
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.optim.formulas import adam_step, momentum_step
from oneflow.frontend.optim.optimizer import CYCLED, Group, Optimizer, moments, no_steps, signed, zeros


class SGD(Optimizer):
    """Stochastic gradient descent, with `momentum` along a running mean of gradients, with `nesterov` Nesterov's
    momentum.

    `weight_decay` adds that much of the parameter to its gradient. Momentum starts as the first gradient, which
    `dampening` does not damp.
    """

    operator = "sgd_update"
    cycles = "momentum"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "nesterov": nesterov, "maximize": maximize})
        self._made: dict[int, EagerTensor] = {}

    def check(self, group: Group) -> None:
        """Checks the hyperparameters of a group."""
        super().check(group)
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ValueError(
                f"expected a momentum and no dampening for nesterov, got momentum={group['momentum']} and"
                f" dampening={group['dampening']}"
            )

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The momentum, None without momentum."""
        return {"momentum_buffer": zeros(p)} if group["momentum"] else {}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        decay = {"l2": group["weight_decay"], **signed(group)}
        if not group["momentum"]:
            return dispatch_all("sgd_update", p, grad, None, rate, **decay)
        momentum = state["momentum_buffer"]
        damped = group["dampening"] and not current_builder().guard(SGD._is_first, self, momentum)
        if group.get(CYCLED):
            return momentum_step(p, grad, group, state, rate, group["dampening"] if damped else 0.0)
        options = {"beta": group["momentum"], "nesterov": group["nesterov"]}
        options["dampening"] = group["dampening"] if damped else 0.0
        return dispatch_all("momentum_update", p, grad, momentum, rate, **options, **decay)

    def _state(self, index: int, p: EagerTensor, group: Group) -> dict[str, EagerTensor]:
        known = "momentum_buffer" in self.state.get(index, ())
        state = super()._state(index, p, group)
        if not known:
            self._made |= {id(t): t for t in state.values()}
        if len(self._made) > len(self.state):  # states may have been cleared or replaced since
            held = {id(s.get("momentum_buffer")) for s in self.state.values()}
            self._made = {key: t for key, t in self._made.items() if key in held}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state, whose momenta are no longer the initial zeros."""
        super().load_state_dict(state)
        self._made.clear()

    def _is_first(self, momentum: EagerTensor) -> bool:
        """Whether a momentum is its initial 0: no step was taken."""
        return id(momentum) in self._made and momentum.variable.version == 0


class Adaptive(Optimizer):
    """The base of optimizers with running means of gradients and of (functions of) their squares."""

    def __init__(
        self, params: Iterable[Any], lr: float, betas: tuple[float, float], eps: float, decay: float, **more: Any
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": decay, **more})

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The running means of gradients and squares, and the number of steps."""
        return {"step": no_steps(), "exp_avg": zeros(p), "exp_avg_sq": zeros(p)}


class Adam(Adaptive):
    """Adam: the running mean of gradients over the root of the running mean of their squares, both with bias
    correction.

    `weight_decay` adds that much of the parameter to its gradient. With `amsgrad` the largest mean square so far is
    used. Without `do_bias_correction` the means are not corrected.
    """

    operator = "adam_update"
    cycles = "betas"
    decay = "l2"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        do_bias_correction: bool = True,
        *,
        maximize: bool = False,
    ) -> None:
        switches = {"amsgrad": amsgrad, "do_bias_correction": do_bias_correction, "maximize": maximize}
        super().__init__(params, lr, betas, eps, weight_decay, **switches)

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The running means, the number of steps, and with `amsgrad` the largest mean square."""
        most = {"max_exp_avg_sq": zeros(p)} if group["amsgrad"] else {}
        return {**super().initial_state(p, group), **most}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        if group.get(CYCLED):
            return adam_step(p, grad, group, state, rate, self.decay != "l2")
        operands, numbers = moments(group, state, rate, self.decay)
        most = state.get("max_exp_avg_sq")
        return dispatch_all("adam_update", p, grad, None, *operands, most, **numbers, amsgrad=group["amsgrad"])


class AdamW(Adam):
    """Adam with decoupled weight decay: `weight_decay` shrinks the parameter and is not part of the gradient."""

    decay = "weight_decay"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        do_bias_correction: bool = True,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, do_bias_correction, maximize=maximize)


class LAMB(Adaptive):
    """LAMB: a step of Adam whose length is in proportion to the parameter's norm.

    The weight decay is decoupled, or without `adam_w_mode` part of the gradient.
    """

    operator = "lamb_update"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        adam_w_mode: bool = True,
        do_bias_correction: bool = True,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        if amsgrad:
            raise ValueError("expected amsgrad of LAMB to be False: the largest mean square is not kept")
        switches = {"adam_w_mode": adam_w_mode, "do_bias_correction": do_bias_correction, "maximize": maximize}
        super().__init__(params, lr, betas, eps, weight_decay, **switches)

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        operands, numbers = moments(group, state, rate, "weight_decay" if group["adam_w_mode"] else "l2")
        return dispatch_all("lamb_update", p, grad, *operands, **numbers)


class Adagrad(Optimizer):
    """Adagrad: gradients over the root of the sum of all squares so far; the rate falls by `lr_decay`."""

    operator = "adagrad_update"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        numbers = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps, "maximize": maximize}
        super().__init__(params, {**numbers, "initial_accumulator_value": initial_accumulator_value})

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The sum and the number of steps."""
        return {"step": no_steps(), "sum": zeros(p) + p.dtype.numpy.type(group["initial_accumulator_value"])}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        numbers = {"lr_decay": group["lr_decay"], "l2": group["weight_decay"], "epsilon": group["eps"]}
        operands = (rate, None, None, state["step"], state["sum"])
        return dispatch_all("adagrad_update", p, grad, *operands, **numbers, **signed(group))


class Adadelta(Optimizer):
    """Adadelta: gradients over the root of the running mean of their squares, times the root of the running mean of
    squared updates.
    """

    operator = "adadelta_update"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        numbers = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, numbers)

    def check(self, group: Group) -> None:
        """Checks the hyperparameters of a group."""
        super().check(group)
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"expected rho of 0 to 1, got {group['rho']}")

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The means of squares, of gradients and of changes, and the number of steps."""
        return {"step": no_steps(), "square_avg": zeros(p), "acc_delta": zeros(p)}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        numbers = {"rho": group["rho"], "epsilon": group["eps"], "l2": group["weight_decay"], **signed(group)}
        means = state["square_avg"], state["acc_delta"]
        return dispatch_all("adadelta_update", p, grad, rate, None, *means, **numbers)


class RMSprop(Optimizer):
    """RMSprop: gradients over the root of the running mean of their squares, `centered` less the squared mean.

    With `momentum` the step is along a running sum of these.
    """

    operator = "rmsprop_update"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**numbers, "centered": centered, "maximize": maximize})

    def check(self, group: Group) -> None:
        """Checks the hyperparameters of a group."""
        super().check(group)
        if group["alpha"] < 0:
            raise ValueError(f"expected alpha of at least 0, got {group['alpha']}")

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The mean of squares, the mean of gradients and the momentum where needed, and the number of steps."""
        wanted = {"square_avg": True, "grad_avg": group["centered"], "momentum_buffer": group["momentum"]}
        return {"step": no_steps(), **{name: zeros(p) for name, needed in wanted.items() if needed}}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """Returns the parameter and the state after one step."""
        numbers = {"decay_rate": group["alpha"], "epsilon": group["eps"], "l2": group["weight_decay"]}
        means = state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer")
        options = {"centered": group["centered"], "epsilon_apart": True, "beta": group["momentum"]}
        return dispatch_all(
            "rmsprop_update", p, grad, rate, None, None, *means, **options, **numbers, **signed(group)
        )
