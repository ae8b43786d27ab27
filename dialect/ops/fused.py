"""OneFlow's fused operators: compositions, which the compiler fuses again, and element-wise rows.

The gradients that OneFlow has as operators are derived from the compositions (`composite.adjoint`), or written out
where they read results instead of operands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.elementwise import elementwise, in_double
from oneflow.dialect.ops.softmax import last_axis_whole, narrow, widen
from oneflow.dialect.record import Call, Rule
from oneflow.dialect.sbp import Factors, broadcast_factors, repeated_factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters


def _alike(seed: str) -> Rule:
    """Factors of a gradient with a result for each of some operands, which is linear in `seed`.

    Axes along which an operand is broadcast stay whole: that operand's gradient adds over them.
    """

    def sbp(op: Call) -> Factors:
        shared = [f"d{i}" for i in reversed(range(min(d.rank for d in op.operands)))]
        for i in range(len(shared)):
            if len({d.shape[d.rank - 1 - i] for d in op.operands}) > 1:
                shared[-1 - i] = "_"
        sides = [
            [" ".join(["_"] * (d.rank - len(shared)) + shared) for d in values]
            for values in (op.operands, op.results)
        ]
        found = Factors(" -> ".join(map(", ".join, sides)))
        return found.linear_in(op, seed, results=range(len(op.results)))

    return sbp


# Boxes: the parts of the CIoU loss (Zheng et al., 2020)

CORNERS = "b1_x1, b1_x2, b2_x1, b2_x2, b1_y1, b1_y2, b2_y1, b2_y2"


def _distance(x: Any) -> Any:
    """The squared distance of two centres."""
    a, b, c, d, e, f, g, h = x
    across, down = c + d - a - b, g + h - e - f
    return (across * across + down * down) * 0.25


def _overlap(x: Any, larger: Any, smaller: Any) -> Any:
    """The area that two boxes share."""
    a, b, c, d, e, f, g, h = x
    return larger(smaller(b, d) - larger(a, c), 0.0) * larger(smaller(f, h) - larger(e, g), 0.0)


def _diagonal(x: Any, eps: float, larger: Any, smaller: Any) -> Any:
    """The squared diagonal of the box around two boxes."""
    a, b, c, d, e, f, g, h = x
    across, down = larger(b, d) - smaller(a, c), larger(f, h) - smaller(e, g)
    return across * across + down * down + eps


def _ratio(x: Any, eps: float, atan: Any) -> Any:
    """How far the aspect ratios are apart."""
    w1, h1, w2, h2 = x
    angle = atan(w2 / (h2 + eps)) - atan(w1 / (h1 + eps))
    return angle * angle * (4 / math.pi**2)


def _iou(x: Any, eps: float) -> Any:
    """The shared area by the area of both boxes."""
    w1, h1, w2, h2, inter = x
    return inter / (w1 * h1 + w2 * h2 - inter + eps)


BOXES: tuple[tuple[str, str, str, str, str, Any, Any], ...] = (
    ("center_dist", CORNERS, "", "rho2", "The squared distance of the centres of two boxes.",
     lambda *x: _distance(x), lambda *x: _distance(x)),
    ("intersection_area", CORNERS, "", "inter", "The area that two boxes share.",
     lambda *x: _overlap(x, s.maximum, s.minimum), lambda *x: _overlap(x, np.maximum, np.minimum)),
    ("convex_diagonal_squared", CORNERS, ", eps: float = 1e-08", "c2", "The squared diagonal around two boxes.",
     lambda *x, eps: _diagonal(x, eps, s.maximum, s.minimum),
     lambda *x, eps: _diagonal(x, eps, np.maximum, np.minimum)),
    ("iou", "w1, h1, w2, h2, inter", ", eps: float", "iou", "The shared area by the area of both boxes.",
     lambda *x, eps: _iou(x, eps), lambda *x, eps: _iou(x, eps)),
    ("ciou_diagonal_angle", "w1, h1, w2, h2", ", eps: float = 1e-08", "v", "How far two aspect ratios are apart.",
     lambda *x, eps: _ratio(x, eps, s.atan), lambda *x, eps: _ratio(x, eps, np.arctan)),
)  # fmt: skip
#: The names of the gradients: their cotangent, whether it comes first, and what follows the operands' names.
BOX_GRADIENTS = {
    "center_dist": ("rho2_diff", False, "{}_diff"), "intersection_area": ("inter_diff", False, "{}_diff"),
    "convex_diagonal_squared": ("c2_diff", True, "{}_diff"), "iou": ("diou", True, "d{}"),
    "ciou_diagonal_angle": ("v_diff", False, "{}_diff"),
}  # fmt: skip
for _name, _operands, _attr, _result, _doc, _scalar, _reference in BOXES:
    elementwise(
        f"fused_get_{_name}({_operands}{_attr}) -> {_result}", _doc, scalar=_scalar, reference=in_double(_reference)
    )
    _seed, _first, _form = BOX_GRADIENTS[_name]
    _wanted = ("w1", "h1", "inter") if _name == "iou" else tuple(_operands.split(", "))
    _all = f"{_seed}, {_operands}" if _first else f"{_operands}, {_seed}"
    adjoint(
        f"fused_get_{_name}_grad({_all}{_attr}) -> {', '.join(map(_form.format, _wanted))}",
        f"The gradients of `fused_get_{_name}`.",
        of=f"fused_get_{_name}", seeds=(_seed,), wanted=_wanted, sbp=_alike(_seed),
    )  # fmt: skip

# Softmax with what comes before and after it


def _masked_softmax(ops: Builder, op: Call) -> Value:
    """softmax of scaled elements, those where the mask is 0 replaced by `mask_fill_value`; in f32 at least."""
    kept = ops.cast(op.mask, dtype=dtypes.bool_)
    scaled = widen(ops, op.x) * op.scale_value
    gone = ops.logical_not(kept)
    filled = ops.masked_fill(scaled, gone, has_float_operand=True, float_operand=op.mask_fill_value)
    return narrow(ops, ops.softmax(filled), op.x.dtype)


def _check_mask(op: Call) -> None:
    x = op.x if "x" in op.inputs else op.dy
    expect_dtype(op, "the first operand", op.operands[0], dtypes.FLOATS)
    expect_dtype(op, "mask", op.mask, (dtypes.bool_,))
    expect_rank(op, "mask", op.mask, x.rank)
    for i, size in enumerate(op.mask.shape):
        if size != 1:
            expect_dim(op, f"axis {i} of mask", size, x.shape[i])


def _numpy_softmax(x: Any) -> Any:
    return scipy.special.softmax(x, -1) if x.size else x


def _numpy_masked_softmax(x: Any, mask: Any, *, scale_value: Any, mask_fill_value: Any) -> Any:
    scaled = np.where(mask, x.astype(np.float64) * np.float32(scale_value), np.float32(mask_fill_value))
    return _numpy_softmax(scaled).astype(x.dtype)


def _rows(op: Call) -> Factors:
    """Every axis but the last can be split."""
    rank = op.results[0].rank
    whole = [f"d{i}" for i in range(rank - 1)] + ["_"]
    sides = (" ".join(whole) for _ in op.operands)
    return Factors(f"{', '.join(sides)} -> {', '.join([' '.join(whole)] * len(op.results))}")


composite(
    "fused_scale_mask_softmax(x, mask, scale_value: float = 1.0, mask_fill_value: float = 0.0) -> y",
    "softmax(x * scale_value), where the mask is false of mask_fill_value instead.",
    write=_masked_softmax, reference=_numpy_masked_softmax, check=_check_mask, sbp=_rows,
)  # fmt: skip


def _write_masked_softmax_grad(ops: Builder, op: Call) -> Value:
    slope = ops.softmax_grad(widen(ops, op.y), widen(ops, op.dy)) * op.scale_value
    kept = ops.where(op.mask, slope, ops.zero_like(slope))
    return narrow(ops, kept, op.dy.dtype)


def _numpy_softmax_grad(y: Any, dy: Any) -> Any:
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    return y * (dy - (y * dy).sum(-1, keepdims=True))


composite(
    "fused_scale_mask_softmax_grad(y, dy, mask, scale_value: float = 0.0) -> dx",
    "The gradient of `fused_scale_mask_softmax`.", write=_write_masked_softmax_grad, check=_check_mask,
    sbp=lambda op: _rows(op).linear_in(op, "dy"),
    reference=lambda y, dy, mask, *, scale_value: np.where(
        mask, _numpy_softmax_grad(y, dy) * np.float32(scale_value), 0
    ).astype(dy.dtype),
)  # fmt: skip


def _write_bias_softmax(ops: Builder, op: Call) -> Value:
    total = widen(ops, op.x) * op.scale + widen(ops, op.mask)
    total = total if op.bias is None else total + widen(ops, op.bias)
    return narrow(ops, ops.softmax(total), op.x.dtype)


def _numpy_bias_softmax(x: Any, mask: Any, bias: Any, *, scale: Any) -> Any:
    total = x.astype(np.float64) * np.float32(scale) + mask
    return _numpy_softmax(total if bias is None else total + bias).astype(x.dtype)


def _broadcast_rows(op: Call) -> Factors:
    """Every axis but the last can be split; the operands are aligned at the last axis."""
    names = [*(f"d{i}" for i in range(op.results[0].rank - 1)), "_"]
    sides = [" ".join(names[len(names) - d.rank :]) for d in op.operands]
    return Factors(f"{', '.join(sides)} -> {' '.join(names)}")


composite(
    "fused_scale_mask_bias_softmax(x, mask, bias?, scale: float = 0.125, inplace: bool = False) -> out",
    "softmax(x * scale + mask + bias).", write=_write_bias_softmax, reference=_numpy_bias_softmax,
    sbp=_broadcast_rows,
)  # fmt: skip
composite(
    "fused_scale_mask_bias_softmax_grad(y, dy, scale: float = 0.35355) -> dx",
    "The gradient of `fused_scale_mask_bias_softmax` by x.",
    write=lambda ops, op: narrow(ops, ops.softmax_grad(widen(ops, op.y), widen(ops, op.dy)) * op.scale, op.dy.dtype),
    reference=lambda y, dy, *, scale: (_numpy_softmax_grad(y, dy) * np.float32(scale)).astype(dy.dtype),
    sbp=lambda op: last_axis_whole(op).linear_in(op, "dy"),
)  # fmt: skip

# Activations


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))


def _along(x: Any, b: Any, axis: int) -> Any:
    """The vector `b` along an axis of `x`."""
    return b.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


def _split_with_bias(op: Call) -> Factors:
    names, axis = letters(op.a.shape), op.axis % op.a.rank
    whole = " ".join(names)
    more = [f", {whole}"] * (len(op.operands) - 2)
    return Factors(f"{whole}, {names[axis]}{''.join(more)} -> {whole}")


composite(
    "fused_bias_add_gelu(a, b, axis: int32 = 0) -> out", "gelu(a + b), the bias b along `axis`.",
    write=lambda ops, op: ops.gelu(ops.bias_add(op.a, op.b, axis=op.axis)),
    reference=in_double(lambda a, b, *, axis: _gelu(a + _along(a, b, axis))), sbp=_split_with_bias,
)  # fmt: skip
adjoint(
    "fused_bias_add_gelu_grad(a, b, dy, axis: int32 = 0) -> dx", "The gradient of `fused_bias_add_gelu` by a.",
    of="fused_bias_add_gelu", seeds=("dy",), wanted=("a",),
    sbp=lambda op: _split_with_bias(op).linear_in(op, "dy"),
)  # fmt: skip


def _fast_gelu(x: Any, tanh: Any) -> Any:
    return x * 0.5 * (tanh((x + x * x * x * 0.044714998453855515) * math.sqrt(2 / math.pi)) + 1.0)


elementwise(
    "fused_fast_gelu_mul(in, multiplier) -> out", "fast_gelu(in) * multiplier.",
    scalar=lambda x, m: _fast_gelu(x, s.tanh) * m, reference=in_double(lambda x, m: _fast_gelu(x, np.tanh) * m),
    sbp=lambda op: broadcast_factors([d.shape for d in op.operands], op.results[0].rank).linear_in(op, "multiplier"),
)  # fmt: skip
adjoint(
    "fused_fast_gelu_mul_grad(out_diff, in, multiplier) -> in_diff, multiplier_diff",
    "The gradients of `fused_fast_gelu_mul`.", of="fused_fast_gelu_mul", seeds=("out_diff",),
    sbp=lambda op: _alike("out_diff")(op).linear_in(op, "multiplier"),
)  # fmt: skip

# Conversions, sums and products


def _cast_factors(op: Call) -> Factors:
    """Splits of `in`, and partial sums of it between floats."""
    names = " ".join(letters(op.in_.shape))
    found = Factors(f"{names}, {' '.join('_' * op.dtype_like.rank)} -> {names}")
    return found.linear_in(op, "in") if op.in_.dtype.is_float and op.dtype_like.dtype.is_float else found


composite(
    "cast_like(in, dtype_like) -> out", "`in` in the element type of `dtype_like`.",
    write=lambda ops, op: ops.cast(op.in_, dtype=op.dtype_like.dtype), sbp=_cast_factors, shapes_of=("dtype_like",),
    reference=lambda x, like: x != 0 if like.dtype == np.bool_ else x.astype(like.dtype),
)  # fmt: skip


def _check_vectors(op: Call) -> None:
    for name in ("x", "y"):
        expect_rank(op, name, op[name], 1)
    expect_dim(op, "the size of y", op.y.shape[0], op.x.shape[0])


composite(
    "dot(x, y) -> out", "The sum of the products of two vectors.", check=_check_vectors,
    write=lambda ops, op: narrow(ops, ops.reduce_sum(widen(ops, op.x) * widen(ops, op.y), axis=[0]), op.x.dtype),
    reference=lambda x, y: np.dot(*(a.astype(np.float64) for a in (x, y))).astype(x.dtype),
    sbp=Factors("k, k -> ", "each"),
)  # fmt: skip


def _check_weighted(op: Call) -> None:
    if len(op.weights) != len(op.in_):
        raise op.error(f"expected a weight for each of {len(op.in_)} tensors, got {len(op.weights)}")
    for x in op.in_[1:]:
        if not x.compatible(op.in_[0]):
            raise op.error(f"expected tensors of one shape, got {op.in_[0]} and {x}")


def _weighted_sum(ops: Builder, op: Call) -> Value:
    total = widen(ops, op.in_[0]) * (op.weights[0] * op.alpha)
    for x, weight in zip(op.in_[1:], op.weights[1:], strict=True):
        total = total + widen(ops, x) * (weight * op.alpha)
    return narrow(ops, total, op.in_[0].dtype)


composite(
    "fused_weighted_sum(in*, weights: list_float, alpha: float = 1.0) -> out",
    "The sum of tensors of one shape, each times its weight, times alpha.", write=_weighted_sum,
    check=_check_weighted,
    reference=lambda xs, *, weights, alpha: sum(
        x.astype(np.float64) * w * np.float32(alpha) for x, w in zip(xs, weights, strict=True)
    ).astype(xs[0].dtype),
    sbp=lambda op: repeated_factors(" ".join(letters(op.in_[0].shape)), len(op.in_), 1, "joint"),
)  # fmt: skip
composite(
    "sqrt_square_sum(x) -> y", "The square root of the sum of all squares.",
    write=lambda ops, op: ops.reshape(ops.sqrt(ops.square_sum(op.x)), shape=[]),
    reference=lambda x: np.asarray(np.sqrt((x.astype(np.float64) ** 2).sum()), x.dtype).reshape(()),
)  # fmt: skip
composite(
    "tuple_identity(in*) -> out*", "The tensors themselves.", write=lambda ops, op: tuple(map(ops.identity, op.in_)),
    reference=lambda xs: tuple(xs), unoffered="layouts that differ between the tensors",
)  # fmt: skip
