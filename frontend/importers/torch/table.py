"""The table of operators: the builder of each ATen overload.

A builder has the parameters of the overload, with tensors of this library in place of PyTorch's; a builder may be one
of `flow`'s functions. The keyword parameter `out` of a builder, if there is one, receives PyTorch's description of
the results: a `Result`, or a list. A result is converted to the element type that PyTorch gives it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """PyTorch's description of a result: sizes (numbers and `Size`s) and the element type."""

    shape: tuple[Any, ...]
    dtype: Any


@dataclass(frozen=True)
class Row:
    """How an operator is built."""

    build: Callable[..., Any]
    takes_result: bool


#: The builders by overload: `add.Tensor`; overloads outside of ATen with their namespace: `prims.sum.default`.
ATEN: dict[str, Row] = {}


def name_of(operator: Any) -> str:
    """The name of an overload, or of another function in a graph, as the table has it."""
    return str(operator).removeprefix("aten.")


def aten(*overloads: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the builder of overloads: a decorator."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        row = Row(build, "out" in inspect.signature(build).parameters)
        for overload in overloads:
            assert overload not in ATEN, f"{overload} has a builder already"
            ATEN[overload] = row
        return build

    return add


def rows(functions: dict[Callable[..., Any], str], suffix: str = "default") -> None:
    """Registers functions as the builders of operators with the same parameters: names, each with the overload
    `suffix` unless the name has one.
    """
    for function, names in functions.items():
        for name in names.split():
            aten(name if "." in name else f"{name}.{suffix}")(function)
