"""Tensors that are made: constants and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import as_tensor
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.sizes import maximum
from oneflow.frontend.importers.torch.table import aten


@aten("full.default", "full_like.default", "new_full.default", "scalar_tensor.default", "fill.Scalar")
def full(*args: Any, dtype: Any = None, out: Any) -> Any:
    value = args[-1]
    if isinstance(value, (Size, Tensor)):
        return F.expand(F.cast(value, out.dtype), *out.shape) if out.shape else F.cast(value, out.dtype)
    return F.full(out.shape, value, dtype=out.dtype)


@aten("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default",
      "new_empty.default", "zero.default", "empty_strided.default", "new_empty_strided.default",
      "empty_permuted.default", "_efficientzerotensor.default")  # fmt: skip
def zeros(*_: Any, dtype: Any = None, out: Any) -> Any:
    return F.full(out.shape, 0, dtype=out.dtype)


@aten("ones.default", "ones_like.default", "new_ones.default")
def ones(*_: Any, dtype: Any = None, out: Any) -> Any:
    return F.full(out.shape, 1, dtype=out.dtype)


@aten("fill.Tensor")
def fill(x: Any, value: Any) -> Any:
    return F.add(F.zeros_like(x), F.cast(value, x.dtype))


@aten("arange.default", "arange.start", "arange.start_step")
def arange(*args: Any, dtype: Any = None, out: Any) -> Any:
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if isinstance(step, Size):
        return F.add(F.mul(F.arange(out.shape[0]), step), start)
    return F.arange(start, end, step, dtype=out.dtype)


@aten("prims.iota.default")
def iota(length: Any, *, start: Any, step: Any, dtype: Any, requires_grad: bool) -> Any:
    return F.add(F.mul(F.arange(length, dtype=dtype), step), start)


@aten("eye.default", "eye.m")
def eye(n: Any, m: Any = None, *, dtype: Any = None, out: Any) -> Any:
    return F.eye(n, m, dtype=out.dtype)


@aten("linspace.default")
def linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, out: Any) -> Any:
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        return linspace_of_tensors(start, end, steps, out=out)
    return F.linspace(start, end, steps, dtype=out.dtype)


@aten("linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace_of_tensors(start: Any, end: Any, steps: Any, dtype: Any = None, *, out: Any) -> Any:
    number = F.arange(steps, dtype=out.dtype if out.dtype.is_float else None)
    step = F.div(F.sub(end, start), maximum(steps - 1, 1))
    return F.add(F.mul(number, step), start)


@aten("logspace.default")
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, out: Any) -> Any:
    return F.logspace(start, end, steps, base, dtype=out.dtype)


@aten("tril_indices.default")
def tril_indices(rows: int, columns: int, offset: int = 0, dtype: Any = None) -> Any:
    return as_tensor(np.stack(np.tril_indices(rows, offset, columns)))


@aten("triu_indices.default")
def triu_indices(rows: int, columns: int, offset: int = 0, dtype: Any = None) -> Any:
    return as_tensor(np.stack(np.triu_indices(rows, offset, columns)))
