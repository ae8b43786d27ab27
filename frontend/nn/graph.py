"""`Graph`, OneFlow's class for a model or a training step as one compiled program; micro-batches (1F1B).

class Step(flow.nn.Graph):
    def __init__(self, model, optimizer):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)

    def build(self, x, y):
        loss = flow.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.amp import GradScaler, StaticGradScaler, autocast, unscaled
from oneflow.frontend.compile.compiled import CompiledFunction, compile
from oneflow.frontend.core.arrays import is_data
from oneflow.frontend.core.dispatch import Stateful, current_builder
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.settings import loss_scale
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.nn.graph_config import GraphConfig
from oneflow.frontend.nn.module import Module, stage_of
from oneflow.frontend.nn.zero import ZeroOptions, gathered_parameters, split_parameters
from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.optim.schedule import LRScheduler
from oneflow.frontend.tracing.builder import TraceBuilder
from oneflow.frontend.tracing.traced import Traced

_numbers = itertools.count()


def _micro_batches_of(x: Any, steps: int) -> Sequence[Any]:
    """The micro-batches of a tensor, equal parts along the first dimension; values without dimensions are the same
    for each.
    """
    if not isinstance(x, Tensor) or not x.rank:
        return [x] * steps
    size = x.shape[0]
    if not isinstance(size, int) or size % steps:
        raise fail(f"expected a first dimension that {steps} steps of gradient accumulation divide, got {x.desc}")
    return [F.narrow(x, 0, size // steps * i, size // steps) for i in range(steps)]


def _joined(values: Sequence[Any]) -> Any:
    """The results of the micro-batches of a batch, joined: tensors along the first dimension, or as a vector; of
    other values the first.
    """
    if not isinstance(values[0], Tensor):
        return values[0]
    return F.cat(list(values), 0) if values[0].rank else F.stack(list(values), 0)


def _trace() -> TraceBuilder:
    builder = current_builder()
    assert isinstance(builder, TraceBuilder)
    return builder


def _with_tensors(result: Any) -> Any:
    """A result with tensors in place of arrays."""
    leaves, tree = flatten(result)
    return tree.unflatten([wrapped(x) if is_data(x) else x for x in leaves])


class Graph(Stateful):
    """A function of tensors, `build`, that is compiled at its first call.

    If `build` calls `backward`, the added optimizers take a step after `build`, in the same program, and clear the
    gradients. `config` has the options.
    """

    def __init__(self, *, debug_v_level: int = -1) -> None:
        self._optimizers: list[Any] = []
        self._scaler: Any = None
        self._compiled, self._update = compile(self._step), compile(self._apply_gradients)
        self._name = f"{type(self).__name__}_{next(_numbers)}"
        self.config = GraphConfig()

    def __getattr__(self, name: str) -> Any:
        if name in ("_optimizers", "_compiled", "config"):
            raise AttributeError(f"expected {type(self).__name__}.__init__ to call super().__init__() first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    @staticmethod
    def trace(func: Callable[..., Any]) -> CompiledFunction:
        """A function that is compiled at its first call: `flow.compile`, as a decorator."""
        return compile(func)

    @property
    def name(self) -> str:
        """The name of the graph: the name of its class, and a number."""
        return self._name

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the graph."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method build")

    def add_optimizer(self, optimizer: Any, lr_sch: Any = None) -> None:
        """Adds an optimizer, whose step follows `build`; `lr_sch`, a schedule, takes a step after every call.

        Raises:
            TypeError: the arguments are no optimizer and schedule, or a step of the schedule requires an argument.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"expected an optimizer of flow.optim, got {optimizer!r}")
        if lr_sch is not None and not isinstance(lr_sch, LRScheduler):
            raise TypeError(
                f"expected a schedule whose step has no argument, got {lr_sch!r}; "
                "call the step of others after the graph"
            )
        self._optimizers.append((optimizer, lr_sch))
        self.config.training = True

    def set_grad_scaler(self, grad_scaler: Any = None) -> None:
        """Multiplies losses by a factor before `backward`, and divides the gradients by it after `build`.

        With a `flow.amp.GradScaler` the optimizers take no step where a gradient is not finite; one that is not
        enabled does nothing.

        Raises:
            TypeError: the scaler is neither a `GradScaler` nor a `StaticGradScaler`.
        """
        if not isinstance(grad_scaler, (GradScaler, StaticGradScaler)):
            raise TypeError(f"expected a flow.amp.GradScaler or StaticGradScaler, got {grad_scaler!r}")
        is_disabled = isinstance(grad_scaler, GradScaler) and not grad_scaler.is_enabled()
        self._scaler = None if is_disabled else grad_scaler

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.config.zero is not None:
            split_parameters([optimizer for optimizer, _ in self._optimizers], self.config.zero)
        result, finite = self._compiled(*args, **kwargs)
        if finite is not None:
            is_finite = bool(finite)
            if is_finite:
                self._update()
            else:
                self._clear()
            self._scaler.update_scale(is_finite)
        for _, schedule in self._optimizers:
            if schedule is not None:
                schedule.step()
        return result if args or kwargs else _with_tensors(result)

    def ir(self, stage: str = "oneflow") -> str:
        """The program of the latest call at a stage; see `CompiledFunction.ir`."""
        return self._compiled.ir(stage)

    @property
    def traced(self) -> Traced:
        """The program of the latest call, with its captured values."""
        return self._compiled.traced

    def debug(self, v_level: int = -1, *, ranks: Any = None, max_py_stack_depth: int = 2, **_: Any) -> None:
        """Taken for programs of OneFlow: `ir` shows a program at every stage, and errors name the user's line."""

    def state_dict(self) -> dict[str, Any]:
        """The states of its modules, and of its optimizers, by name."""
        state: dict[str, Any] = OrderedDict((name, part.state_dict()) for name, part in self._stateful_objects())
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Loads the states of `state_dict`.

        Raises:
            RuntimeError: names differ, if `strict`.
        """
        parts = dict(self._stateful_objects())
        if strict and parts.keys() != state_dict.keys():
            raise RuntimeError(f"expected states of {', '.join(parts)}, got {', '.join(state_dict)}")
        for name, part in parts.items():
            if name in state_dict:
                part.load_state_dict(state_dict[name])

    def _stateful_objects(self) -> list[tuple[str, Any]]:
        """The objects with a state: modules by the names of their attributes, optimizers by index."""
        modules = [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]
        return modules + [(f"optimizer_{i}", optimizer) for i, (optimizer, _) in enumerate(self._optimizers)]

    def _step(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """The result of `build`; with a scaler that changes, whether all gradients are finite."""
        guard = current_builder().guard
        guard(getattr, self.config, "amp_dtype")
        guard(getattr, self, "_scaler")
        guard(getattr, self.config, "accumulation_steps")
        guard(getattr, self.config, "zero")
        with self._amp(), loss_scale(self._loss_scale()):
            result = self._build_micro_batches(args, kwargs)
        parameters = self._parameters()
        if self._optimizers and not parameters:
            raise fail(
                f"expected build of {type(self).__name__} to call backward of the loss: no parameter of the "
                "optimizers that were added has a gradient"
            )
        finite = None if self._scaler is None else unscaled(parameters, self._scaler.get_scale)
        if isinstance(self._scaler, GradScaler) and parameters:
            return result, finite
        self._apply_gradients()
        return result, None

    def _loss_scale(self) -> Callable[[], float] | None:
        """The factor of losses: the factor of the scaler, divided by the number of micro-batches."""
        steps, scaler = self.config.accumulation_steps, self._scaler
        if steps == 1:
            return None if scaler is None else scaler.get_scale
        return lambda: (1.0 if scaler is None else scaler.get_scale()) / steps

    def _build_micro_batches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of `build`, or the joined results of `build` for each micro-batch."""
        steps = self.config.accumulation_steps
        if steps == 1:
            return self._build_micro_batch(args, kwargs, None)
        leaves, tree = flatten((args, kwargs))
        micro_batches = zip(*(_micro_batches_of(x, steps) for x in leaves), strict=True) if leaves else [()] * steps
        results: list[Any] = []
        with _trace().interleaved(self._num_stages()):
            for a, k in map(tree.unflatten, micro_batches):
                results.append(flatten(self._build_micro_batch(a, k, results[-1][0] if results else None)))
        return results[0][1].unflatten([_joined(x) for x in zip(*(r for r, _ in results), strict=True)])

    def _build_micro_batch(self, args: tuple[Any, ...], kwargs: dict[str, Any], earlier: Sequence[Any] | None) -> Any:
        """The result of `build`; `earlier` are the results for the previous micro-batch."""
        after = next((x for x in earlier or () if isinstance(x, Tensor)), None)
        parameters = [p for part in self._modules() for p in part.parameters()]
        parameters += [p for optimizer, _ in self._optimizers for g in optimizer.param_groups for p in g["params"]]
        builder = _trace()
        read = gathered_parameters(builder, parameters, self.config.zero or ZeroOptions(), after)
        with builder.captures.computed(read):
            return self.build(*args, **kwargs)

    def _modules(self) -> list[Module]:
        return [part for part in vars(self).values() if isinstance(part, Module)]

    def _num_stages(self) -> int:
        """The number of stages of a pipeline that the modules are."""
        stages = {stage_of(m) for part in self._modules() for m in part.modules()}
        return max(len(stages - {None}), 1)

    def _amp(self) -> autocast:
        """The autocast of the options; on whatever device the program runs."""
        amp = self.config.amp_dtype
        return autocast("cuda", amp, any_device=True) if amp is not None else autocast(enabled=False)

    def _parameters(self) -> list[Any]:
        """The parameters of the optimizers that have gradients."""
        groups = [group for optimizer, _ in self._optimizers for group in optimizer.param_groups]
        return [p for group in groups for p in group["params"] if p.grad is not None]

    def _apply_gradients(self) -> None:
        """The steps of the optimizers, after which the gradients are cleared."""
        for optimizer, _ in self._optimizers:
            optimizer.clip_grad()
            optimizer.step()
        self._clear()

    def _clear(self) -> None:
        for optimizer, _ in self._optimizers:
            optimizer.zero_grad()
