"""View inverses: for each view operator, the operator that writes an updated view back into its base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oneflow.dialect.builder import Value
from oneflow.dialect.ops.slicing import END

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


def _itself(builder: Any, base: Value, value: Value, attrs: Attrs) -> Any:
    return value


#: For each view operator, a function of the builder, the base, the updated view and the attributes that gives the
#: updated base; None where several elements of the view are one element of the base.
VIEW_INVERSES: dict[str, Callable[[Any, Value, Value, Attrs], Any]] = {
    "reshape": _reshaped, "reshape_like": _reshaped, "squeeze": _reshaped, "expand_dims": _reshaped,
    "expand": _expanded, "broadcast_like": _expanded, "transpose": _transposed, "slice": _sliced,
    "narrow": _narrowed, "stop_gradient": _itself,
}  # fmt: skip
