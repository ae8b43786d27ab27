"""Normalization of channels over a batch, an addend and relu in one operator, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.builder import Builder, Value
from oneflow.dialect.composite import UNSPLIT, composite
from oneflow.dialect.compute import Stage
from oneflow.dialect.decomposition_gradient import decomposition_gradient
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.ops.batch_norm import PARAMS, channel_types, gradient_stages
from oneflow.dialect.ops.bit_masks import BITS, numpy_packed, packed_bits, words_of
from oneflow.dialect.ops.row_normalization import expect_type
from oneflow.dialect.record import REGISTRY, Call, OperatorError, infer, no_sbp, operator
from oneflow.dialect.sbp import Factors
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import TensorDesc


def _normalization(op: Call) -> Call:
    """The call of `normalization` whose result is the operand of relu."""
    inputs = {name: op[name] for name in ("x", *PARAMS)}
    return Call(REGISTRY["normalization"], {**inputs, "_add_to_output": op.addend}, op.attrs)


def _reserve_type(x: TensorDesc) -> TensorDesc:
    """The type of a bit for every element of `x`."""
    count = x.element_count
    return TensorDesc((None if count is None else -(-count // BITS),), dtypes.int32)


def _bits(y: Stage) -> Stage:
    """Whether each element is above 0: bit i of word k for element 32 k + i in row-major order."""
    count = c.product(y.shape)
    flat, size = c.reshape(y, (count,)), c.as_expr(count)

    def read(word: Expr, bit: Expr) -> Expr:
        at = word * BITS + bit
        above = (at < size) & (flat[(s.minimum(at, size - 1),)] > 0)
        return s.where(above, s.const(1, dtypes.int32) << s.cast(bit, dtypes.int32), 0)

    words = (count + (BITS - 1)) // BITS
    return c.reduce_((words,), (BITS,), 0, lambda a, b: a | b, read, dtypes.int32)


def _written_bits(ops: Builder, y: Value) -> Value:
    """`_bits` by other operators."""
    above = ops.call("scalar_logical_greater", y, has_float_operand=True, float_operand=0.0)[0]
    count = y.desc.element_count or 0
    bits = packed_bits(ops, ops.reshape(above, shape=(1, count)), BITS)
    return ops.call("reshape", bits, shape=(words_of(count, BITS),))[0]


def _numpy_bits(y: np.ndarray) -> np.ndarray:
    array: np.ndarray = numpy_packed(y.reshape(1, y.size) > 0, BITS)[0]
    return array


@operator(
    "normalization_add_relu(x, addend?, moving_mean?, moving_variance?, gamma, beta, axis: int32 = 0,"
    " epsilon: float = 0.0, training: bool = False, momentum: float = 0.0)"
    " -> y, reserve_space, mean?, inv_variance?, moving_mean_out?, moving_variance_out?"
)
class NormalizationAddRelu:
    """relu(normalization(x) + addend), with the results of `normalization`.

    `reserve_space` (i32) has a bit for each element of y, whether the element is above 0, 32 bits in an element.
    """

    def types(op: Call) -> list[TensorDesc]:
        expect_type(op, "addend", op.x)
        try:
            y, *more = infer(REGISTRY["normalization"], _normalization(op))
        except OperatorError as error:
            raise op.error(str(error).removeprefix("oneflow.normalization: ")) from None
        return [y, _reserve_type(y), *more]

    sbp = no_sbp("a part has its bits at other offsets in reserve_space than the whole")

    def sharded_decomposition(ops: Builder, op: Call) -> list[Value]:
        call = _normalization(op)
        normalized, *more = ops.call("normalization", *call.inputs.values(), **call.attrs)
        y = ops.relu(normalized)
        return [y, _written_bits(ops, y), *more]

    def grad(ops: Builder, op: Call, dy: Value | None, _: None, *more: Value | None) -> dict[str, Any]:
        dx = None if dy is None else ops.relu_grad(op.y, dy)
        gradients = dict(decomposition_gradient(ops, _normalization(op), dx, *more))
        addend = gradients.pop("_add_to_output", None)
        return gradients if addend is None else {**gradients, "addend": addend}

    def compute(op: Call) -> list[Stage]:
        call = _normalization(op)
        assert call.record.compute is not None
        normalized, *more = call.record.compute(call)
        y = c.element_wise(normalized.shape, lambda *at: s.where(normalized[at] <= 0, 0, normalized[at]), op.x.dtype)
        return [y, _bits(y), *more]

    def reference(x: Any, addend: Any, mean: Any, variance: Any, gamma: Any, beta: Any, **attrs: Any) -> Any:
        operands = dict(zip(("x", *PARAMS), (x, mean, variance, gamma, beta), strict=True))
        call = Call(REGISTRY["normalization"], {**operands, "_add_to_output": addend}, attrs)
        normalized, *more = run_reference(call)
        y = np.maximum(normalized, 0)
        return y, _numpy_bits(y), *more


def _gradient_factors(op: Call) -> Factors:
    """Partial sums of dy, and of gamma, in which dx alone is linear."""
    operands = ", ".join(" ".join("_" * x.rank) for x in op.operands)
    x = " ".join("_" * op.x.rank)
    factors = Factors(f"{operands} -> _, _, {', '.join([x] * (1 + op.with_addend))}")
    return factors.linear_in(op, "dy", results=range(3 + op.with_addend)).linear_in(op, "gamma", results=(2,))


@operator(
    "normalization_add_relu_grad(x, dy, mean, inv_variance, gamma, beta, reserve_space, y, axis: int32 = 0,"
    " epsilon: float = 0.0, with_addend: bool = False) -> gamma_diff, beta_diff, dx, addend_diff?"
)
class NormalizationAddReluGrad:
    """The gradients of `normalization_add_relu` in training with respect to gamma, beta, x and, `with_addend`, the
    addend.

    The mask of relu is read from y; `reserve_space`, which holds the same mask, and beta are not read.
    """

    shapes_of = ("beta", "reserve_space")

    def types(op: Call) -> list[TensorDesc]:
        x, channel = channel_types(op, ("mean", "inv_variance", "gamma", "beta"))
        for name in ("dy", "y"):
            expect_type(op, name, x)
            x = x.meet(op[name])
        expect_type(op, "reserve_space", _reserve_type(x))
        return [channel, channel, *[x] * (1 + op.with_addend)]

    sbp = _gradient_factors

    def sharded_decomposition(ops: Builder, op: Call) -> list[Value]:
        relu_gradient = ops.relu_grad(op.y, op.dy)
        gradients = ops.call(
            "normalization_grad",
            op.x,
            relu_gradient,
            op.mean,
            op.inv_variance,
            op.gamma,
            axis=op.axis,
            epsilon=op.epsilon,
        )
        return [*gradients, relu_gradient] if op.with_addend else list(gradients)

    grad = decomposition_gradient

    def compute(op: Call) -> list[Stage]:
        def relu_gradient(*i: Expr) -> Expr:
            return s.where(op.y[i] > 0, op.dy[i], 0)

        addend = [c.element_wise(op.x.shape, relu_gradient, op.x.dtype)] if op.with_addend else []
        return [*gradient_stages(op, relu_gradient), *addend]

    def reference(
        x: Any,
        dy: Any,
        mean: Any,
        inv: Any,
        gamma: Any,
        beta: Any,
        bits: Any,
        y: Any,
        *,
        with_addend: Any,
        **attrs: Any,
    ) -> Any:
        relu_gradient = np.where(y > 0, dy, 0).astype(dy.dtype)
        names = ("x", "dy", "mean", "inv_variance", "gamma")
        operands = dict(zip(names, (x, relu_gradient, mean, inv, gamma), strict=True))
        gradients = run_reference(Call(REGISTRY["normalization_grad"], operands, attrs))
        return *gradients, *[relu_gradient] * with_addend


# The same under the names of kernels of cuDNN, which train always


def _numpy_of(name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The reference of another operator."""
    record = REGISTRY[name]
    names = [arg.name for arg in record.signature.inputs]
    return run_reference(Call(record, dict(zip(names, operands, strict=True)), attrs))


