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

Imports `compiled`.
"""

from __future__ import annotations

from typing import Any

from oneflow.frontend.compiled import compile
from oneflow.frontend.dispatch import Stateful


class Graph(Stateful):
    """A function of tensors, `build`, that is compiled when it is called.

    Where it calls `backward`, the optimizers that were added take a step after it, in the same program, and forget
    the gradients.
    """

    def __init__(self) -> None:
        self._optimizers: list[Any] = []
        self._compiled = compile(self._step)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph computes."""
        raise NotImplementedError(f"expected {type(self).__name__} to have a method build")

    def add_optimizer(self, optimizer: Any, lr_sch: Any = None) -> None:
        """Adds an optimizer, whose step follows `build`; `lr_sch`, a schedule, takes one after every call."""
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
        for optimizer, _ in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return result
