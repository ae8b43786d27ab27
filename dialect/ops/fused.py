"""OneFlow's fused operators: compositions, which the compiler fuses again, and element-wise rows.

The gradients that OneFlow has as operators are derived from the compositions (`composite.adjoint`), or written out
where they read results instead of operands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._scipy import scipy
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import adjoint, composite
from oneflow.dialect.elementwise import elementwise, in_double
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Rule, no_grad
from oneflow.dialect.sbp import Factors, broadcast_factors, repeated_factors
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters, same_dtype


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
        factors = Factors(" -> ".join(map(", ".join, sides)))
        return factors.linear_in(op, seed, results=range(len(op.results)))

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

# Boxes by their centres, widths and heights

CENTRES, EDGES = "x1, y1, w1, h1, x2, y2, w2, h2", "b1_x1, b1_x2, b1_y1, b1_y2, b2_x1, b2_x2, b2_y1, b2_y2"


def _check_alike(op: Call) -> None:
    """All operands have the type of the first."""
    first, *others = op.inputs
    expect_dtype(op, first, op[first], dtypes.FLOATS)
    for name in others:
        expect_type(op, name, op[first])


def _linear_pairs(op: Call) -> Factors:
    """Factors of a map whose results of each axis of each box are linear in the pair of operands of that axis."""
    names = list(op.inputs)
    centred = names[0] == "x1"
    factors: Factors = _alike("")(op).linear_in(op, *names, results=range(8))
    for axis in (0, 1, 4, 5):
        edges = (axis, axis + 1) if axis % 4 == 0 else (axis + 1, axis + 2)
        centre = (axis, axis + 2)
        read, made = (centre, edges) if centred else (edges, centre)
        factors = factors.linear_in(op, *(names[i] for i in read), results=made)
    return factors


def _corners(*x: Any) -> tuple[Any, ...]:
    """The two edges of two boxes along each axis, from centres and sizes."""
    pairs = ((x[i], x[i + 2] * 0.5) for i in (0, 1, 4, 5))
    return tuple(edge for centre, half in pairs for edge in (centre - half, centre + half))


def _centres(*x: Any) -> tuple[Any, ...]:
    """The transpose of `_corners`."""
    boxes = ((x[i : i + 2], x[i + 2 : i + 4]) for i in (0, 4))
    return tuple(g for (x, y) in boxes for g in (x[0] + x[1], y[0] + y[1], (x[1] - x[0]) * 0.5, (y[1] - y[0]) * 0.5))


def _of_all(function: Any) -> Rule:
    """A decomposition by a function of all operands, in f32 at least."""

    def write(ops: Builder, op: Call) -> tuple[Value, ...]:
        dtype = op.operands[0].dtype
        return tuple(narrow(ops, v, dtype) for v in function(*(widen(ops, x) for x in op.operands)))

    return write


def _numpy_of_all(function: Any) -> Rule:
    return lambda *x: tuple(v.astype(x[0].dtype) for v in function(*(a.astype(np.float64) for a in x)))


for _name, _operands, _results, _function, _doc in (
    ("coord", CENTRES, EDGES, _corners, "The edges of two boxes from their centres, widths and heights."),
    ("coord_grad", ", ".join(f"{n}_diff" for n in EDGES.split(", ")),
     ", ".join(f"{n}_diff" for n in CENTRES.split(", ")), _centres,
     "The gradients of `fused_get_boundding_boxes_coord`."),
):  # fmt: skip
    composite(
        f"fused_get_boundding_boxes_{_name}({_operands}) -> {_results}", _doc, write=_of_all(_function),
        reference=_numpy_of_all(_function), check=_check_alike, sbp=_linear_pairs,
    )  # fmt: skip


def _ciou(v: Any, iou: Any, rho2: Any, c2: Any, *, eps: Any) -> tuple[Any, Any]:
    """The complete intersection over union, and the weight of the aspect ratios."""
    alpha = v / (v - iou + (1.0 + eps))
    return iou - (rho2 / c2 + v * alpha), alpha


def _write_ciou(ops: Builder, op: Call) -> tuple[Value, ...]:
    wide = (widen(ops, x) for x in op.operands)
    return tuple(narrow(ops, x, op.v.dtype) for x in _ciou(*wide, eps=op.eps))


def _ciou_gradient(ops: Builder, op: Call, dy: Value | None, _: Value | None) -> dict[str, Any]:
    """The gradient with the weight of the aspect ratios as a constant (Zheng et al., 2020)."""
    if dy is None:
        return {}
    gradients = ops.call("fused_get_ciou_result_grad", dy, op.alpha, op.rho2, op.c2)
    return dict(zip(("v", "iou", "rho2", "c2"), gradients, strict=True))


composite(
    "fused_get_ciou_result(v, iou, rho2, c2, eps: float) -> y, alpha",
    "iou - rho2 / c2 - v * alpha, and alpha = v / (v - iou + 1 + eps), which is a constant to the gradient.",
    write=_write_ciou, check=_check_alike, sbp=_alike(""), grad=_ciou_gradient,
    reference=lambda *x, eps: tuple(
        a.astype(x[0].dtype) for a in _ciou(*(v.astype(np.float64) for v in x), eps=np.float64(np.float32(eps)))
    ),
)  # fmt: skip


def _ciou_gradients(dy: Any, alpha: Any, rho2: Any, c2: Any) -> tuple[Any, ...]:
    return -(alpha * dy), dy, -(dy / c2), rho2 / (c2 * c2) * dy


composite(
    "fused_get_ciou_result_grad(dy, alpha, rho2, c2) -> dv, diou, drho2, dc2",
    "The gradients of `fused_get_ciou_result` with alpha as a constant.",
    write=_of_all(_ciou_gradients), reference=_numpy_of_all(_ciou_gradients), check=_check_alike,
    sbp=lambda op: _alike("dy")(op).linear_in(op, "alpha").linear_in(op, "rho2", results=(3,))
    .linear_in(op, "alpha", "rho2", results=(0, 3)),
)  # fmt: skip

# Activations


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))


def _along(x: Any, b: Any, axis: int) -> Any:
    """The vector `b` along an axis of `x`."""
    return b.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


def _split_with_bias(op: Call) -> Factors:
    names, axis = letters(op.a.shape), op.axis % op.a.rank
    factors = " ".join(names)
    more = [f", {factors}"] * (len(op.operands) - 2)
    return Factors(f"{factors}, {names[axis]}{''.join(more)} -> {factors}")


composite(
    "fused_bias_add_gelu(a, b, axis: int32 = 0) -> out", "gelu(a + b), the bias b along `axis`.",
    write=lambda ops, op: ops.gelu(ops.bias_add(op.a, op.b, axis=op.axis)),
    reference=in_double(lambda a, b, *, axis: _gelu(a + _along(a, b, axis))), sbp=_split_with_bias,
)  # fmt: skip
adjoint(
    "fused_bias_add_gelu_grad(a, b, dy, axis: int32 = 0) -> dx",
    "The gradient of `fused_bias_add_gelu` with respect to a.",
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


def _write_masked_bias(ops: Builder, op: Call) -> Value:
    out = ops.dropout_grad(ops.bias_add(op.a, op.b, axis=op.axis), op.mask, scale=op.scale)
    value: Value = out if op._add_to_output is None else out + op._add_to_output
    return value


def _numpy_masked_bias(a: Any, b: Any, mask: Any, added: Any, *, axis: Any, scale: Any) -> Any:
    total = a.astype(np.float64) + _along(a, b, axis)
    out = np.where(mask, total * np.float32(scale), 0)
    return (out if added is None else out + added).astype(a.dtype)


composite(
    "fused_bias_add_mask_scale(a, b, mask, _add_to_output?, axis: int32 = 0, scale: float = 1.0, seed: int64 = 0)"
    " -> out",
    "(a + b) * scale where the mask is true, else 0 (+ _add_to_output), the bias b along `axis`; `seed` is not read.",
    write=_write_masked_bias, reference=_numpy_masked_bias,
    sbp=lambda op: _split_with_bias(op).linear_in(op, "a", "b", "_add_to_output"),
)  # fmt: skip


def _write_scaled_triangle(ops: Builder, op: Call) -> Value:
    kind = "float" if op.is_floating_scale_value else "int"
    factor = op.floating_scale_value if op.is_floating_scale_value else op.integer_scale_value
    scaled = ops.scalar_mul(op.in_, **{f"has_{kind}_operand": True, f"{kind}_operand": factor})
    fill = {n: op[n] for n in ("floating_fill_value", "integer_fill_value", "is_floating_fill_value")}
    value: Value = ops.tril(scaled, diagonal=op.diagonal, **fill)
    return value


def _numpy_scaled_triangle(x: Any, *, diagonal: Any, **values: Any) -> Any:
    kinds = {n: "floating" if values[f"is_floating_{n}_value"] else "integer" for n in ("fill", "scale")}
    fill, scale = (values[f"{kind}_{n}_value"] for n, kind in kinds.items())
    kept = np.tril(np.ones(x.shape[-2:], np.bool_), diagonal)
    if x.dtype.kind == "f":
        return np.where(kept, x.astype(np.float64) * scale, fill).astype(x.dtype)
    return np.where(kept, x * np.asarray(int(scale)).astype(x.dtype), np.asarray(int(fill)).astype(x.dtype))


def _triangle_factors(op: Call) -> Factors:
    names = " ".join([*(f"d{i}" for i in range(op.in_.rank - 2)), "_", "_"])
    fill = op.floating_fill_value if op.is_floating_fill_value else op.integer_fill_value
    return Factors(f"{names} -> {names}", "joint" if fill == 0 else None)


composite(
    "fused_scale_tril(in, diagonal: int64 = 0, floating_fill_value: double = 0.0, integer_fill_value: int64 = 0,"
    " is_floating_fill_value: bool = False, floating_scale_value: double = 1.0, integer_scale_value: int64 = 1,"
    " is_floating_scale_value: bool = False) -> out",
    "The lower triangle of each matrix times a number, and the fill value above the diagonal.",
    write=_write_scaled_triangle, reference=_numpy_scaled_triangle, sbp=_triangle_factors,
)  # fmt: skip

# Conversions, sums and products


def _cast_factors(op: Call) -> Factors:
    """Splits of `in`, and partial sums of it between floats."""
    names = " ".join(letters(op.in_.shape))
    factors = Factors(f"{names}, {' '.join('_' * op.dtype_like.rank)} -> {names}")
    return factors.linear_in(op, "in") if op.in_.dtype.is_float and op.dtype_like.dtype.is_float else factors


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


def _check_scale(op: Call) -> None:
    for name in ("x", "scale_by_tensor"):
        expect_dtype(op, name, op[name], dtypes.FLOATS)
    expect_rank(op, "scale_by_tensor", op.scale_by_tensor, 1)
    expect_dim(op, "the size of scale_by_tensor", op.scale_by_tensor.shape[0], 1)


def _write_cast_scale(ops: Builder, op: Call) -> Value:
    scale = ops.reshape(widen(ops, op.scale_by_tensor), shape=[]) * op.scale
    x = narrow(ops, op.x, scale.dtype)
    return narrow(ops, x * scale, op.scale_by_tensor.dtype)


def _cast_scale_factors(op: Call) -> Factors:
    names = " ".join(letters(op.x.shape))
    return Factors(f"{names}, _ -> {names}", "each")


composite(
    "fused_cast_scale(x, scale_by_tensor, scale: double = 1.0) -> y",
    "x in the element type of `scale_by_tensor`, times its one element and `scale`.",
    write=_write_cast_scale, check=_check_scale, sbp=_cast_scale_factors,
    reference=lambda x, by, *, scale: (x.astype(np.float64) * (by.astype(np.float64)[0] * scale)).astype(by.dtype),
)  # fmt: skip


def _term(ops: Builder, x: Value, order: float) -> Value:
    """The term of an element in a norm of `order`."""
    term: Value
    if order == 0:
        term = ops.cast(ops.cast(x, dtype=dtypes.bool_), dtype=x.dtype)
    elif order == 2:
        term = ops.square(x)
    elif order == 1 or math.isinf(order):
        term = ops.abs(x)
    else:
        term = ops.scalar_pow(ops.abs(x), has_float_operand=True, float_operand=order)
    return term


def _norm(ops: Builder, xs: Sequence[Value], order: float) -> Value:
    """The norm of all elements of tensors; the norm of order 0 is 1 where any element is not 0."""
    over, join = (
        (f"reduce_{word}", f"broadcast_{word}imum")
        if (word := {math.inf: "max", -math.inf: "min"}.get(order))
        else ("reduce_sum", "broadcast_add")
    )
    terms = [ops.call(over, _term(ops, widen(ops, x), order), axis=range(x.rank))[0] for x in xs]
    total = functools.reduce(lambda a, b: ops.call(join, a, b)[0], terms)
    if order == 0:
        return _term(ops, total, 0)
    if order == 1 or math.isinf(order):
        return total
    value: Value = ops.scalar_pow(total, has_float_operand=True, float_operand=1 / order)
    return value


def _write_clipped(ops: Builder, op: Call) -> tuple[Value, ...]:
    total = _norm(ops, op.model_diff, op.norm_type)
    factor = ops.clip_by_scalar_max(ops.reciprocal(total + 1e-6) * op.max_norm, floating_max=1.0)
    clipped = (narrow(ops, widen(ops, x) * factor, x.dtype) for x in op.model_diff)
    return ops.reshape(narrow(ops, total, op.model_diff[0].dtype), shape=[1]), *clipped


def _check_gradients(op: Call) -> None:
    for x in op.model_diff:
        expect_dtype(op, "model_diff", x, dtypes.FLOATS)
    same_dtype(op, op.model_diff)


def _numpy_clipped(xs: Any, *, max_norm: Any, norm_type: Any) -> Any:
    everything = np.concatenate([x.astype(np.float64).ravel() for x in xs])
    norm = np.linalg.norm(everything, norm_type) if norm_type else np.float64(everything.any())
    factor = np.minimum(np.float32(max_norm) / (norm + 1e-6), 1.0)
    return norm.reshape(1).astype(xs[0].dtype), *((x * factor).astype(x.dtype) for x in xs)


composite(
    "fused_clip_grad(model_diff+, max_norm: float = 2.0, norm_type: float = 1.0) -> out, model_diff_out+",
    "The norm of all elements of gradients, and the gradients times max_norm / (norm + 1e-6) where that is below 1;"
    " the norm of order 0 is 1 where any element is not 0.",
    write=_write_clipped, reference=_numpy_clipped, check=_check_gradients,
    grad=no_grad("changes gradients, of which an optimizer takes no further gradient"),
)  # fmt: skip
