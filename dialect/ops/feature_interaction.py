"""Interactions of features in recommendation models: products of all pairs, and cross layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import composed_reference, composite, gradient_operator, pulled_back
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.row_normalization import expect_present, expect_type
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call
from oneflow.dialect.sbp import B, Factors, P, S, Sbp, SbpSignature
from oneflow.dialect.shapes import expect_dtype, expect_rank
from oneflow.dialect.tensor_desc import Dim, TensorDesc

# The products of all pairs of features (arXiv 1906.00091)

SPARSE = ("num_valid_sparse_feature", "sparse_feature", "sparse_indices")
#: The features of one call: the decomposition has operations for each of them.
MAX_FEATURES = 4096


def _check_features(op: Call) -> None:
    if op.pooling not in ("none", "sum"):
        raise op.error(f"expected pooling none or sum, got {op.pooling!r}")
    first = op.features[0]
    for index, x in enumerate(op.features):
        expect_dtype(op, f"feature {index}", x, dtypes.FLOATS if index == 0 else (first.dtype,))
        expect_rank(op, f"feature {index}", x, 3)
        wanted = TensorDesc((first.shape[0], x.shape[1], first.shape[2]), first.dtype)
        if None in x.shape[1:]:
            raise op.error(f"expected static axes 1 and 2 of feature {index}, got {x}")
        if not x.compatible(wanted):
            raise op.error(f"expected feature {index} of type {wanted}, got {x}")
    _check_sparse(op, first.shape[0], first.shape[2], first.dtype)
    if op.pooling == "none" and _count(op) > MAX_FEATURES:
        raise op.error(f"expected at most {MAX_FEATURES} features, got {_count(op)}; split axis 1 of the features")


def _check_sparse(op: Call, batch: Dim, size: Dim, dtype: dtypes.DType) -> None:
    """Checks the rows of `sparse_feature` that `sparse_indices` add to the features."""
    if op.sparse_feature is None:
        if op.sparse_indices is not None or op.num_valid_sparse_feature is not None:
            raise op.error(
                "expected sparse_indices and num_valid_sparse_feature only with sparse_feature, got no sparse_feature"
            )
        return
    if op.pooling != "none" or op.sparse_indices is None:
        given = "no sparse_indices" if op.sparse_indices is None else "sparse_indices"
        raise op.error(
            f"expected sparse_indices and pooling none with sparse_feature, got {given} and pooling {op.pooling}"
        )
    expect_dtype(op, "sparse_feature", op.sparse_feature, (dtype,))
    expect_rank(op, "sparse_feature", op.sparse_feature, 2)
    expect_type(op, "sparse_feature", TensorDesc((None, size), dtype))
    expect_dtype(op, "sparse_indices", op.sparse_indices, dtypes.INTEGERS)
    expect_rank(op, "sparse_indices", op.sparse_indices, 2)
    expect_type(op, "sparse_indices", TensorDesc((batch, None), op.sparse_indices.dtype))
    if op.sparse_indices.shape[1] is None:
        raise op.error(f"expected a static axis 1 of sparse_indices, got {op.sparse_indices}")


def _check_forward(op: Call) -> None:
    _check_features(op)
    expect_present(op, "output_concat", "has_output_concat")
    if op.output_concat is not None:
        expect_rank(op, "output_concat", op.output_concat, 2)
        if op.output_concat.shape[1] is None:
            raise op.error(f"expected a static axis 1 of output_concat, got {op.output_concat}")
        wanted = TensorDesc((op.features[0].shape[0], op.output_concat.shape[1]), op.features[0].dtype)
        expect_type(op, "output_concat", wanted)
    if op.output_padding < 0:
        raise op.error(f"expected output_padding of at least 0, got {op.output_padding}")
    if op.pooling == "sum" and (op.output_concat is not None or op.output_padding or op.self_interaction):
        raise op.error(
            "expected neither output_concat, output_padding nor self_interaction with pooling sum, got"
            f" {op.output_concat or 'no output_concat'}, {op.output_padding} and {str(op.self_interaction).lower()}"
        )


def _together(ops: Builder, op: Call) -> Value:
    """All features, the features of `sparse_feature` last: (batch, features, size)."""
    parts = list(op.features)
    if op.sparse_feature is not None:
        parts.append(ops.gather(op.sparse_feature, op.sparse_indices, axis=0))
    value: Value = parts[0] if len(parts) == 1 else ops.cat(parts, axis=1)
    return value


def _pairs(count: int, with_itself: bool) -> int:
    return count * (count + 1) // 2 if with_itself else count * (count - 1) // 2


def _write_dots(ops: Builder, op: Call) -> Value:
    x = _together(ops, op)
    if op.pooling == "sum":
        values = widen(ops, x)
        total = ops.reduce_sum(values, axis=[1])
        both = ops.square(total) - ops.reduce_sum(ops.square(values), axis=[1])
        return narrow(ops, both * 0.5, x.dtype)
    products = ops.batch_matmul(x, x, transpose_b=True)
    parts = [] if op.output_concat is None else [op.output_concat]
    for i in range(x.shape[1] or 0):
        if i + op.self_interaction:
            row = ops.narrow(products, dim=1, start=i, length=1)
            kept = ops.narrow(row, dim=2, start=0, length=i + op.self_interaction)
            parts.append(ops.squeeze(kept, axes=[1]))
    if not parts:
        raise op.error("expected at least two features, or self_interaction, got one feature")
    out = parts[0] if len(parts) == 1 else ops.cat(parts, axis=1)
    after = (0, op.output_padding)
    value: Value = ops.pad(out, padding_before=(0, 0), padding_after=after) if op.output_padding else out
    return value


def _numpy_dots(
    features: Any, concat: Any, _: Any, sparse: Any, indices: Any, *, self_interaction: Any, output_padding: Any,
    pooling: Any,
) -> Any:  # fmt: skip
    dtype = features[0].dtype
    x = np.concatenate([*features, *([] if sparse is None else [sparse[indices]])], 1).astype(
        accumulator_type(features[0])
    )
    if pooling == "sum":
        return ((x.sum(1) ** 2 - (x**2).sum(1)) * 0.5).astype(dtype)
    products = x @ x.swapaxes(1, 2)
    dots = products[:, *np.tril_indices(x.shape[1], 0 if self_interaction else -1)].astype(dtype)
    padding = np.zeros((x.shape[0], output_padding), dtype)
    return np.concatenate([*([] if concat is None else [concat]), dots, padding], 1)


def _layouts_of(op: Call, split: dict[str, Sbp], results: Sbp) -> SbpSignature:
    """A signature with some operands split, and all results in one layout."""
    names = [n for n, x in op.inputs.items() if x is not None for _ in (x if isinstance(x, tuple) else (x,))]
    return SbpSignature(tuple(split.get(n, B) for n in names), (results,) * len(op.results))


def _dot_layouts(op: Call) -> list[SbpSignature]:
    """The batch can be split; split vectors have partial sums as results, or with pooling shards of the result."""
    rows = _layouts_of(op, {"features": S(0), "output_concat": S(0), "sparse_indices": S(0)}, S(0))
    columns = {"features": S(2), "output_concat": P, "sparse_feature": S(1)}
    return [rows, _layouts_of(op, columns, S(1) if op.pooling == "sum" else P)]


DOTS = "self_interaction: bool = False, has_output_concat: bool = False, output_padding: int32 = 0"
composite(
    "fused_dot_feature_interaction(features+, output_concat?, num_valid_sparse_feature?, sparse_feature?,"
    f" sparse_indices?, {DOTS}, pooling: string = 'none') -> out",
    "output_concat, the dot products of each feature with those before it (and with itself by `self_interaction`),"
    " and zeros. With pooling sum, half of the square of the sum of features less the sum of squares. The rows"
    " `sparse_indices` of `sparse_feature` are features too; `num_valid_sparse_feature` is not read.",
    write=_write_dots, reference=_numpy_dots, check=_check_forward, sbp=_dot_layouts,
    shapes_of=("num_valid_sparse_feature",),
)  # fmt: skip


def _check_dots_grad(op: Call) -> None:
    _check_features(op)
    first = op.features[0]
    expect_rank(op, "dy", op.dy, 2)
    width = first.shape[2] if op.pooling == "sum" else op.dy.shape[-1]
    expect_type(op, "dy", TensorDesc((first.shape[0], width), first.dtype))
    if op.dy.shape[1] is None or _padding(op) < 0:
        raise op.error(f"expected a static axis 1 of dy, of at least {_width(op)}, got {op.dy}")


def _count(op: Call) -> int:
    """The number of features, including the features of `sparse_feature`."""
    count = sum(x.shape[1] for x in op.features)
    return int(count + (0 if op.sparse_indices is None else op.sparse_indices.shape[1]))


def _width(op: Call) -> int:
    """The columns of a result without padding."""
    return int(op.output_concat_grad_dim + _pairs(_count(op), op.self_interaction))


def _padding(op: Call) -> int:
    """The columns of zeros in the result whose gradient is dy."""
    return 0 if op.pooling == "sum" else op.dy.shape[1] - _width(op)


def _write_dots_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    concat = op.output_concat_grad_dim
    kept = (op.dy.shape[1] or 0) - concat
    dots = ops.narrow(op.dy, dim=1, start=concat, length=kept) if concat else op.dy
    attrs = {**op.attrs, "output_padding": _padding(op)}
    inputs = {**op.inputs, "dy": dots}
    wanted = ("features", *["sparse_feature"] * (op.sparse_feature is not None))
    found = pulled_back(ops, Call(op.record, inputs, attrs), "fused_dot_feature_interaction", ("dy",), wanted)
    first = [ops.narrow(op.dy, dim=1, start=0, length=concat)] if concat else []
    count = len(op.features)
    return *found[:count], *first, *found[count:]


def _dots_grad_layouts(op: Call) -> list[SbpSignature]:
    """The batch can be split, of which the gradient with respect to `sparse_feature` is a sum; partial sums of dy."""
    rows = _layouts_of(op, {"dy": S(0), "features": S(0), "sparse_indices": S(0)}, S(0))
    sparse = op.sparse_feature is not None
    outputs = (*rows.outputs[: len(rows.outputs) - sparse], *[P] * sparse)
    return [SbpSignature(rows.inputs, outputs), _layouts_of(op, {"dy": P}, P)]


composite(
    "fused_dot_feature_interaction_grad(dy, features+, num_valid_sparse_feature?, sparse_feature?, sparse_indices?,"
    " self_interaction: bool = False, output_concat_grad_dim: int32 = 0, pooling: string = 'none')"
    " -> features_grad+, output_concat_grad?, sparse_feature_grad?",
    "The gradients of `fused_dot_feature_interaction`, by output_concat if it has `output_concat_grad_dim` columns.",
    write=_write_dots_grad, reference=composed_reference("fused_dot_feature_interaction_grad", _write_dots_grad),
    check=_check_dots_grad, sbp=_dots_grad_layouts, shapes_of=("num_valid_sparse_feature",),
    unoffered="splits of features along their vectors, and partial sums of features for linear results",
)  # fmt: skip

# Cross layers (arXiv 1708.05123, and 2008.13535 for matrices)


def _check_cross(op: Call) -> None:
    expect_dtype(op, "x", op.x, dtypes.FLOATS)
    expect_rank(op, "x", op.x, 2)
    rows, size = op.x.shape
    mode = op.attrs.get("interaction_mode", "vector" if "bias" not in op.inputs else "matrix")
    if mode not in ("vector", "matrix"):
        raise op.error(f"expected interaction_mode vector or matrix, got {mode!r}")
    if size is None:
        raise op.error(f"expected a static last axis of x, got {op.x}")
    height = 1 if mode == "vector" else size
    types = {
        "dy": (rows, size), "x0": (rows, size), "weight": (height, size), "bias": (size,),
        "matmul_result": (rows, height),
    }  # fmt: skip
    for name, shape in types.items():
        if name in op.inputs:
            expect_type(op, name, TensorDesc(shape, op.x.dtype))


def _write_cross(ops: Builder, op: Call) -> tuple[Value, Value]:
    product = ops.matmul(op.x, op.weight, transpose_b=True)
    if op.interaction_mode == "vector":
        return product * op.x0 + op.bias + op.x, product
    return (product + op.bias) * op.x0 + op.x, product


def _numpy_cross(x: Any, weight: Any, bias: Any, x0: Any, *, interaction_mode: Any) -> Any:
    product = (x.astype(accumulator_type(x)) @ weight.astype(accumulator_type(x)).T).astype(x.dtype)
    first, last = product.astype(np.float64), x.astype(np.float64)
    crossed = first * x0 + bias if interaction_mode == "vector" else (first + bias) * x0
    return (crossed + last).astype(x.dtype), product


def _cross_gradient(ops: Builder, op: Call, dy: Value | None, dproduct: Value | None) -> dict[str, Any]:
    version = "v1" if op.interaction_mode == "vector" else "v2"
    rule = gradient_operator(f"fused_cross_feature_interaction_{version}_grad", "x0", "weight", "x", "bias")
    found: dict[str, Any] = rule(ops, op, dy, dproduct)
    return found


composite(
    "fused_cross_feature_interaction(x, weight, bias, x0, interaction_mode: string) -> out, matmul_result",
    "x @ transpose(weight) * x0 + bias + x for a weight of one row (`vector`), (x @ transpose(weight) + bias) * x0"
    " + x for a square one (`matrix`); and the product.",
    write=_write_cross, reference=_numpy_cross, check=_check_cross, grad=_cross_gradient,
    sbp=lambda op: Factors("n _, _ _, _, n _ -> n _, n _").linear_in(op, "x", "bias", results=(0, 1)),
)  # fmt: skip


def _write_cross_grad(ops: Builder, op: Call) -> tuple[Value, ...]:
    """The gradients of either form; the gradient of the form of matrices has the bias among its operands."""
    dtype, bias = op.x.dtype, op.inputs.get("bias")
    dy, x0 = widen(ops, op.dy), widen(ops, op.x0)
    factor = widen(ops, op.matmul_result)
    factor = factor if bias is None else factor + widen(ops, bias)
    weighted = dy * x0
    by_product = narrow(ops, ops.reduce_sum(weighted, axis=[1], keepdims=True) if bias is None else weighted, dtype)
    dx = widen(ops, ops.matmul(by_product, op.weight)) + dy
    total = ops.reduce_sum(dy if bias is None else weighted, axis=[0])
    results = (dy * factor, ops.matmul(by_product, op.x, transpose_a=True), dx, total)
    return tuple(narrow(ops, r, dtype) for r in results)


def _numpy_cross_grad(dy: Any, weight: Any, *others: Any) -> Any:
    bias, x0, x, product = others if len(others) == 4 else (None, *others)
    cotangent, factor = dy.astype(np.float64), product.astype(np.float64) + (0 if bias is None else bias)
    weighted = cotangent * x0
    by_product = (weighted if bias is not None else weighted.sum(1, keepdims=True)).astype(x.dtype)
    matrices = (a.astype(accumulator_type(x)) for a in (by_product, weight, x))
    by, w, values = matrices
    dx = (by @ w).astype(x.dtype) + cotangent
    total = (cotangent if bias is None else weighted).sum(0)
    return [r.astype(x.dtype) for r in (cotangent * factor, by.T @ values, dx, total)]


def _cross_grad_factors(op: Call) -> Factors:
    """Rows can be split, of which the gradients with respect to weight and bias are sums; partial sums of dy and of
    others.
    """
    operands = ", ".join({"weight": "_ _", "bias": "_"}.get(name, "n _") for name in op.inputs)
    factors = Factors(f"{operands} -> n _, _ _, n _, _").summing(1, 3).linear_in(op, "dy", results=range(4))
    factors = factors.linear_in(op, "x", results=(1,)).linear_in(op, "matmul_result", "bias")
    return factors.linear_in(op, "x", "matmul_result", "bias", results=(0, 1))


for _version, _operands, _form in (
    ("v1", "dy, weight, x0, x, matmul_result", "vector"),
    ("v2", "dy, weight, bias, x0, x, matmul_result", "matrix"),
):
    composite(
        f"fused_cross_feature_interaction_{_version}_grad({_operands}) -> dx0, dw, dx, dbias",
        f"The gradients of `fused_cross_feature_interaction` with a {_form}.",
        write=_write_cross_grad, reference=_numpy_cross_grad, check=_check_cross, sbp=_cross_grad_factors,
    )  # fmt: skip
