"""The rows of the writer's table for operators that order elements or write slices."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from oneflow.frontend.importers.onnx.writer_table import ints, row


@row("top_k")
def _top_k(w: Any, c: Any) -> Any:
    return w.node("TopK", c.inputs["in"], ints(w, [c.attrs["k"]]), outputs=2, axis=-1)[1]


@row("arg_sort")
def _arg_sort(w: Any, c: Any) -> Any:
    x = c.inputs["in"]
    size = w.node("Shape", x, start=-1)
    at = w.node("TopK", x, size, outputs=2, axis=-1, largest=int(c.attrs["direction"] == "DESCENDING"))[1]
    return w.node("Cast", at, to=TensorProto.INT32)


@row("slice_update")
def _slice_update(w: Any, c: Any) -> Any:
    """The indices of the elements of the slices are the slices of the indices of all elements."""
    start, stop, step = (ints(w, c.attrs[name]) for name in ("start", "stop", "step"))
    shape, flat = w.node("Shape", c.ref), ints(w, [-1])
    zero, one = (w.node("Squeeze", ints(w, [number])) for number in (0, 1))
    numbers = w.node("Reshape", w.node("Range", zero, w.node("Size", c.ref), one), shape)
    sliced = w.node("Slice", numbers, start, stop, ints(w, range(len(c.attrs["start"]))), step)
    rows = (w.node("Reshape", x, flat) for x in (c.ref, sliced, c.value))
    return w.node("Reshape", w.node("ScatterElements", *rows, axis=0), shape)
