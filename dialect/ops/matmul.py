"""Matrix products, and the bias after a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import bilinear, each_part
from oneflow.dialect.compute import Size, Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.elementwise import conjugate, sum_to
from oneflow.dialect.ops.reduce import accumulator_type
from oneflow.dialect.ops.scalar_ops import expect_whole
from oneflow.dialect.ops.softmax import narrow, widen
from oneflow.dialect.record import Call, Operator, define, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import broadcast_shapes, expect_dim, expect_dtype, expect_rank, same_dtype
from oneflow.dialect.tensor_desc import Shape, TensorDesc


def _matrix(shape: Sequence[Any], transposed: bool) -> tuple[Any, Any]:
    """The last two sizes as rows and columns of the matrix that is multiplied."""
    rows, columns = shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def expect_addend(op: Call, out: TensorDesc) -> None:
    """Checks that `_add_to_output`, where given, has the type of the result."""
    if op._add_to_output is not None and not op._add_to_output.compatible(out):
        raise op.error(f"expected _add_to_output of type {out}, got {op._add_to_output}")


def _expect_alpha(op: Call) -> None:
    """Checks that `alpha` can scale integers, where `a` has integers."""
    if op.a.dtype.is_integer:
        expect_whole(op, "alpha to be a", op.alpha, op.a.dtype, wraps=False)


def with_addend(op: Call, factors: Factors, result: str) -> Factors:
    """The factors of a call with `_add_to_output`, where given; `result` are the factors of the result."""
    return factors if op._add_to_output is None else factors.plus(result)


def scale_and_add(product: Stage, alpha: float, added: Stage | None, dtype: DType) -> Stage:
    """alpha * product + added in the accumulator's type, converted to `dtype`."""
    if alpha == 1.0 and added is None:
        return c.convert(product, dtype)

    def body(*position: Expr) -> Expr:
        scaled = product[position] if alpha == 1.0 else product[position] * alpha
        return scaled if added is None else scaled + added[position]

    return c.element_wise(product.shape, body, dtype)


def _scaled(product: np.ndarray, alpha: float, add: np.ndarray | None, dtype: Any) -> np.ndarray:
    """The NumPy form of `scale_and_add`."""
    scaled = product if alpha == 1.0 else product * np.asarray(alpha, product.dtype)
    return (scaled if add is None else scaled + add.astype(product.dtype)).astype(dtype)


def _same_batch(op: Call) -> Shape:
    expect_rank(op, "a", op.a, 3, -1)
    expect_rank(op, "b", op.b, op.a.rank)
    pairs = zip(op.a.shape[:-2], op.b.shape[:-2], strict=True)
    return tuple(expect_dim(op, f"dimension {i} of b", y, x) for i, (x, y) in enumerate(pairs))


def _no_batch(op: Call) -> Shape:
    for name in ("a", "b"):
        expect_rank(op, name, op[name], 2)
    return ()


def _broadcast_batch(op: Call) -> Shape:
    for name in ("a", "b"):
        expect_rank(op, name, op[name], 2, -1)
    return broadcast_shapes(op, [op.a.shape[:-2], op.b.shape[:-2]])


def _types(batch: Callable[[Call], Shape]) -> Callable[[Call], TensorDesc]:
    def types(op: Call) -> TensorDesc:
        for name in ("a", "b"):
            expect_dtype(op, name, op[name], dtypes.NUMERIC)
        same_dtype(op, op.operands)
        _expect_alpha(op)
        lead = batch(op)
        m, k = _matrix(op.a.shape, op.transpose_a)
        kb, n = _matrix(op.b.shape, op.transpose_b)
        expect_dim(op, "the contracted dimension of b", kb, k)
        out = TensorDesc((*lead, m, n), op.a.dtype)
        expect_addend(op, out)
        return out

    return types