def _write_trained(ops: Builder, op: Call) -> tuple[Value, ...]:
    return ops.call("normalization_add_relu", *op.inputs.values(), training=True, **op.attrs)


composite(
    "cudnn_fused_normalization_add_relu(x, addend?, moving_mean?, moving_variance?, gamma, beta, axis: int32 = 0,"
    " epsilon: float = 0.0, momentum: float = 0.0)"
    " -> y, reserve_space, mean?, inv_variance?, moving_mean_out?, moving_variance_out?",
    "`normalization_add_relu` in training.",
    write=_write_trained, sbp=UNSPLIT,
    reference=lambda *x, **attrs: _numpy_of("normalization_add_relu", x, {**attrs, "training": True}),
)  # fmt: skip


def _write_gradients(ops: Builder, op: Call) -> tuple[Value, ...]:
    return ops.call("normalization_add_relu_grad", *op.inputs.values(), **op.attrs)


composite(
    "cudnn_fused_normalization_add_relu_grad(x, dy, mean, inv_variance, gamma, beta, reserve_space, y,"
    " axis: int32 = 0, epsilon: float = 0.0, with_addend: bool = False)"
    " -> gamma_diff, beta_diff, dx, addend_diff?",
    "`normalization_add_relu_grad`.",
    write=_write_gradients, sbp=_gradient_factors, shapes_of=("beta", "reserve_space"),
    reference=lambda *x, **attrs: _numpy_of("normalization_add_relu_grad", x, attrs),
)  # fmt: skip
