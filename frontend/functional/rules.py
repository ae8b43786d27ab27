"""Rules of element-wise functions: operands are converted to one element type, and an operator is called.

`elementwise.py` has a row per function; `unary` and `binary` build the functions. Rows say how operands are promoted:
`SAME` keeps the type, `FLOAT` converts integers to float32, `NUMBER` is for arithmetic, `COMPARE` and `LOGIC` have
bool results, `BITS` takes integers. Operands are tensors, arrays or Python numbers and broadcast as in NumPy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from oneflow.dialect import dtypes, ops  # noqa: F401  (registers the operators)
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import REGISTRY
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.promotion import as_number, dtype_with_number, fitting, is_number, result_dtype
from oneflow.frontend.core.settings import SCOPE, get_default_dtype
from oneflow.frontend.core.tensor import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

SAME, FLOAT, NUMBER, COMPARE, LOGIC, BITS = "same", "float", "number", "compare", "logic", "bits"

_DTYPE_TEXT = {
    SAME: "The result has the element type of `x`.",
    FLOAT: "Integers and bools are converted to float32; other types are kept.",
    NUMBER: "Operands are converted to their common element type, which is also the type of the result.",
    COMPARE: "Operands are converted to their common element type; the result is bool.",
    LOGIC: "Any element type, zero being false; the result is bool.",
    BITS: "Integers or bools, converted to their common element type.",
}


def cast(x: Any, dtype: DType) -> Tensor:
    """`x` with its elements converted to `dtype`; `x` itself where it has that type.

    Floats are truncated towards zero in the conversion to integers; all numbers except zero are true.
    """
    x = as_tensor(x)
    own = x.desc.dtype
    return x if own is dtype or own == dtype else dispatch("cast", x, dtype=dtype)


def to_float(x: Any) -> Tensor:
    """A tensor of floats or complex numbers: `x`, or its values as float32."""
    x = as_tensor(x)
    return x if x.dtype.is_inexact else cast(x, get_default_dtype())


def accumulated(function: Function) -> Function:
    """A function of floats as one that computes f16 and bf16 in f32, and rounds its result alone."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [as_tensor(x) for x in (*args, *kwargs.values()) if isinstance(x, Tensor) or is_array(x)]
        floats = [x.dtype for x in tensors if x.dtype.is_float]
        dtype = result_dtype(floats) if floats else get_default_dtype()
        if dtype.accumulator == dtype:
            return function(*args, **kwargs)
        result = function(*map(_accumulator, args), **{k: _accumulator(x) for k, x in kwargs.items()})
        return cast(result, dtype)

    return call  # type: ignore[return-value]


def _accumulator(x: Any) -> Any:
    """A tensor of 16-bit floats in f32; anything else unchanged."""
    if not (isinstance(x, Tensor) or is_array(x)):
        return x
    x = as_tensor(x)
    return cast(x, x.dtype.accumulator) if x.dtype.is_float else x


def constant(value: Any, dtype: DType, shape: tuple[int, ...] = ()) -> Tensor:
    """A tensor of one number."""
    builder = current_builder()
    if builder.eager:
        return builder.to_tensor(
            builder.wrap(np.full(shape, value, dtype.numpy) if shape else np.array(value, dtype.numpy))
        )
    if isinstance(value, complex):
        parts = [value.real, value.imag]
        return dispatch("constant", dtype=dtype, shape=shape, is_complex_value=True, complex_value=parts)
    if dtype.is_inexact:
        return dispatch("constant", dtype=dtype, shape=shape, is_floating_value=True, floating_value=float(value))
    return dispatch("constant", dtype=dtype, shape=shape, is_floating_value=False, integer_value=int(value))