def _sbp(op: Call) -> Factors:
    """Batch dimensions, rows and columns stay split; splitting the contracted one leaves partial sums."""
    rank = max(op.a.rank, op.b.rank)
    batch = [f"d{i}" for i in range(rank - 2)]
    a = [*batch[rank - op.a.rank :], *_matrix("mk", op.transpose_a)]
    b = [*batch[rank - op.b.rank :], *_matrix("kn", op.transpose_b)]
    out = " ".join([*batch, "m", "n"])
    return with_addend(op, Factors(f"{' '.join(a)}, {' '.join(b)} -> {out}", "each"), out)


def _grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
    def x() -> Value:
        return conjugate(ops, op.a)

    def y() -> Value:
        return conjugate(ops, op.b)

    def product(a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Value:
        options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "alpha": op.alpha}
        return ops.call(op.record.name, a, b, **options)[0]

    def da() -> Value:
        if op.transpose_a:
            return sum_to(ops, product(y(), dout, op.transpose_b, True), op.a)
        return sum_to(ops, product(dout, y(), False, not op.transpose_b), op.a)

    def db() -> Value:
        if op.b.rank == 2 < op.a.rank and not op.transpose_a:
            pair = (dout, x()) if op.transpose_b else (x(), dout)
            return ops.call("broadcast_matmul_grad_b", *pair, alpha=op.alpha)[0]
        if op.transpose_b:
            return sum_to(ops, product(dout, x(), True, op.transpose_a), op.b)
        return sum_to(ops, product(x(), dout, not op.transpose_a, False), op.b)

    return {"a": da, "b": db, "_add_to_output": dout}


def _batch_sizes(a: Stage, b: Stage) -> list[Size]:
    """The sizes of the result's batch dimensions: of two sizes, the size that is known and not broadcast."""
    rank = max(a.rank, b.rank) - 2
    sizes: list[Size] = [1] * rank
    for shape in (a.shape[:-2], b.shape[:-2]):
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1 and (isinstance(size, int) or sizes[axis] == 1):
                sizes[axis] = size
    return sizes


def _element(x: Stage, batch: Sequence[Expr], row: Expr, column: Expr, transposed: bool) -> Expr:
    """Element (row, column) of the matrix that broadcasting puts at `batch`."""
    lead = len(batch) - (x.rank - 2)
    own = [0 if size == 1 else batch[lead + i] for i, size in enumerate(x.shape[:-2])]
    return x[(*own, column, row)] if transposed else x[(*own, row, column)]


def _compute(op: Call) -> Stage:
    (m, k), (_, n) = _matrix(op.a.shape, op.transpose_a), _matrix(op.b.shape, op.transpose_b)

    def term(*position: Expr) -> Expr:
        *batch, i, j, p = position
        return _element(op.a, batch, i, p, op.transpose_a) * _element(op.b, batch, p, j, op.transpose_b)

    product = c.sum_((*_batch_sizes(op.a, op.b), m, n), (k,), term)
    return scale_and_add(product, op.alpha, op._add_to_output, op.a.dtype)


def _reference(a: Any, b: Any, add: Any, *, transpose_a: Any, transpose_b: Any, alpha: Any) -> Any:
    x, y = a.astype(accumulator_type(a)), b.astype(accumulator_type(b))
    product = (x.swapaxes(-1, -2) if transpose_a else x) @ (y.swapaxes(-1, -2) if transpose_b else y)
    return _scaled(product, alpha, add, a.dtype)


def _product(name: str, doc: str, batch: Callable[[Call], Shape]) -> Operator:
    """Registers a matrix product whose leading dimensions are the dimensions that `batch` allows."""
    return define(
        f"{name}(a, b, _add_to_output?, transpose_a: bool = False, transpose_b: bool = False,"
        " alpha: double = 1.0) -> out",
        depth=2, doc=doc + " f16 and bf16 are accumulated in f32.", types=_types(batch), sbp=_sbp, grad=_grad,
        compute=_compute, reference=_reference, parts=bilinear,
    )  # fmt: skip


