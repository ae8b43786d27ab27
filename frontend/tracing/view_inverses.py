"""View inverses: for each view operator, the operator that writes an updated view back into its root."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oneflow.dialect.builder import Value
from oneflow.dialect.ops.slicing import END
from oneflow.frontend.eager.views import VIEW_FUNCTIONS, has_overlap

Attrs = Mapping[str, Any]


def _reshaped(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    return builder.call("reshape_like", value, base)[0]


def _expanded(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    count = base.desc.element_count
    return _reshaped(builder, base, value, attrs) if count is not None and count == value.desc.element_count else None


def _transposed(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    return builder.call("transpose", value, perm=np.argsort(attrs["perm"]).tolist())[0]


def _sliced(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    return builder.call("slice_update", base, value, **attrs)[0]


def _narrowed(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    dim, first = attrs["dim"] % base.rank, attrs["start"]
    start, stop = [0] * base.rank, [END] * base.rank
    start[dim], last = first, first + attrs["length"]
    stop[dim] = END if first < 0 <= last else last
    return builder.call("slice_update", base, value, start=start, stop=stop, step=[1] * base.rank)[0]


def _placed(name: str) -> Callable[[Any, Value, Value, Attrs], Any]:
    """The inverse of a view of static sizes, by the positions of its elements in the base."""

    def inverse(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
        if not (base.desc.is_static and value.desc.is_static):
            return None
        base_shape, part = (tuple(d or 0 for d in v.shape) for v in (base, value))
        view_fn, count = VIEW_FUNCTIONS[name](attrs, part), math.prod(part)
        if has_overlap(view_fn(np.empty(base_shape, np.bool_))):
            return None
        mask, source = np.zeros(base_shape, np.bool_), np.zeros(base_shape, np.int64)
        view_fn(mask)[...] = True
        view_fn(source)[...] = np.arange(count).reshape(part)
        if not count:
            return base
        flat = builder.call("reshape", value, shape=[count])[0]
        new = builder.call("gather", flat, builder.wrap(source), axis=0)[0]
        return builder.call("where", builder.wrap(mask), new, base)[0]

    return inverse


def _complex_part_inverse(part: int) -> Callable[[Any, Value, Value, Attrs], Any]:
    """The inverse of `real` (0) or `imag` (1): the base keeps its other part."""

    def inverse(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
        parts = [value, builder.call("imag", base)[0]] if part == 0 else [builder.call("real", base)[0], value]
        return builder.call("view_as_complex", builder.call("stack", parts, axis=base.rank)[0])[0]

    return inverse


def _called(name: str) -> Callable[[Any, Value, Value, Attrs], Any]:
    """The inverse that is an operator of the updated view alone."""
    return lambda builder, base, value, attrs: builder.call(name, value)[0]


def _itself(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    return value


#: For each view operator, a function of the builder, the base, the updated view and the attributes that returns the
#: updated base; None where several elements of the view are one element of the base.
VIEW_INVERSES: dict[str, Callable[[Any, Value, Value, Attrs], Any]] = {
    "reshape": _reshaped, "reshape_like": _reshaped, "squeeze": _reshaped, "expand_dims": _reshaped,
    "expand": _expanded, "broadcast_like": _expanded, "transpose": _transposed, "slice": _sliced,
    "narrow": _narrowed, "stop_gradient": _itself, "diagonal": _placed("diagonal"),
    "unfold_tensor": _placed("unfold_tensor"), "as_strided": _placed("as_strided"),
    "real": _complex_part_inverse(0), "imag": _complex_part_inverse(1), "view_as_real": _called("view_as_complex"),
    "view_as_complex": _called("view_as_real"),
}  # fmt: skip
