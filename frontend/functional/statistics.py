"""Quantiles, and how well scores separate two classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.gathering import index_select
from oneflow.frontend.functional.ordering import sort
from oneflow.frontend.functional.rules import cast, constant, to_float

__all__ = ["quantile", "roc_auc_score"]

#: The value of a quantile between two elements, by its position among the ordered elements.
_INTERPOLATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda position: position,
    "lower": e.floor,
    "higher": e.ceil,
    "midpoint": lambda position: e.mul(e.add(e.floor(position), e.ceil(position)), 0.5),
    "nearest": e.rint,
}


def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear"
) -> Tensor:
    """The quantiles `q` of the elements along `dim`, or of all elements; NaN where an element is NaN.

    `q` is a number or a vector; its dimension is then the first. `interpolation` between two elements is "linear",
    "lower", "higher", "midpoint" or "nearest".

    Raises:
        OneFlowError: a fraction is not from 0 to 1, the tensor is empty, or elements are no floats.
    """
    x = as_tensor(input)
    if interpolation not in _INTERPOLATIONS:
        raise fail(f"expected interpolation to be one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    fractions = as_tensor(q) if not isinstance(q, (int, float)) else constant(float(q), x.dtype)
    if not x.dtype.is_float or fractions.dtype != x.dtype or fractions.rank > 1:
        raise fail(f"expected floats, and q as a number or a vector of their type, got {x.desc} and {fractions.desc}")
    if current_builder().eager and not bool(r.all(e.logical_and(e.ge(fractions, 0), e.le(fractions, 1)))):
        raise fail(f"expected fractions from 0 to 1 for quantile, got {q}")
    rows = sh.reshape(x, (-1,)) if dim is None else sh.movedim(x, dim, -1) if x.rank else sh.reshape(x, (1,))
    size = rows.shape[-1]
    if not size:
        raise fail(f"expected a static number of elements above 0 for quantile, got {x.desc}")
    quantiles = _of_rows(rows, sh.reshape(fractions, (-1,)), size, interpolation)
    if dim is None or not x.rank:
        quantiles = sh.reshape(quantiles, (-1, *[1] * (x.rank * keepdim)))
    elif keepdim:
        quantiles = sh.unsqueeze(quantiles, sh.axis(x, dim) + 1)
    return quantiles if fractions.rank else sh.select(quantiles, 0, 0)


def _of_rows(rows: Tensor, fractions: Tensor, size: int, interpolation: str) -> Tensor:
    """The quantiles of each row, with the fractions as the first dimension."""
    ordered = sh.movedim(sort(rows)[0], -1, 0)
    positions = _INTERPOLATIONS[interpolation](e.mul(cast(fractions, dtypes.float64), float(size - 1)))
    bounds = [e.clamp(position, 0, size - 1) for position in (e.floor(positions), e.ceil(positions))]
    low, high = (index_select(ordered, 0, cast(bound, dtypes.int64)) for bound in bounds)
    fraction = sh.reshape(cast(e.sub(positions, bounds[0]), rows.dtype), (-1, *[1] * (rows.rank - 1)))
    between: Tensor = e.where(e.eq(low, high), low, e.lerp(low, high, sh.expand_as(fraction, low)))
    quantiles: Tensor = e.where(r.any(e.isnan(rows), -1), math.nan, between)
    return quantiles


def roc_auc_score(label: Any, pred: Any) -> Tensor:
    """The area under the curve of the true positives over the false positives (float32), of shape (1,).

    `label` has 1 for positives, else 0; `pred` are scores, of which equal ones count half.

    For labels of one class the result of a traced function is NaN.

    Raises:
        OneFlowError: sizes differ, or all labels are of one class.
    """
    labels: Any = as_tensor(label)
    if current_builder().eager and len({bool(value) for value in labels.array.reshape(-1)}) < 2:
        raise fail(f"expected labels of both classes for roc_auc_score, got {labels.desc} of one class")
    return dispatch("roc_auc_score", labels, to_float(pred))
