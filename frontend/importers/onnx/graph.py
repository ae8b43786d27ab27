"""A model after reading: graphs of nodes, with constants as arrays and attributes as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Input:
    """An input or a result of a graph: its element type by number (0 where it is open, None for no tensor), and its
    sizes: numbers, names of dynamic sizes, or None for unknown sizes. `shape` is None where the rank is open.
    """

    name: str
    type: int | None = 0
    shape: tuple[int | str | None, ...] | None = None


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function: the attribute of the call with a name."""

    name: str


@dataclass(frozen=True)
class Node:
    """An operator or call of a function; "" is the name of an operand or result that is left out."""

    name: str
    op: str
    domain: str
    version: int
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        what = f"{self.domain}.{self.op}" if self.domain else self.op
        own = f"node {self.name!r}" if self.name else f"the node of {', '.join(map(repr, self.outputs))}"
        return f"{own} ({what}, version {self.version})"


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes in topological order: each reads inputs, constants and results of earlier nodes.

    `proto` is the protobuf of a graph inside a node.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, np.ndarray]
    proto: Any = None


@dataclass(frozen=True)
class Function:
    """A function of a model: a graph, and attributes of a call with their defaults."""

    graph: OnnxGraph
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A graph, and the functions that it calls by domain, name and overload."""

    graph: OnnxGraph
    functions: Mapping[tuple[str, str, str], Function]
    opsets: Mapping[str, int]
