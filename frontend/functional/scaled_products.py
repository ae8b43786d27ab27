"""Products of matrices of 8 bits with scales: PyTorch's `torch.nn.functional.scaled_mm` and `torch._scaled_mm`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.elementwise import mul
from oneflow.frontend.functional.rules import cast

__all__ = ["ScalingType", "_scaled_mm", "scaled_mm"]


class ScalingType(enum.Enum):
    """The elements that share a scale, with PyTorch's names and numbers."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


def _scaled_mm(
    input: Any,
    mat2: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: DType | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """input @ mat2 * scale_a * scale_b + bias of matrices of 8 bits, in `out_dtype`, by default the type of `input`.

    The scales are float32: one number each, or `scale_a` (rows, 1) and `scale_b` (1, columns). A result of 8 bits is
    multiplied by `scale_result`. Sums are float32; `use_fast_accum` would allow fewer bits.
    """
    a, b = as_tensor(input), as_tensor(mat2)
    operands = (a, b, as_tensor(scale_a), as_tensor(scale_b), None if bias is None else as_tensor(bias))
    target = a.dtype if out_dtype is None else out_dtype
    if scale_result is None or not target.is_stored_only:
        return dispatch("scaled_mm", *operands, out_dtype=target)
    return cast(mul(dispatch("scaled_mm", *operands, out_dtype=dtypes.float32), scale_result), target)


def scaled_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Any = None,
    output_dtype: DType = dtypes.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """mat_a @ mat_b * scale_a * scale_b + bias of matrices of 8 bits, in `output_dtype`, with sums in float32.

    The recipes are `ScalingType.TensorWise` or `RowWise`; scales of blocks, swizzles and other contracted dimensions
    are refused.

    Raises:
        OneFlowError: a recipe is neither, or there is a swizzle or a `contraction_dim`.
    """
    (first,), (second,) = map(_as_list, (scale_recipe_a, scale_recipe_b))
    if first is not second or first not in (ScalingType.TensorWise, ScalingType.RowWise):
        raise fail(f"expected ScalingType.TensorWise twice or ScalingType.RowWise twice, got {first} and {second}")
    if swizzle_a or swizzle_b or contraction_dim:
        raise fail(
            "expected no swizzle_a, swizzle_b and contraction_dim for scales of tensors or rows, got"
            f" {swizzle_a}, {swizzle_b} and {contraction_dim}"
        )
    (left,), (right,) = map(_as_list, (scale_a, scale_b))
    return _scaled_mm(mat_a, mat_b, left, right, bias, None, output_dtype, use_fast_accum)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]
