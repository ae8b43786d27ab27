"""The base of optimizers: parameter groups, states and steps.

    optimizer = flow.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.zero_grad(); loss.backward(); optimizer.step()

A step calls one `*_update` operator per parameter and writes the results in place. In a compiled function the
learning rate is an input of every run, so that schedules work; other settings are constants of the program, which is
compiled again after a change of these.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.nd_sbp import broadcast
from oneflow.frontend.core.arrays import Data, distribute
from oneflow.frontend.core.devices import move
from oneflow.frontend.core.dispatch import Stateful, current_builder, dispatch_all
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.module_state import as_array
from oneflow.frontend.eager.tape import enable_grad, no_grad
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.optim.clipping import clip_grad_norm_
from oneflow.frontend.tracing.capture import layout_of

Group = dict[str, Any]
#: Settings of PyTorch's and OneFlow's optimizers that choose between implementations of the same formula.
IMPLEMENTATION_OPTIONS = {
    "foreach",
    "fused",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
    "contiguous_params",
}
#: Settings of groups of all optimizers: those that `clip_grad` reads, and a factor of the learning rate.
COMMON_OPTIONS = {"clip_grad_max_norm", "clip_grad_norm_type", "lr_scale"}
#: Entries of a group that are no constants of a step.
RATE_OPTIONS = ("params", "lr", "initial_lr", "lr_scale")
#: The key of a group whose momentum a schedule changes.
CYCLED = "cycled"


class Optimizer(Stateful):
    """The base of optimizers.

    Args:
        params: tensors that require grad, or groups: dicts with `params` and their own hyperparameters.
        defaults: the default hyperparameters of groups.

    Attributes:
        param_groups: the groups; `lr` and the other hyperparameters may be changed between steps.
        state: the state of each parameter, by its position in the order of all parameters.
    """

    #: The operator that a step calls; "" where a step is composed of several operators.
    operator = ""
    #: The setting with the momentum, which a step reads at every run if a schedule changes the momentum.
    cycles = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _without_implementation_options(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[Group] = []
        self._sbp: Any = None
        self.state: dict[int, dict[str, EagerTensor]] = {}
        self._needed: dict[int, tuple[tuple[bool, ...], tuple[str, ...]]] = {}
        parameters = list(params)
        if not parameters:
            raise ValueError("expected at least one parameter, got none; pass model.parameters()")
        for group in parameters if isinstance(parameters[0], dict) else [{"params": parameters}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group of parameters with its own hyperparameters.

        Raises:
            ValueError: a parameter is no leaf that requires grad, or is in a group already; or a hyperparameter is
                unknown or out of range.
        """
        params = [group["params"]] if isinstance(group["params"], EagerTensor) else list(group["params"])
        known = {id(p) for p in self._all()}
        for p in params:
            if not isinstance(p, EagerTensor) or not p.is_leaf or not p.dtype.is_float:
                raise ValueError(f"expected leaf tensors of floats to optimize, got {p!r}")
            if id(p) in known:
                raise ValueError(f"expected each parameter once, got a parameter of shape {list(p.shape)} twice")
            known.add(id(p))
        unknown = (
            group.keys() - self.defaults.keys() - {"params", "initial_lr"} - IMPLEMENTATION_OPTIONS - COMMON_OPTIONS
        )
        if unknown:
            names = ", ".join(sorted(unknown))
            raise ValueError(f"{type(self).__name__} has no {names}; it has {', '.join(self.defaults)}")
        ignored = IMPLEMENTATION_OPTIONS - self.defaults.keys()
        settings = {name: value for name, value in group.items() if name not in ignored}
        merged = {**self.defaults, **settings, "params": params}
        self.check(merged)
        self.param_groups.append(merged)

    def check(self, group: Group) -> None:
        """Checks the hyperparameters of a group.

        Raises:
            ValueError: one is out of range.
        """
        for name in ("lr", "eps", "weight_decay", "lr_decay", "momentum", "initial_accumulator_value"):
            if not group.get(name, 0) >= 0:
                raise ValueError(f"expected {name} of at least 0, got {group[name]}")
        betas = group.get("betas", (0.0, 0.0))
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"expected two betas in [0, 1), got {betas}")

    def _all(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def initial_state(self, p: EagerTensor, group: Group) -> dict[str, np.ndarray]:
        """The first state of a parameter: arrays by name, in the order of the operator's results after the first."""
        return {}

    def call(self, p: EagerTensor, grad: Tensor, group: Group, state: dict[str, Any], rate: Tensor) -> Any:
        """The results of the update: the new parameter, then the new states."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method call")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the result of `closure`, which computes the loss
        again.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            indices = iter(range(len(self._all())))
            for group in self.param_groups:
                self._step(group, [(next(indices), p) for p in group["params"]])
        return loss

    def _step(self, group: Group, numbered: list[tuple[int, EagerTensor]]) -> None:
        builder = current_builder()
        self._guard_settings(group)
        rate = builder.runtime_scalar(functools.partial(rate_of, group), dtypes.float32)
        updated = [(index, p, grad) for index, p in numbered if (grad := p.grad) is not None]
        for index, p, grad in updated:
            state = self._state(index, p, group)
            steps: Any = state.pop("step", None)
            results = self.call(p, grad, group, state | ({} if steps is None else {"step": steps}), rate)
            writer = f"oneflow.{self.operator}" if self.operator else type(self).__name__
            for target, value in zip((p, *state.values()), results, strict=True):
                builder.assign(target, cast(value, target.dtype), writer)
            update_rows = getattr(p, "update_rows", None)
            if update_rows is not None:
                update_rows(self, group, rate, steps)
            if steps is not None:
                steps.add_(1)
        indices = [index for index, _, _ in updated if self.state[index]]
        if indices:
            builder.guard_items(self, "state", indices)

    def _guard_settings(self, group: Group) -> None:
        """Guards the settings of a group that are constants of a program."""
        guard = current_builder().guard
        names = [name for name in group if name not in RATE_OPTIONS]
        for name in names:
            guard(_constant_part if name == self.cycles and group.get(CYCLED) else dict.get, group, name)
        guard(dict.get, group, CYCLED)
        guard(frozenset.issuperset, frozenset((*names, *RATE_OPTIONS, CYCLED)), group)

    def _state(self, index: int, p: EagerTensor, group: Group) -> dict[str, EagerTensor]:
        """The state of a parameter for the group's current settings, made at the first use."""
        switches = tuple([bool(v) for k, v in group.items() if k not in RATE_OPTIONS])
        known = self._needed.get(index)
        if index not in self.state or known is None or known[0] != switches:
            known = self._needed[index] = switches, self._completed(index, p, group)
        held = self.state[index]
        return {name: held[name] for name in known[1]}

    def _completed(self, index: int, p: EagerTensor, group: Group) -> tuple[str, ...]:
        """The names of the states that a step needs; adds the initial values of missing states."""
        first, held = self.initial_state(p, group), self.state.setdefault(index, {})
        held |= {k: wrapped(self._in_layout_of(p, a)) for k, a in first.items() if k not in held}
        return tuple(first)

    def _in_layout_of(self, p: EagerTensor, kept: np.ndarray) -> Data:
        """An initial state on the device of its parameter, or on its ranks with the layout of `to_global`."""
        layout = layout_of(p)
        if layout is None:
            return move(np.array(kept) if p.device.type == "cpu" else kept, p.device)
        placement, nd = layout
        if self._sbp is not None:
            nd = placement.layout(self._sbp, p.desc)
        return distribute(kept, placement, nd if kept.shape == p.shape else broadcast(placement.mesh))

    def to_global(self, sbp: Any) -> None:
        """Sets the layout `sbp` for states of global parameters, in place of the layout of the parameters.

        With split states, each rank updates its share of the parameters, as ZeRO does. Existing states are converted
        to the layout.

        Args:
            sbp: one SBP, or one for each axis of the mesh; parameters without dimensions keep theirs.
        """
        self._sbp = sbp
        self.follow_layouts()

    def follow_layouts(self) -> None:
        """Converts the states to the current layouts of their parameters, or to the layout of `to_global`."""
        for index, p in enumerate(self._all()):
            for name, state in self.state.get(index, {}).items():
                self.state[index][name] = wrapped(self._in_layout_of(p, state.array))

    def clip_grad(self, error_if_nonfinite: bool = False) -> None:
        """Scales the gradients of each group that has a `clip_grad_max_norm` to at most that norm, of the order
        `clip_grad_norm_type`, by default 2; see `flow.nn.utils.clip_grad_norm_`.
        """
        for group in self.param_groups:
            if group.get("clip_grad_max_norm") is not None:
                order = group.get("clip_grad_norm_type", 2.0)
                clip_grad_norm_(group["params"], group["clip_grad_max_norm"], order, error_if_nonfinite)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients, or sets the gradients to zero."""
        for p in self._all():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """The states by the index of the parameter, and the groups with indices of parameters."""
        indices = iter(range(len(self._all())))
        groups = [{**g, "params": [next(indices) for _ in g["params"]]} for g in self.param_groups]
        return {"state": {n: dict(s) for n, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state from `state_dict` of this class or of PyTorch's; tensors are copied.

        Raises:
            ValueError: groups have other sizes or settings that this optimizer has not, or a tensor another shape.
        """
        sizes = [[len(g["params"]) for g in groups] for groups in (self.param_groups, state["param_groups"])]
        if sizes[0] != sizes[1]:
            raise ValueError(f"expected groups of {sizes[0]} parameters, got {sizes[1]}")
        groups = [self._merged(*pair) for pair in zip(self.param_groups, state["param_groups"], strict=True)]
        owners = [(p, group) for group in groups for p in group["params"]]
        self._needed.clear()
        states = {int(n): kept for n, kept in state["state"].items() if any(v is not None for v in kept.values())}
        self.state = {n: self._restored(n, *owners[n], kept) for n, kept in states.items() if n < len(owners)}
        for own, group in zip(self.param_groups, groups, strict=True):
            own.update(group)

    def _merged(self, own: Group, loaded: Mapping[str, Any]) -> Group:
        """A group with the given hyperparameters; other frameworks' choices between implementations are dropped."""
        known = self.defaults.keys() | {"initial_lr", CYCLED} | COMMON_OPTIONS
        foreign = {k for k, v in loaded.items() if k not in known | IMPLEMENTATION_OPTIONS | {"params"} and v}
        if foreign:
            raise ValueError(f"{type(self).__name__} has no {', '.join(sorted(foreign))}, which the state sets")
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in loaded.items() if k in known}
        merged = {**own, **settings}
        self.check(merged)
        return merged

    def _restored(self, n: int, p: EagerTensor, group: Group, loaded: Mapping[str, Any]) -> dict[str, EagerTensor]:
        """The state of parameter `n`, in this class's order: the given values, and initial values for missing
        entries.
        """
        kept = self.initial_state(p, group)
        for name, first in kept.items():
            if loaded.get(name) is None:
                continue
            array = as_array(loaded[name])
            if array.shape != first.shape:
                raise ValueError(f"expected {name} of parameter {n} of shape {first.shape}, got {array.shape}")
            kept[name] = array.astype(first.dtype)
        return {name: wrapped(move(array, p.device)) for name, array in kept.items()}

    def __repr__(self) -> str:
        numbers = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        return f"{type(self).__name__}({', '.join(map(str, numbers))})"


