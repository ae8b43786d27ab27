"""Rows of the writer's table for sizes that are computed from dynamic sizes: nodes of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from oneflow.dialect.size_text import evaluate_sizes
from oneflow.frontend.importers.onnx.writer_table import ints, row


def _quotient(w: Any, a: str, b: str) -> Any:
    """An integer quotient rounded down: `Mod` has the sign of the divisor."""
    return w.node("Div", w.node("Sub", a, w.node("Mod", a, b)), b)


def _rounded(op: str) -> Callable[[Any, str], Any]:
    return lambda w, x: w.node("Cast", w.node(op, x), to=TensorProto.INT64)


def _node(op: str) -> Callable[..., Any]:
    return lambda w, *operands: w.node(op, *operands)


#: The nodes of functions of sizes.
_NODES: dict[str, Callable[..., Any]] = {
    **{kind: _node(kind.title()) for kind in ("add", "sub", "mul", "div", "min", "max", "sqrt")},
    **{kind: _rounded(kind.title()) for kind in ("floor", "ceil", "round")},
    "floordiv": _quotient,
    "real": lambda w, x: w.node("Cast", x, to=TensorProto.DOUBLE),
    "trunc": lambda w, x: w.node("Cast", x, to=TensorProto.INT64),
}


class _Number:
    """A number of the model: a size as int64, or a floating-point number as float64."""

    def __init__(self, writer: Any, name: str) -> None:
        self._writer, self.name = writer, name

    def combine(self, kind: str, *operands: Any) -> _Number:
        """The result of a function of sizes."""
        names = [_name(self._writer, x) for x in operands]
        return _Number(self._writer, _NODES[kind](self._writer, *names))


def _name(w: Any, number: Any) -> str:
    return number.name if isinstance(number, _Number) else w.constant(np.array(number))


@row("positions")
def _positions(w: Any, c: Any) -> Any:
    likes = [(w.node("Shape", like), w.desc(like).shape) for like in c.inputs["like"]]
    dims = [
        _Number(w, w.node("Gather", sizes, w.constant(np.array(axis)))) if size is None else size
        for sizes, shape in likes
        for axis, size in enumerate(shape)
    ]
    shape = ints(w, [])
    if sizes := evaluate_sizes(c.attrs["shape"], dims):
        shape = w.node("Concat", *(w.node("Unsqueeze", _name(w, size), ints(w, [0])) for size in sizes), axis=0)
    first, step = (w.constant(np.array(n)) for n in (0, 1))
    count = w.node("ReduceProd", shape, keepdims=0)
    return w.node("Reshape", w.node("Range", first, count, step), shape, allowzero=1)
