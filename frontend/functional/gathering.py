"""Functions that read at positions given by tensors of integers. Positions count from 0; one outside is an error of
the run.
"""

from __future__ import annotations

from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional import reduction as r
from oneflow.frontend.functional import shape as sh
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import axis

__all__ = [
    "embedding", "gather", "index_select", "one_hot",
]  # fmt: skip


def gather(x: Any, dim: int, index: Any) -> Tensor:
    """`x` at `index` along `dim`: out[i][j] = x[index[i][j]][j] for dim 0; index has the rank of x, where a scalar
    has the rank of a vector.
    """
    x, index = as_tensor(x), as_tensor(index)
    at = axis(x, dim, scalar=True)
    return sh.on_vector(lambda positions: dispatch("dim_gather", sh.as_vector(x), positions, dim=at), index)


def index_select(x: Any, dim: int, index: Any) -> Tensor:
    """The slices of `x` along `dim` that a vector of positions names, in its order."""
    x, index = as_tensor(x), as_tensor(index)
    if index.rank != 1:
        raise fail(f"expected a vector of positions for index_select, got {index.desc}; write x[..] or flow.gather")
    at = axis(x, dim, scalar=True)
    return sh.on_vector(lambda y: dispatch("gather", y, index, axis=at), x)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at the positions `input`: `(..)` and `(rows, width)` give `(.., width)`.

    The row `padding_idx`, which may count from the last, gets no gradient. With `max_norm` rows that are read are
    first scaled in place, so that their `norm_type`-norm is at most that.

    Raises:
        OneFlowError: there is no such row; gradients are to be scaled by frequency, or sparse, which they never are;
            or rows of a tensor would be scaled that the function computes or is called with.
    """
    weight, input = as_tensor(weight), as_tensor(input)
    for name, is_set in (("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
        if is_set:
            raise fail(
                f"expected {name}=False, got {is_set!r}: gradients of embeddings are dense sums over all positions"
            )
    padding_idx = -1 if padding_idx is None else _row(weight, padding_idx)
    if max_norm is not None:
        _bound_rows(weight, input, max_norm, norm_type)
    return dispatch("embedding", weight, input, padding_idx=padding_idx)


@no_grad()
def _bound_rows(weight: Tensor, positions: Tensor, most: float, p: float) -> None:
    """Scales rows at positions in place, so that their p-norm is at most that."""
    at = sh.reshape(positions, (-1,))
    rows = dispatch("gather", weight, at, axis=0)
    wide = cast(rows, dtypes.float32) if weight.dtype.bits == 16 else rows
    norms: Any = r.norm(wide, p, 1, keepdim=True)
    scaled = cast(e.where(e.gt(norms, most), wide * (most / (norms + 1e-7)), wide), weight.dtype)
    if current_builder().eager:
        weight[at] = scaled
    else:
        # Rows that are read several times have equal updates.
        bounded = dispatch("tensor_scatter_nd_update", weight, scaled, sh.unsqueeze(at, 1), any_order=True)
        current_builder().assign(weight, bounded, "embedding")


def _row(weight: Tensor, number: int) -> int:
    """The number of a row counted from the first.

    Raises:
        OneFlowError: there is no such row, or it is counted from an unknown last one.
    """
    rows = weight.shape[0]
    if (rows is None and number < 0) or (rows is not None and not -rows <= number < rows):
        raise fail(f"expected padding_idx to be a row of {weight.desc}, got {number}")
    return number if rows is None or number >= 0 else number + rows


def one_hot(x: Any, num_classes: int = -1, on_value: float = 1, off_value: float = 0) -> Tensor:
    """Rows of `num_classes` zeros with a one at each position in `x`: `(..)` gives `(.., num_classes)`, int64.

    `on_value` and `off_value` stand for the one and the zeros; floats give float32. -1 stands for one class more than
    the largest position in a tensor that has values.
    """
    if num_classes == -1 and current_builder().eager:
        positions = as_tensor(x).array
        if positions.min(initial=0) < 0:
            raise fail(f"expected positions of at least 0 for one_hot, got {positions.min()}")
        num_classes = int(positions.max(initial=-1)) + 1
    if not isinstance(num_classes, int) or num_classes < 0:
        raise fail(f"expected the number of classes as an int of at least 0, got {num_classes!r}: the shape needs it")
    values = {"on_value": on_value, "off_value": off_value}
    if any(isinstance(v, float) for v in values.values()):
        floats = {f"floating_{name}": float(value) for name, value in values.items()}
        return dispatch("one_hot", x, dtype=get_default_dtype(), depth=num_classes, **floats)
    integers = {f"integer_{name}": value for name, value in values.items()}
    return dispatch("one_hot", x, dtype=dtypes.int64, depth=num_classes, **integers)