def _without_implementation_options(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor of an optimizer that also takes choices between implementations, which change nothing.

    A constructor with `**more` belongs to a base class; its subclasses name the arguments that are settings.
    """
    parameters = inspect.signature(init).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return init
    choices = IMPLEMENTATION_OPTIONS - parameters.keys()

    @functools.wraps(init)
    def filtered_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{name: value for name, value in kwargs.items() if name not in choices})

    return filtered_init


def _constant_part(group: Group, name: str) -> Any:
    """The part of a scheduled momentum that is a constant of a program: whether the momentum is 0, or the second
    beta. The momentum itself is an input.
    """
    momentum = group.get(name)
    return momentum[1:] if isinstance(momentum, tuple) else bool(momentum)


def signed(group: Group) -> dict[str, float]:
    """The attribute that negates the gradient, where the loss is maximized."""
    return {"scale": -1.0} if group["maximize"] else {}


def zeros(p: EagerTensor) -> np.ndarray:
    """Zeros like a parameter, one element in memory: the step writes them in their layout."""
    return np.broadcast_to(np.zeros((), p.dtype.numpy), p.variable.handle.shape)


def rate_of(group: Group) -> float:
    """The learning rate of a group, with the factor of the group.

    Without a factor the same object as before: a compiled step reads an argument again that is another object.
    """
    rate: float = group["lr"]
    return rate * group["lr_scale"] if "lr_scale" in group else rate


def no_steps() -> np.ndarray:
    """The number of steps before the first."""
    return np.zeros((), np.int64)


def corrections(steps: Any, group: Group) -> tuple[Tensor, Tensor]:
    """The bias corrections of Adam's moments."""
    first, second = (dispatch_all("adam_bias_correction_factor", steps, beta=b)[0] for b in group["betas"])
    return first, second


def moments(
    group: Group, state: dict[str, Any], rate: Tensor, decay: str
) -> tuple[tuple[Any, ...], dict[str, float]]:
    """The common arguments of `adam_update` and `lamb_update`: operands after the gradient, and attributes.

    `decay` is the attribute for the group's weight decay.
    """
    beta1, beta2 = group["betas"]
    numbers = {"beta1": beta1, "beta2": beta2, "epsilon": group["eps"], decay: group["weight_decay"], **signed(group)}
    numbers["do_bias_correction"] = group["do_bias_correction"]
    operands = (rate, None, None, *corrections(state["step"], group), state["exp_avg"], state["exp_avg_sq"])
    return operands, numbers