def on_integers(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A function of tensors; for bools it runs on integers, and elements other than 0 of its result are true."""
    if all(x.dtype != dtypes.bool_ for x in tensors):
        return function(*tensors)
    result = function(*(cast(x, dtypes.int32) if x.dtype == dtypes.bool_ else x for x in tensors))
    return cast(result, dtypes.bool_)


def unary(op: str, kind: str, name: str | None = None, *, has_bools: bool = True) -> Callable[[Any], Tensor]:
    """The function of one tensor that calls `op`, under the operator's name or another; `has_bools` says whether the
    operator takes bools.
    """

    def function(x: Any) -> Tensor:
        tensor = to_float(x) if kind == FLOAT else as_tensor(x)
        return dispatch(op, tensor) if has_bools else on_integers(lambda x: dispatch(op, x), tensor)

    return describe(function, name or op, f"{_doc(op)}\n\n{_DTYPE_TEXT[kind]}")


def describe(function: Function, name: str, doc: str) -> Function:
    """`function` with its own name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _doc(op: str) -> str:
    return inspect.cleandoc(REGISTRY[op].doc)


@dataclass(frozen=True)
class BinaryRule:
    """How one function of two operands becomes operators.

    Attributes:
        op: the operator of two tensors.
        kind: the promotion.
        scalar: the operator of a tensor and a number on its right; "" without such an operator.
        reverse: the operator for a number on the left.
        bools: the operator that replaces `op` between bools.
    """

    op: str
    kind: str
    scalar: str = ""
    reverse: str = ""
    bools: str = ""

    def __call__(self, a: Any, b: Any) -> Tensor:
        """Promotes the operands and calls the operator."""
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return self.tensors(a, b)
        numbers = is_number(a), is_number(b)
        if numbers == (False, True):
            return self.with_number(as_tensor(a), as_number(b), self.scalar, False)
        if numbers == (True, False):
            return self.with_number(as_tensor(b), as_number(a), self.reverse, True)
        a, b = (as_number(v) if is_number(v) else v for v in (a, b))
        return self.tensors(as_tensor(a), as_tensor(b))

    def tensors(self, a: Tensor, b: Tensor) -> Tensor:
        """Promotes the operands, which are tensors, and calls the operator."""
        own, other = a.desc.dtype, b.desc.dtype
        if own is other and own.name in self._unconverted_types:
            return dispatch(self.op, a, b)
        dtype = self._dtype(own if own is other else result_dtype([own, other]))
        op = self.bools if self.bools and dtype.kind == "bool" else self.op
        return dispatch(op, cast(a, dtype), cast(b, dtype))

    def with_number(self, x: Tensor, number: Any, scalar: str, swap: bool) -> Tensor:
        """Promotes a tensor and a number of Python, the number on the left with `swap`, and calls the operator:
        `scalar`, or the operator of two tensors.
        """
        dtype = self._dtype(dtype_with_number(x.desc.dtype, number))
        number = fitting(number, dtype)
        x = cast(x, dtype)
        # A number is compared, and divided by, as an element: 0.3 equals an element of f16 that was made of 0.3.
        is_rounded = dtype.bits == 16 and (self.kind == COMPARE or scalar == "scalar_fmod")
        is_attribute = dtype.kind != "bool" and not isinstance(number, complex) and not is_rounded
        if scalar and is_attribute and not (current_builder().eager and dtype.bits != 16):
            return dispatch(scalar, x, **scalar_operand(number, dtype))
        other = constant(number, dtype)
        return self.tensors(other, x) if swap else self.tensors(x, other)

    @functools.cached_property
    def _unconverted_types(self) -> frozenset[str]:
        """The names of the element types that operands keep and for which `op` is called, in any setting."""
        if self.kind == LOGIC:
            return frozenset()
        kept = [d for d in dtypes.DTYPES if not (self.kind in (FLOAT, BITS) and d.is_inexact == (self.kind == BITS))]
        return frozenset(d.name for d in kept if d.kind != "bool" or not (self.bools or self.kind == NUMBER))

    def _dtype(self, dtype: DType) -> DType:
        if self.kind == FLOAT and not dtype.is_inexact:
            return get_default_dtype()
        if self.kind == LOGIC:
            return dtypes.bool_
        if self.kind == BITS and dtype.is_inexact:
            raise fail(f"expected integers or bools for {self.op}, got {dtype.mlir}; convert with x.to(flow.int64)")
        if self.kind == NUMBER and dtype.kind == "bool" and not self.bools:
            raise fail(
                f"expected numbers for {self.op}, got bools; convert with x.to(flow.int64), or write flow.logical_xor"
            )
        return dtype


def scalar_operand(number: Any, dtype: DType) -> dict[str, Any]:
    """The attributes of a number as an operand of a `scalar_*` operator on tensors of `dtype`."""
    if dtype.is_inexact:
        return {"has_float_operand": True, "float_operand": float(number)}
    return {"has_int_operand": True, "int_operand": int(number)}


def binary(name: str, *rule: str) -> Callable[[Any, Any], Tensor]:
    """The function of two tensors that `BinaryRule(*rule)` describes."""
    apply = BinaryRule(*rule)

    def function(input: Any, other: Any) -> Tensor:
        if isinstance(input, Tensor):
            if isinstance(other, Tensor):
                return apply.tensors(input, other)
            if type(other) is float or type(other) is int:
                return apply.with_number(input, other, apply.scalar, False)
        return apply(input, other)

    return describe(function, name, f"{_doc(apply.op)}\n\nOperands broadcast. {_DTYPE_TEXT[apply.kind]}")


def as_common(*values: Any) -> list[Tensor]:
    """Tensors, arrays and numbers as tensors of their common element type."""
    if all(isinstance(v, Tensor) and v.desc.dtype is values[0].desc.dtype for v in values):
        return list(values)
    numbers = [as_number(v) for v in values if is_number(v)]
    tensors = {i: as_tensor(v) for i, v in enumerate(values) if not is_number(v)}
    dtype = result_dtype([t.dtype for t in tensors.values()], numbers)
    return [cast(tensors[i], dtype) if i in tensors else _fitting(v, dtype) for i, v in enumerate(values)]


def _fitting(number: Any, dtype: DType) -> Tensor:
    return constant(fitting(as_number(number), dtype), dtype)


def check_parameters(name: str, common: Tensor, input: Any, weight: Any, bias: Any) -> None:
    """Refuses a bias of another type than `common`, the type of the input and the weight, outside of autocast.

    Raises:
        OneFlowError: the types differ; the message has the types of all tensors.
    """
    types = {"input": as_tensor(input).dtype, "weight": as_tensor(weight).dtype, "bias": as_tensor(bias).dtype}
    if SCOPE.get().autocast is None and types["bias"] != common.dtype:
        got = ", ".join(f"{operand} of {dtype.name}" for operand, dtype in types.items())
        raise fail(
            f"expected tensors of one element type for {name}, got {got}; convert the input, as in"
            f" input.to(flow.{types['weight'].name}), or the module, as in module.to(flow.{types['input'].name})"
        )
