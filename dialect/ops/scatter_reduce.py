"""Operators that write, multiply or compare elements at indices along one axis; `scattering` has the operators that
add.

dim_scatter_<kind>(input, index, src, dim)           output[i][index[i][j]] is combined with src[i][j] for dim 1
dim_scatter_<kind>_scalar(input, index, src_scalar)  the same with one number
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import each_part, on_each
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.ops.indexing import (
    aligned,
    checked_index,
    expect_index,
    expect_within,
    names,
    numpy_checked_indices,
)
from oneflow.dialect.ops.scattering import nd_types, src_gradient
from oneflow.dialect.record import Call, Rule, define, no_grad, operator
from oneflow.dialect.sbp import Factors, P, S, SbpSignature
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import expect_dim, expect_dtype, expect_rank, letters
from oneflow.dialect.tensor_desc import TensorDesc


def _write(array: Any, at: Any, values: Any) -> None:
    array[at] = values


@dataclass(frozen=True)
class Kind:
    """The combination of an element with another, and its rules.

    Attributes:
        doc: the effect on an element.
        combine: of the old element and the new one.
        numpy: the same for references, in place: of an array, positions and values.
        linear: the operands in which the operator is linear together.
        grad: the gradients, from the builder, the call and the cotangent.
    """

    doc: str
    combine: Callable[[Expr, Expr], Expr]
    numpy: Callable[[Any, Any, Any], None]
    linear: tuple[str, ...]
    grad: Rule


def _fill(ops: Builder, op: Call, x: Value, number: float) -> Value:
    """`x` with a number at the indices of a call."""
    filled: Value = ops.dim_scatter_update_scalar(x, op.index, src_scalar=number, dim=op.dim)
    return filled


def _last_writers(ops: Builder, op: Call) -> Value:
    """For each element of `src` whether it is the last element that is written to its index."""
    ones = ops.cast(ops.ones_like(op.index), dtype=dtypes.int64)
    numbers = ops.cumsum(ones, dim=op.dim % op.index.rank)
    no_writer = ops.cast(ops.zero_like(op.input), dtype=dtypes.int64)
    last = ops.dim_gather(ops.dim_scatter_update(no_writer, op.index, numbers, dim=op.dim), op.index, dim=op.dim)
    value: Value = ops.broadcast_equal(last, numbers)
    return value


def _update_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    def dsrc() -> Value:
        read = ops.dim_gather(dy, op.index, dim=op.dim)
        return src_gradient(ops, op, ops.where(_last_writers(ops, op), read, ops.zero_like(read)))

    return {"input": lambda: _fill(ops, op, dy, 0.0), "src": dsrc}


def _part(ops: Builder, op: Call) -> Value:
    """The elements of `src` that the call reads."""
    shape = op.index.shape
    if shape == op.src.shape and None not in shape:
        value: Value = op.src
        return value
    if None in shape:
        raise op.error(f"expected a static shape of index for the gradient, got {op.index.desc}")
    part: Value = ops.slice(op.src, start=[0] * len(shape), stop=list(shape), step=[1] * len(shape))
    return part


def _multiply_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """The product of the others has no division by zero: zeros are counted, and left out of the product."""

    def dsrc() -> Value:
        src, attrs = _part(ops, op), {"dim": op.dim}
        zero = ops.scalar_logical_equal(src, has_float_operand=True, float_operand=0.0)
        number = ops.cast(zero, dtype=dy.dtype)
        filled = ops.where(zero, ops.ones_like(src), src)
        products = ops.dim_gather(ops.dim_scatter_mul(op.input, op.index, filled, **attrs), op.index, **attrs)
        zeros = ops.dim_gather(ops.dim_scatter_add_like(dy, op.index, number, **attrs), op.index, **attrs)
        others = ops.where(ops.broadcast_equal(zeros, number), products / filled, ops.zero_like(src))
        return src_gradient(ops, op, ops.dim_gather(dy, op.index, **attrs) * others)

    return {"input": lambda: ops.dim_scatter_mul(dy, op.index, op.src, dim=op.dim), "src": dsrc}


def _extreme_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """Equal extreme elements share the gradient."""
    attrs = {"dim": op.dim}

    def shares() -> tuple[Value, Value, Value]:
        kept = ops.cast(ops.broadcast_equal(op.input, op.output), dtype=dy.dtype)
        reached = ops.broadcast_equal(_part(ops, op), ops.dim_gather(op.output, op.index, **attrs))
        moved = ops.cast(reached, dtype=dy.dtype)
        share = dy / ops.dim_scatter_add(kept, op.index, moved, **attrs)
        return kept, moved, share

    def dinput() -> Value:
        kept, _, share = shares()
        return kept * share

    def dsrc() -> Value:
        _, moved, share = shares()
        return src_gradient(ops, op, moved * ops.dim_gather(share, op.index, **attrs))

    return {"input": dinput, "src": dsrc}


KINDS = {
    "update": Kind(
        "is set to the element of `src`; the last of several wins",
        lambda old, new: new, _write, ("input", "src"), _update_gradient,
    ),
    "mul": Kind(
        "is multiplied by the element of `src`",
        lambda old, new: old * new, lambda a, at, values: np.multiply.at(a, at, values), ("input",),
        _multiply_gradient,
    ),
    "amax": Kind(
        "becomes the larger of itself and the element of `src`",
        s.maximum, lambda a, at, values: np.maximum.at(a, at, values), (), _extreme_gradient,
    ),
    "amin": Kind(
        "becomes the smaller of itself and the element of `src`",
        s.minimum, lambda a, at, values: np.minimum.at(a, at, values), (), _extreme_gradient,
    ),
}  # fmt: skip

#: Only numbers are added here.
ADD = Kind("", lambda old, new: old + new, lambda a, at, values: np.add.at(a, at, values), (), KINDS["mul"].grad)


def _types(op: Call) -> TensorDesc:
    expect_index(op, "index")
    dim = op.normalize_axis(op.dim, op.input.rank, "dim")
    expect_dtype(op, "input", op.input, dtypes.NUMERIC)
    expect_within(op, "index", "input", dim)
    if "src" in op.inputs:
        expect_dtype(op, "src", op.src, (op.input.dtype,))
        expect_within(op, "index", "src", None)
    desc: TensorDesc = op.input
    return desc


def _sbp(linear: tuple[str, ...], adds: bool) -> Rule:
    """Splits of axes of one size, partial sums of the operands `linear`; numbers that one device adds each."""

    def sbp(op: Call) -> list[SbpSignature]:
        dim = op.dim % op.input.rank
        text = names(aligned(op, [d.shape for d in op.operands], dim))
        factors = Factors(f"{', '.join([text] * len(op.operands))} -> {text}").linear_in(op, *linear)
        added = [SbpSignature((P, S(dim)), (P,))] if adds else []
        return [*factors.signatures([d.shape for d in op.operands]), *added]

    return sbp


def _compute(kind: Kind) -> Rule:
    def compute(op: Call) -> Stage:
        x, dim = op.input, op.dim % op.input.rank
        if x.shape[dim] == 0:
            stage: Stage = x
            return stage
        wide = x.dtype.accumulator

        def index(*at: Expr) -> list[Any]:
            return [*at[:dim], checked_index(op, "index", op.index[at], x.shape[dim]), *at[dim + 1 :]]

        def value(*at: Expr) -> Expr:
            return op.src[at] if "src" in op.inputs else s.const(op.src_scalar, wide)

        return c.convert(c.scatter(c.convert(x, wide), op.index.shape, index, value, kind.combine), x.dtype)

    return compute


def _reference(name: str, kind: Kind) -> Rule:
    def reference(x: Any, index: Any, *src: Any, dim: Any, **attrs: Any) -> Any:
        at = list(np.indices(index.shape, sparse=True))
        at[dim] = numpy_checked_indices(f"{name}: index", index, x.shape[dim])
        out = x.astype(np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype)
        read = tuple(map(slice, index.shape))
        values = src[0][read] if src else np.asarray(attrs["src_scalar"]).astype(out.dtype)
        kind.numpy(out, tuple(at), values)
        return out.astype(x.dtype)

    return reference


def _define(
    name: str, operand: str, kind: Kind, doc: str, grad: Rule, linear: tuple[str, ...], parts: Rule | None
) -> None:
    define(
        f"{name}(input, index, {operand}, dim: int32 = 0) -> output", doc=doc, types=_types,
        sbp=_sbp(linear, kind is ADD), grad=grad, compute=_compute(kind), reference=_reference(name, kind), depth=2,
        parts=parts,
    )  # fmt: skip


for _name, _kind in KINDS.items():
    _define(
        f"dim_scatter_{_name}", "src", _kind, f"Each element of `input` at `index` along `dim` {_kind.doc}.",
        _kind.grad, _kind.linear, each_part if _name == "update" else None,
    )  # fmt: skip


def _scalar_gradient(name: str) -> Rule:
    """The gradient of `input`: the number is added, replaces the element, or multiplies it."""

    def grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
        grads: dict[str, Callable[[], Value]] = {
            "add": lambda: dy,
            "update": lambda: _fill(ops, op, dy, 0.0),
            "mul": lambda: ops.dim_scatter_mul_scalar(dy, op.index, src_scalar=op.src_scalar, dim=op.dim),
        }
        return {"input": grads[name]}

    return grad


for _name, _kind, _doc, _linear in (
    ("add", ADD, "The number is added to each element of `input` at `index` along `dim`.", ()),
    ("update", KINDS["update"], "Each element of `input` at `index` along `dim` is set to the number.", ()),
    ("mul", KINDS["mul"], "Each element of `input` at `index` along `dim` is multiplied by the number.", ("input",)),
):
    _define(
        f"dim_scatter_{_name}_scalar", "src_scalar: float = 0.0", _kind, _doc, _scalar_gradient(_name), _linear,
        each_part if _name == "mul" else on_each(src_scalar=0.0),
    )  # fmt: skip


@operator("tensor_scatter_nd_add(params, updates, indices) -> out")
class TensorScatterNdAdd:
    """`params` to which `updates` are added at the indices in the rows of `indices`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_dtype(op, "params", op.params, (op.updates.dtype,))
        return nd_types(op, op.params.shape)

    def sbp(op: Call) -> Factors:
        d = letters(op.params.shape, range(op.indices.shape[-1]))
        lead = ["_"] * (op.indices.rank - 1)
        text = f"{names(d)}, {names(lead, d[op.indices.shape[-1] :])}, {names(lead, ['_'])} -> {names(d)}"
        return Factors(text).linear_in(op, "params", "updates")

    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> Value:
        added: Value = op.params + ops.scatter_nd_like(op.params, op.indices, op.updates)
        return added

    def reference(params: Any, updates: Any, indices: Any) -> Any:
        out = params.astype(np.float64 if params.dtype.kind not in "iu" else params.dtype)
        np.add.at(out, tuple(np.moveaxis(indices, -1, 0)), updates.astype(out.dtype))
        return out.astype(params.dtype)


