"""Complex numbers and their parts: real, imag, conjugates, and pairs of reals as views."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.complex_parts import PartsBuilder
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call, Operator, Rule, define
from oneflow.dialect.sbp import Factors
from oneflow.dialect.shapes import expect_dtype, expect_pairs, letters
from oneflow.dialect.tensor_desc import TensorDesc


def _operator(
    signature: str, doc: str, allowed: tuple[DType, ...], kind: str, parts: Rule, grad: Rule, reference: Rule
) -> Operator:
    """Registers an operator of one operand that keeps its shape; the result has the type `kind` of the operand's."""

    def types(op: Call) -> TensorDesc:
        ((name, operand),) = op.inputs.items()
        expect_dtype(op, name, operand, allowed, only_real=True)
        return TensorDesc(operand.shape, getattr(operand.dtype, kind))

    def sbp(op: Call) -> Factors:
        names = " ".join(letters(op.operands[0].shape))
        return Factors(f"{names} -> {names}", "joint")

    return define(signature, doc=doc, types=types, sbp=sbp, grad=grad, parts=parts, reference=reference, depth=2)


def _complex_like(x: Any) -> Any:
    return np.zeros(x.shape, np.result_type(x, np.complex64))


def _numpy_imaginary(x: Any) -> Any:
    complex_like = _complex_like(x)
    complex_like.imag = x
    return complex_like


_operator(
    "real(x) -> out", "The real parts.", dtypes.COMPLEX, "part",
    lambda ops, op: ops.parts(op.x)[0], lambda ops, op, dout: {"x": lambda: ops.real_grad(dout)},
    lambda x: np.array(x.real, order="C"),
)  # fmt: skip
_operator(
    "imag(x) -> out", "The imaginary parts.", dtypes.COMPLEX, "part",
    lambda ops, op: ops.parts(op.x)[1], lambda ops, op, dout: {"x": lambda: ops.imag_grad(dout)},
    lambda x: np.array(x.imag, order="C"),
)  # fmt: skip
_operator(
    "real_grad(dout) -> dx", "The complex numbers with these real parts: the gradient of `real`.", dtypes.PARTS,
    "complex", lambda ops, op: ops.pair(op.dout, ops.zero_like(op.dout)),
    lambda ops, op, ddx: {"dout": lambda: ops.real(ddx)}, lambda dout: _complex_like(dout) + dout,
)  # fmt: skip
_operator(
    "imag_grad(dout) -> dx", "The complex numbers with these imaginary parts: the gradient of `imag`.", dtypes.PARTS,
    "complex", lambda ops, op: ops.pair(ops.zero_like(op.dout), op.dout),
    lambda ops, op, ddx: {"dout": lambda: ops.imag(ddx)}, _numpy_imaginary,
)  # fmt: skip


def _conjugate(ops: PartsBuilder, op: Call) -> Value:
    re, im = ops.parts(op.x)
    return ops.pair(re, -im)


_operator(
    "conj_physical(x) -> y", "The complex conjugates.", dtypes.COMPLEX, "complex", _conjugate,
    lambda ops, op, dy: {"x": lambda: ops.conj_physical(dy)}, np.conj,
)  # fmt: skip


def _pairs_types(op: Call) -> TensorDesc:
    expect_dtype(op, "x", op.x, dtypes.PARTS, only_real=True)
    expect_pairs(op, "x", op.x)
    return TensorDesc(op.x.shape[:-1], op.x.dtype.complex)


def _of_pairs(ops: PartsBuilder, op: Call) -> Value:
    axis = op.x.rank - 1
    rows = (ops.narrow(op.x, dim=axis, start=k, length=1) for k in (0, 1))
    re, im = (ops.squeeze(row, axes=[axis]) for row in rows)
    return ops.pair(re, im, op.x)


def _as_complex_grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    return {"x": lambda: ops.view_as_real(dy)}


def _as_real_grad(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    return {"x": lambda: ops.view_as_complex(dy)}


def _to_pairs(ops: PartsBuilder, op: Call) -> Value:
    pairs = op.x.handle.pairs
    value: Value = ops.stack(list(ops.parts(op.x)), axis=op.x.rank) if pairs is None else pairs
    return value


def _as_real_types(op: Call) -> TensorDesc:
    expect_dtype(op, "x", op.x, dtypes.COMPLEX)
    return TensorDesc((*op.x.shape, 2), op.x.dtype.part)


def _as_complex_sbp(op: Call) -> Factors:
    names = " ".join(letters(op.x.shape[:-1]))
    return Factors(f"{names} _ -> {names}", "joint")


def _as_real_sbp(op: Call) -> Factors:
    names = " ".join(letters(op.x.shape))
    return Factors(f"{names} -> {names} _", "joint")


define(
    "view_as_complex(x) -> y", doc="Pairs of reals along the last axis as complex numbers.", types=_pairs_types,
    sbp=_as_complex_sbp, grad=_as_complex_grad, parts=_of_pairs,
    reference=lambda x: np.ascontiguousarray(x).view(np.result_type(x, np.complex64))[..., 0],
)  # fmt: skip
define(
    "view_as_real(x) -> y", doc="Complex numbers as pairs of reals along a new last axis.", types=_as_real_types,
    sbp=_as_real_sbp, grad=_as_real_grad,
    parts=_to_pairs,
    reference=lambda x: np.stack([x.real, x.imag], -1),
)  # fmt: skip