_product("matmul", "alpha * a @ b (+ _add_to_output) of two matrices, each read transposed on request.", _no_batch)
_product("batch_matmul", "alpha * a @ b (+ _add_to_output) of stacks of matrices of one leading shape.", _same_batch)
_product(
    "broadcast_matmul", "alpha * a @ b (+ _add_to_output) of stacks of matrices whose leading shapes broadcast.",
    _broadcast_batch,
)  # fmt: skip


@operator("row_products(a, b) -> out")
class RowProducts:
    """a @ transpose(b) of stacks of matrices of one leading shape, in the type of sums: f32 for f16 and bf16.

    Operators that compute further in the type of sums use these products, which are not rounded.
    """

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "a", op.a, dtypes.FLOATS)
        same_dtype(op, op.operands)
        lead = _same_batch(op)
        expect_dim(op, "the contracted dimension of b", op.b.shape[-1], op.a.shape[-1])
        return TensorDesc((*lead, op.a.shape[-2], op.b.shape[-2]), op.a.dtype.accumulator)

    def sbp(op: Call) -> Factors:
        batch = " ".join(f"d{i}" for i in range(op.a.rank - 2))
        return Factors(f"{batch} m k, {batch} n k -> {batch} m n", "each")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {
            "a": lambda: narrow(ops, ops.batch_matmul(dout, widen(ops, op.b)), op.a.dtype),
            "b": lambda: narrow(ops, ops.batch_matmul(dout, widen(ops, op.a), transpose_a=True), op.b.dtype),
        }

    def compute(op: Call) -> Stage:
        shape = (*op.a.shape[:-1], op.b.shape[-2])
        return c.sum_(shape, op.a.shape[-1:], lambda *at: op.a[(*at[:-2], at[-1])] * op.b[(*at[:-3], *at[-2:])])

    def reference(a: Any, b: Any) -> Any:
        return a.astype(accumulator_type(a)) @ b.astype(accumulator_type(b)).swapaxes(-1, -2)


@operator("broadcast_matmul_grad_b(a, b, _add_to_output?, alpha: double = 1.0) -> out")
class BroadcastMatmulGradB:
    """alpha * sum of outer products of the rows of `a` and `b`: the gradient of a matrix shared by a batch."""

    parts = bilinear

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "a", op.a, 2, -1)
        expect_rank(op, "b", op.b, op.a.rank)
        expect_dtype(op, "a", op.a, dtypes.NUMERIC)
        same_dtype(op, op.operands)
        _expect_alpha(op)
        for i in range(op.a.rank - 1):
            expect_dim(op, f"dimension {i} of b", op.b.shape[i], op.a.shape[i])
        out = TensorDesc((op.a.shape[-1], op.b.shape[-1]), op.a.dtype)
        expect_addend(op, out)
        return out

    def sbp(op: Call) -> Factors:
        rows = " ".join(f"d{i}" for i in range(op.a.rank - 1))
        return with_addend(op, Factors(f"{rows} k, {rows} n -> k n", "each"), "k n")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {
            "a": lambda: ops.broadcast_matmul(conjugate(ops, op.b), dout, transpose_b=True, alpha=op.alpha),
            "b": lambda: ops.broadcast_matmul(conjugate(ops, op.a), dout, alpha=op.alpha),
            "_add_to_output": dout,
        }

    def compute(op: Call) -> Stage:
        shape, extents = (op.a.shape[-1], op.b.shape[-1]), op.a.shape[:-1]
        product = c.sum_(shape, extents, lambda i, j, *r: op.a[(*r, i)] * op.b[(*r, j)])
        return scale_and_add(product, op.alpha, op._add_to_output, op.a.dtype)

    def reference(a: Any, b: Any, add: Any, *, alpha: Any) -> Any:
        x, y = (t.astype(accumulator_type(t)).reshape(int(np.prod(t.shape[:-1])), t.shape[-1]) for t in (a, b))
        return _scaled(x.T @ y, alpha, add, a.dtype)


def _times(value: Any, number: float) -> Any:
    """A value or an element times a number, itself where that is 1."""
    return value if number == 1 else value * number


