"""Element-wise operators from one row: types, SBP and gradient follow from the scalar body.

    elementwise("tanh(x) -> y", "The hyperbolic tangent.", scalar=s.tanh, reference=np.tanh)

Operands broadcast as in NumPy. Rows add laws from a small table: `idempotent`, `involution`, `neutral`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import derivative, dtypes, interval_analysis
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Absent, Call, Law, Operator, Rule, call_rule, define
from oneflow.dialect.sbp import Factors, broadcast_factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.shapes import broadcast_shapes, expect_dtype, same_dtype
from oneflow.dialect.signature import parse_signature
from oneflow.dialect.tensor_desc import TensorDesc


def elementwise(
    signature: str,
    doc: str,
    *,
    scalar: Rule,
    reference: Rule,
    allowed: Sequence[DType] = dtypes.FLOATS,
    result: DType | None = None,
    linear: str | Rule | None = None,
    depth: int = 1,
    **slots: Any,
) -> Operator:
    """Registers an element-wise operator.

    Args:
        signature: as for `define`; one result.
        doc: the description.
        scalar: the body: one `Expr` per operand, attributes as keyword-only parameters.
        reference: the NumPy form, called in the same way with arrays.
        allowed: the element types of the operands, which have to be equal.
        result: the element type of the result; None: the element type of the operands.
        linear: whether partial sums pass through, as in `Factors`; or a function of the call that says so.
        depth: how many stack frames above the caller the definition is.
        slots: slots to state otherwise than derived (`grad`, `types`, `sbp`, `laws`).
    """
    slots.setdefault("types", _types(allowed, result))
    slots.setdefault("sbp", _sbp(linear))
    if "grad" not in slots:
        flat = result is not None and not result.is_inexact
        integers = not any(d.is_inexact for d in allowed)
        no = Absent("grad", "the result is not a floating-point number")
        slots["grad"] = no if flat or integers else scalar_gradient
    assert len(parse_signature(signature).outputs) == 1, signature
    return define(signature, doc=doc, scalar=scalar, reference=reference, depth=depth + 1, **slots)


def _types(allowed: Sequence[DType], result: DType | None) -> Rule:
    def types(op: Call) -> TensorDesc:
        operands = op.operands
        for name, operand in op.inputs.items():
            for desc in operand if isinstance(operand, tuple) else (operand,):
                if desc is not None:
                    expect_dtype(op, name, desc, allowed)
        same_dtype(op, operands)
        return TensorDesc(broadcast_shapes(op, [d.shape for d in operands]), result or operands[0].dtype)

    return types


def _sbp(linear: str | Rule | None) -> Rule:
    def sbp(op: Call) -> Factors:
        passed = linear(op) if callable(linear) else linear
        return broadcast_factors([d.shape for d in op.operands], op.results[0].rank, passed)

    return sbp


def scalar_body(op: Call, operands: Sequence[Expr]) -> Expr:
    """The scalar body of a call, instantiated on `operands`."""
    assert op.record.scalar is not None, op.record.name
    result: Expr = call_rule(op.record.scalar, list(operands), op.attrs)
    return result


@dataclass(frozen=True)
class PartialDerivative:
    """A derivative. `plan` computes its product with the cotangent, or if not `finite` the derivative alone."""

    dtype: DType
    finite: bool
    plan: derivative.Plan


#: The leaf that stands for the cotangent.
SEEDS = {d: s.arg(-1, d) for d in (*dtypes.FLOATS, *dtypes.COMPLEX)}


@dataclass(frozen=True)
class Instance:
    """A scalar body on leaves: `nodes` are its operands, `partials` the derivative with respect to each operand, None
    where the derivative is zero.

    `result` is the body where the call's result is its value, so that partials read that, else None. `finite` says
    whether the body is finite for all operands.
    """

    nodes: tuple[Expr, ...]
    result: Expr | None
    partials: tuple[PartialDerivative | None, ...]
    finite: bool


def instance(op: Call) -> Instance:
    """The scalar body of a call on `Value`s; the same object for equal calls."""
    assert op.record.scalar is not None, op.record.name
    attrs = tuple((name, repr(value), value) for name, value in op.attrs.items())
    results = tuple(v.dtype for v in op.results)
    return _instance(op.record.scalar, attrs, tuple(v.dtype for v in op.operands), results, op.maybe_nonfinite)


@functools.lru_cache(maxsize=4096)
def _instance(
    scalar: Rule, attrs: Any, types: tuple[DType, ...], results: tuple[DType, ...], maybe_nonfinite: frozenset[int]
) -> Instance:
    """`attrs` have the text of each value, which distinguishes 0.0 from -0.0 and 1 from True."""
    nodes = tuple(s.arg(i, d.accumulator) for i, d in enumerate(types))
    body: Expr = call_rule(scalar, nodes, {name: value for name, _, value in attrs})
    result = body if results == (body.dtype,) else None
    doubtful = [nodes[i] for i in maybe_nonfinite]

    def partial(node: Expr) -> PartialDerivative | None:
        partial = derivative.derivative(body, node)
        if partial is None:
            return None
        finite = interval_analysis.is_finite(partial, doubtful)
        gradient = derivative.times(SEEDS[partial.dtype], partial) if finite else partial
        plan = derivative.plan(gradient, () if result is None else (result,))
        return PartialDerivative(partial.dtype, finite, plan)

    partials = tuple(partial(n) if d.is_inexact else None for n, d in zip(nodes, types, strict=True))
    return Instance(nodes, result, partials, interval_analysis.is_finite(body, doubtful))


def scalar_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """The gradient of an element-wise operator: dy times the derivative of its scalar body.

    The gradient is summed over the axes along which an operand was broadcast. The gradient is 0 where dy is 0, also
    where the derivative is infinite or NaN, so that the branch that `where` did not take contributes nothing. Of
    complex numbers it is dy times the conjugate of the derivative, which is the derivative at the conjugates.
    """
    return _gradient(ops, op, dy, op.operands)


def scalar_gradient_at_result(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """`scalar_gradient` for an operator of one operand whose derivative is the same at the result and at the operand.

    The next operator keeps the result in any case, so that the operand can be freed.
    """
    return _gradient(ops, op, dy, op.results)


def _gradient(ops: Builder, op: Call, dy: Value, points: Sequence[Value]) -> dict[str, Any]:
    """dy times the partials at `points`."""
    known = instance(op)
    env = dict(zip(known.nodes, derivative.widened(ops, points), strict=True))
    if known.result is not None:
        env.setdefault(known.result, op.results[0])
    pairs = zip(known.partials, op.operands, strict=True)
    return _by_name(op, [None if partial is None else _thunk(ops, dy, partial, env, x) for partial, x in pairs])


def _thunk(ops: Builder, dy: Value, partial: PartialDerivative, env: dict[Expr, Value], operand: Value) -> Any:
    def gradient() -> Value:
        wide = _cast(ops, dy, partial.dtype)
        points = (
            {n: conjugate(ops, v) for n, v in env.items() if n in partial.plan} if partial.dtype.is_complex else env
        )
        product = derivative.build(ops, partial.plan, {**points, SEEDS[partial.dtype]: wide})
        if not partial.finite:
            product = ops.call("broadcast_mul_no_nan", wide, product)[0]
        return sum_to(ops, _cast(ops, product, operand.dtype), operand)

    return gradient


def _cast(ops: Builder, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else ops.call("cast", value, dtype=dtype)[0]


def conjugate(ops: Builder, value: Value) -> Value:
    """The complex conjugates of a value; the value itself where that is real."""
    return ops.call("conj_physical", value)[0] if value.dtype.is_complex else value


def flat_gradient(ops: Builder, op: Call, dy: Value) -> dict[str, Any]:
    """The gradient of a step function: no operand has one."""
    return {}


def _by_name(op: Call, grads: Sequence[Any]) -> dict[str, Any]:
    rest = iter(grads)
    named: dict[str, Any] = {}
    for name, operand in op.inputs.items():
        if isinstance(operand, tuple):
            named[name] = tuple(next(rest) for _ in operand)
        else:
            named[name] = None if operand is None else next(rest)
    return named


def sum_to(ops: Builder, grad: Value, operand: Value) -> Value:
    """`grad` summed over the axes along which `operand` was broadcast to its shape."""
    lead = grad.rank - operand.rank
    axes = list(range(lead))
    axes += [lead + i for i, d in enumerate(operand.shape) if d == 1 and grad.shape[lead + i] != 1]
    return ops.call("reduce_sum_like", grad, operand, axis=axes)[0] if axes else grad


def idempotent(name: str) -> Law:
    """The law f(f(x)) = f(x) of the operator `name`."""

    def apply(ops: Any, op: Call) -> Value | None:
        return None if ops.producer(op.operands[0], name) is None else op.operands[0]

    return Law(f"{name}-idempotent", f"{name}({name}(x)) = {name}(x)", apply)


def involution(name: str, holds: Callable[[Value], bool] = lambda x: True) -> Law:
    """The law f(f(x)) = x of the operator `name`, for operands that satisfy `holds`."""

    def apply(ops: Any, op: Call) -> Value | None:
        inner = ops.producer(op.operands[0], name)
        return inner.operands[0] if inner is not None and holds(inner.operands[0]) else None

    return Law(f"{name}-involution", f"{name}({name}(x)) = x", apply)


def neutral(name: str, text: str, holds: Callable[[Call], bool]) -> Law:
    """The law that a call gives its first operand unchanged where it `holds`."""

    def apply(ops: Any, op: Call) -> Value | None:
        return op.operands[0] if holds(op) else None

    return Law(name, text, apply)


def in_double(function: Rule) -> Rule:
    """A reference that computes in f64 or complex128 and rounds once, so that the reference is more accurate than the
    tested result.
    """

    @functools.wraps(function)
    def reference(*arrays: np.ndarray, **attrs: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.kind in "biu":
            return function(*arrays, **attrs)
        double = np.complex128 if dtype.kind == "c" else np.float64
        wide = (a if a is None else a.astype(double) for a in arrays)
        result = np.asarray(function(*wide, **attrs))
        return result.astype(arrays[0].real.dtype if result.dtype.kind == "f" else dtype)

    return reference
