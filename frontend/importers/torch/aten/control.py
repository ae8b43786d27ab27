"""Structured control flow: PyTorch's higher-order operators, whose functions are graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow.frontend.importers.torch.table import aten
from oneflow.frontend.tracing import control_flow

#: Runs a graph on the values of its inputs.
Run = Callable[[Sequence[Any]], list[Any]]


@aten("cond")
def cond(pred: Any, true_fn: Run, false_fn: Run, operands: Sequence[Any] = ()) -> Any:
    """Runs the graph that a predicate chooses."""
    return control_flow.cond(pred, lambda *xs: true_fn(xs), lambda *xs: false_fn(xs), *operands)


@aten("while_loop")
def while_loop(cond_fn: Run, body_fn: Run, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    """A graph that runs as long as another graph returns true."""
    return control_flow.while_loop(
        lambda state: cond_fn([*state, *additional])[0], lambda state: body_fn([*state, *additional]), list(carried)
    )


@aten("scan")
def scan(combine_fn: Run, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]) -> Any:
    """A graph for each element of sequences."""
    count = len(init)

    def step(state: Sequence[Any], elements: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results = combine_fn([*state, *elements, *additional])
        return results[:count], results[count:]

    last, ys = control_flow.scan(step, list(init), list(xs))
    return [*last, *ys]
