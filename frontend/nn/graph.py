"""Whole programs in one: `Graph`, OneFlow's class for a model or a training step that is compiled.

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

from typing import Any

from oneflow.frontend.compile.compiled import compile
from oneflow.frontend.core.dispatch import Stateful
from oneflow.frontend.core.errors import fail
from oneflow.frontend.optim.optimizer import Optimizer
from oneflow.frontend.optim.schedule import LRScheduler


class Graph(Stateful):
    """A function of tensors, `build`, that is compiled when it is called.

    Where `build` calls `backward`, the added optimizers take a step after `build`, in the same program, and clear the
    gradients.
    """

    def __init__(self) -> None:
        self._optimizers: list[Any] = []
        self._compiled = compile(self._step)

    def __getattr__(self, name: str) -> Any:
        if name in ("_optimizers", "_compiled"):
            raise AttributeError(f"expected {type(self).__name__}.__init__ to call super().__init__() first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph computes."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method build")

    def add_optimizer(self, optimizer: Any, lr_sch: Any = None) -> None:
        """Adds an optimizer, whose step follows `build`; `lr_sch`, a schedule, takes one after every call.

        Raises:
            TypeError: they are none, or the schedule needs to be told something at every step.
        """
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"expected an optimizer of flow.optim, got {optimizer!r}")
        if lr_sch is not None and not isinstance(lr_sch, LRScheduler):
            raise TypeError(
                f"expected a schedule whose step takes nothing, got {lr_sch!r}; "
                "call the step of others after the graph"
            )
        self._optimizers.append((optimizer, lr_sch))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._compiled(*args, **kwargs)
        for _, schedule in self._optimizers:
            if schedule is not None:
                schedule.step()
        return result

    def ir(self, stage: str = "oneflow") -> str:
        """The program of the latest call at a stage; see `CompiledFunction.ir`."""
        return self._compiled.ir(stage)

    def _step(self, *args: Any, **kwargs: Any) -> Any:
        result = self.build(*args, **kwargs)
        groups = [group for optimizer, _ in self._optimizers for group in optimizer.param_groups]
        if groups and all(p.grad is None for group in groups for p in group["params"]):
            raise fail(
                f"expected build of {type(self).__name__} to call backward of what it trains by: no parameter of the "
                "optimizers that were added has a gradient"
            )
        for optimizer, _ in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return result
