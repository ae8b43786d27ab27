"""Sequences, which are lists of the host, and optionals, which are a value or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.graph import OnnxGraph
from oneflow.frontend.importers.onnx.host import as_sizes
from oneflow.frontend.importers.onnx.table import builder


@builder("SequenceConstruct", raw=True)
def _construct(*values: Any) -> list[Any]:
    return list(values)


@builder("SequenceEmpty")
def _empty(*, dtype: int = 1) -> list[Any]:
    return []


@builder("SequenceLength", raw=True)
def _length(values: list[Any]) -> np.ndarray:
    return np.array(len(values), np.int64)


@builder("SequenceAt", raw=True)
def _at(values: list[Any], position: Any, *, node: Any) -> Any:
    return values[int(node.known(1, position).item())]


@builder("SequenceInsert", raw=True)
def _insert(values: list[Any], value: Any, position: Any = None, *, node: Any) -> list[Any]:
    at = len(values) if position is None else int(node.known(2, position).item())
    at = at + len(values) if at < 0 else at
    return [*values[:at], value, *values[at:]]


@builder("SequenceErase", raw=True)
def _erase(values: list[Any], position: Any = None, *, node: Any) -> list[Any]:
    at = (len(values) - 1 if position is None else int(node.known(1, position).item())) % len(values)
    return [*values[:at], *values[at + 1 :]]


@builder("SplitToSequence", raw=True)
def _split(x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1, node: Any) -> list[Any]:
    tensor = node.tensor(x)
    if split is None:
        parts = F.split(tensor, 1, axis)
        return list(parts) if keepdims else [F.squeeze(p, axis) for p in parts]
    sizes = node.known(1, split)
    return list(F.split(tensor, int(sizes) if sizes.ndim == 0 else as_sizes(sizes), axis))


@builder("ConcatFromSequence", raw=True)
def _concat(values: list[Any], *, axis: int, new_axis: int = 0, node: Any) -> Any:
    tensors = [node.tensor(v) for v in values]
    return F.stack(tensors, axis) if new_axis else F.cat(tensors, axis)


@builder("SequenceMap", raw=True)
def _map(values: list[Any], *others: Any, body: OnnxGraph, node: Any) -> Any:
    items = [node.call(body, v, *(f[i] if isinstance(f, list) else f for f in others)) for i, v in enumerate(values)]
    return tuple(list(column) for column in zip(*items, strict=True))


@builder("Optional", raw=True)
def _optional(value: Any = None, *, type: Any = None) -> Any:
    return value


@builder("OptionalHasElement", raw=True)
def _has_element(value: Any = None) -> np.ndarray:
    return np.array(value is not None)


@builder("OptionalGetElement", raw=True)
def _get_element(value: Any) -> Any:
    if value is None:
        raise OnnxError("expected an optional with an element, got an empty one")
    return value