@operator("index_add(input, index, source, dim: int64, alpha: float) -> output")
class IndexAdd:
    """`input` with the slices of `source`, times `alpha`, added to its slices at `index` along `dim`."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        dim = op.normalize_axis(op.dim, op.input.rank, "dim")
        expect_index(op, "index")
        expect_rank(op, "index", op.index, 1)
        expect_dtype(op, "input", op.input, dtypes.NUMERIC)
        expect_dtype(op, "source", op.source, (op.input.dtype,))
        expect_rank(op, "source", op.source, op.input.rank)
        for i, size in enumerate(op.source.shape):
            wanted = op.index.shape[0] if i == dim else op.input.shape[i]
            expect_dim(op, f"axis {i} of source", size, wanted)
        if not op.input.dtype.is_float and op.alpha % 1:
            raise op.error(f"expected a whole number alpha for {op.input.dtype.mlir}, got {op.alpha}")
        desc: TensorDesc = op.input
        return desc

    def sbp(op: Call) -> list[SbpSignature]:
        dim = op.dim % op.input.rank
        tensor = names(["_" if i == dim or n == 1 else f"d{i}" for i, n in enumerate(op.input.shape)])
        factors = Factors(f"{tensor}, _, {tensor} -> {tensor}").linear_in(op, "input", "source")
        added = SbpSignature((P, S(0), S(dim)), (P,))
        return [*factors.signatures([d.shape for d in op.operands]), added]

    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> Value:
        dim = op.dim % op.input.rank
        added = ops.unsorted_segment_sum_like(op.source, op.index, op.input, axis=dim)
        if op.alpha == 1:
            total: Value = op.input + added
            return total
        scaled: Value = op.input + added * (op.alpha if op.input.dtype.is_float else int(op.alpha))
        return scaled

    def reference(x: Any, index: Any, source: Any, *, dim: Any, alpha: Any) -> Any:
        wide = np.float64 if x.dtype.kind not in "iu" else x.dtype
        out = np.moveaxis(x.astype(wide), dim, 0)
        np.add.at(
            out,
            numpy_checked_indices("index_add: index", index, x.shape[dim]),
            np.moveaxis(source, dim, 0) * np.asarray(alpha, wide),
        )
        return np.moveaxis(out, 0, dim).astype(x.dtype)


@operator("repeat_interleave(in, cumsum, repeat_num: int64 = 0) -> out")
class RepeatInterleave:
    """Element k of a row as often as the running sum `cumsum` of the counts says, `repeat_num` elements in all."""

    parts = each_part

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "in", op.in_, 1)
        expect_rank(op, "cumsum", op.cumsum, 1)
        expect_index(op, "cumsum")
        size = expect_dim(op, "the size of cumsum", op.cumsum.shape[0], op.in_.shape[0])
        if op.repeat_num < 0 or size is None:
            raise op.error(f"expected a static row and a repeat_num of at least 0, got {op.in_} and {op.repeat_num}")
        return TensorDesc((op.repeat_num,), op.in_.dtype)

    def sbp(op: Call) -> Factors:
        return Factors("_, _ -> _").linear_in(op, "in")

    grad = decomposition_gradient

    def decompose(ops: Builder, op: Call) -> Value:
        numbers = ops.arange(dtype=op.cumsum.dtype, integer_delta=1, integer_limit=op.repeat_num)
        repeated: Value = ops.gather(op.in_, ops.searchsorted(op.cumsum, numbers, right=True), axis=0)
        return repeated

    def reference(x: Any, cumsum: Any, *, repeat_num: Any) -> Any:
        counts = np.diff(cumsum, prepend=0)
        if counts.sum() != repeat_num:
            raise IndexError(f"expected {repeat_num} as the last of cumsum, got {cumsum[-1:]}")
        return np.repeat(x, counts)


@operator("embedding_renorm(in, indices, max_norm: double = 0.0, norm_type: double = 2.0) -> out")
class EmbeddingRenorm:
    """`in` with the rows at `indices` scaled so that their `norm_type`-norm is at most `max_norm`."""

    def types(op: Call) -> TensorDesc:
        expect_rank(op, "in", op.in_, 2)
        expect_dtype(op, "in", op.in_, dtypes.FLOATS)
        expect_index(op, "indices")
        expect_rank(op, "indices", op.indices, 1)
        if op.norm_type <= 0:
            raise op.error(f"expected a norm_type above 0, got {op.norm_type}")
        desc: TensorDesc = op.in_
        return desc

    sbp = Factors("_ _, _ -> _ _")
    grad = no_grad("rows are scaled in place, outside of the gradient")

    def compute(op: Call) -> Stage:
        x, p, rows = op.in_, op.norm_type, op.in_.shape[0]
        powers = c.sum_((rows,), (x.shape[1],), lambda row, k: s.power(abs(x[row, k]), p))
        used = c.scatter(
            c.element_wise((rows,), lambda row: s.const(0, dtypes.int32)),
            op.indices.shape,
            lambda k: (checked_index(op, "indices", op.indices[k], rows),),
            lambda k: s.const(1, dtypes.int32),
        )

        def scaled(row: Expr, column: Expr) -> Expr:
            norm = s.power(powers[row], 1 / p)
            factor = s.where(used[row].ne(0) & (norm > op.max_norm), op.max_norm / (norm + 1e-7), 1.0)
            element: Expr = x[row, column] * factor
            return element

        return c.element_wise(x.shape, scaled, x.dtype)

    def reference(x: Any, indices: Any, *, max_norm: Any, norm_type: Any) -> Any:
        wide = x.astype(np.float64)
        norms = (np.abs(wide) ** norm_type).sum(1, keepdims=True) ** (1 / norm_type)
        used = np.isin(np.arange(len(x)), numpy_checked_indices("embedding_renorm: indices", indices, len(x)))[
            :, None
        ]
        return np.where(used & (norms > max_norm), wide * (max_norm / (norms + 1e-7)), wide).astype(x.dtype)