@operator("fused_matmul_bias(x, weight, bias, _add_to_output?, alpha: double = 1.0, beta: double = 1.0) -> out")
class FusedMatmulBias:
    """alpha * x @ transpose(weight) + bias (+ beta * _add_to_output): a linear layer."""

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "x", op.x, 2, -1)
        expect_rank(op, "weight", op.weight, 2)
        expect_rank(op, "bias", op.bias, 1)
        expect_dtype(op, "x", op.x, dtypes.FLOATS)
        same_dtype(op, op.operands)
        expect_dim(op, "dimension 1 of weight", op.weight.shape[1], op.x.shape[-1])
        n = expect_dim(op, "dimension 0 of bias", op.bias.shape[0], op.weight.shape[0])
        out = TensorDesc((*op.x.shape[:-1], n), op.x.dtype)
        expect_addend(op, out)
        return out

    def sbp(op: Call) -> Factors:
        rows = " ".join(f"d{i}" for i in range(op.x.rank - 1))
        return with_addend(op, Factors(f"{rows} k, n k -> {rows} n", "each").plus("n"), f"{rows} n")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        return {
            "x": lambda: ops.broadcast_matmul(dout, op.weight, alpha=op.alpha),
            "weight": lambda: ops.broadcast_matmul_grad_b(dout, op.x, alpha=op.alpha),
            "bias": lambda: ops.reduce_sum(dout, axis=range(dout.rank - 1)),
            "_add_to_output": lambda: _times(dout, op.beta),
        }

    def compute(op: Call) -> Stage:
        shape, depth = (*op.x.shape[:-1], op.weight.shape[0]), op.x.shape[-1:]
        product = c.sum_(shape, depth, lambda *at: op.x[(*at[:-2], at[-1])] * op.weight[at[-2:]])

        def body(*at: Expr) -> Expr:
            biased: Expr = _times(product[at], op.alpha) + op.bias[at[-1:]]
            return biased if op._add_to_output is None else biased + _times(op._add_to_output[at], op.beta)

        return c.element_wise(shape, body, op.x.dtype)

    def reference(x: Any, weight: Any, bias: Any, add: Any, *, alpha: Any, beta: Any) -> Any:
        product = np.matmul(x.astype(accumulator_type(x)), weight.astype(accumulator_type(x)).T)
        biased = product * np.asarray(alpha, product.dtype) + bias.astype(product.dtype)
        added = biased if add is None else biased + np.asarray(beta, product.dtype) * add.astype(product.dtype)
        return added.astype(x.dtype)


@operator("bias_add(a, b, axis: int32 = 0) -> out")
class BiasAdd:
    """a + b, where the vector `b` is added along `axis` of `a`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "a", op.a, 1, -1)
        expect_rank(op, "b", op.b, 1)
        expect_dtype(op, "a", op.a, dtypes.NUMERIC)
        same_dtype(op, op.operands)
        axis = op.normalize_axis(op.axis, op.a.rank)
        size = expect_dim(op, "dimension 0 of b", op.b.shape[0], op.a.shape[axis])
        return TensorDesc((*op.a.shape[:axis], size, *op.a.shape[axis + 1 :]), op.a.dtype)

    def sbp(op: Call) -> Factors:
        names = [f"d{i}" for i in range(op.a.rank)]
        a = " ".join(names)
        return Factors(f"{a}, {names[op.axis]} -> {a}", "joint")

    def grad(ops: Builder, op: Call, dout: Value) -> dict[str, Any]:
        axis = op.normalize_axis(op.axis, dout.rank)
        rest = [i for i in range(dout.rank) if i != axis]
        return {"a": dout, "b": (lambda: ops.reduce_sum(dout, axis=rest)) if rest else dout}

    def compute(op: Call) -> Stage:
        return c.element_wise(op.a.shape, lambda *i: op.a[i] + op.b[i[op.axis]], op.a.dtype)

    def reference(a: Any, b: Any, *, axis: Any) -> Any:
        shape = [1] * a.ndim
        shape[axis] = b.size
        return (a.astype(accumulator_type(a)) + b.reshape(shape).astype(accumulator_type(a))).astype(a.dtype)
