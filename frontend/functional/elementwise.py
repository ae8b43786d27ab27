"""Element-wise functions: the table, and functions with further arguments."""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.dispatch import as_tensor, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.promotion import as_number, fitting, is_number, result_dtype
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.data_dependent import nonzero
from oneflow.frontend.functional.rules import (
    BITS,
    COMPARE,
    FLOAT,
    LOGIC,
    NUMBER,
    SAME,
    accumulated,
    as_common,
    binary,
    cast,
    constant,
    scalar_operand,
    to_float,
    unary,
)  # fmt: skip
from oneflow.frontend.functional.updating import with_inplace

__all__ = [
    "abs", "acos", "acosh", "add", "add_n", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "celu", "clamp", "clamp_max", "clamp_min",
    "clip", "cos", "cosh", "digamma", "div", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fmod", "frac", "ge", "gelu", "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "isfinite", "isinf", "isnan", "le", "leaky_relu", "lerp", "lgamma", "log", "log1p", "log2", "log10",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logsigmoid", "lt", "masked_fill",
    "maximum", "minimum", "mish", "mul", "ne", "neg", "negative", "polygamma", "pow", "quick_gelu", "reciprocal",
    "relu", "relu6", "remainder", "rint", "round", "rsqrt", "selu", "sigmoid", "sign", "silu", "sin", "sinh",
    "softplus", "softshrink", "softsign", "sqrt", "square", "square_relu", "sub", "tan", "tanh", "threshold", "to",
    "trunc", "where",
]  # fmt: skip

acos = unary("acos", FLOAT)
acosh = unary("acosh", FLOAT)
asin = unary("asin", FLOAT)
asinh = unary("asinh", FLOAT)
atan = unary("atan", FLOAT)
atanh = unary("atanh", FLOAT)
cos = unary("cos", FLOAT)
cosh = unary("cosh", FLOAT)
erf = unary("erf", FLOAT)
erfc = unary("erfc", FLOAT)
exp = unary("exp", FLOAT)
exp2 = unary("exp2", FLOAT)
expm1 = unary("expm1", FLOAT)
log = unary("log", FLOAT)
log10 = unary("log10", FLOAT)
log1p = unary("log1p", FLOAT)
log2 = unary("log2", FLOAT)
reciprocal = unary("reciprocal", FLOAT)
rsqrt = unary("rsqrt", FLOAT)
sigmoid = unary("sigmoid", FLOAT)
sin = unary("sin", FLOAT)
sinh = unary("sinh", FLOAT)
sqrt = unary("sqrt", FLOAT)
tan = unary("tan", FLOAT)
tanh = unary("tanh", FLOAT)

digamma = unary("digamma", FLOAT)
erfinv = unary("erfinv", FLOAT)
lgamma = unary("lgamma", FLOAT)
trigamma = unary("trigamma", FLOAT)

abs = unary("abs", SAME)
ceil = unary("ceil", SAME)
floor = unary("floor", SAME)
isfinite = unary("isfinite", SAME, has_bools=False)
isinf = unary("isinf", SAME, has_bools=False)
isnan = unary("isnan", SAME, has_bools=False)
logical_not = unary("logical_not", SAME)
negative = unary("negative", SAME)
neg = unary("negative", SAME, "neg")
rint = unary("rint", SAME)
_round = unary("round", SAME)
sign = unary("sign", SAME, has_bools=False)
_square = unary("square", SAME)
trunc = unary("trunc", SAME)

hardsigmoid = with_inplace(unary("hardsigmoid", SAME))
hardswish = with_inplace(unary("hardswish", SAME))
logsigmoid = unary("log_sigmoid", SAME, "logsigmoid")
mish = with_inplace(unary("mish", SAME))
quick_gelu = unary("quick_gelu", SAME)
relu = with_inplace(unary("relu", SAME))
selu = with_inplace(unary("selu", SAME))
silu = with_inplace(unary("silu", SAME))
_softsign_of_reals = unary("softsign", SAME)
square_relu = unary("square_relu", SAME)

_add = binary("add", "broadcast_add", NUMBER, "scalar_add", "scalar_add", "broadcast_logical_or")
_sub = binary("sub", "broadcast_sub", NUMBER)
mul = binary("mul", "broadcast_mul", NUMBER, "scalar_mul", "scalar_mul", "broadcast_logical_and")
_div = binary("div", "broadcast_div", FLOAT, "scalar_div")
_truncated = binary("div", "truncdiv", NUMBER, "scalar_truncdiv")
floor_divide = binary("floor_divide", "floordiv", NUMBER, "scalar_floordiv")
remainder = binary("remainder", "broadcast_floor_mod", NUMBER)
fmod = binary("fmod", "broadcast_fmod", NUMBER, "scalar_fmod")
_pow = binary("pow", "broadcast_pow", NUMBER, "scalar_pow", "scalar_reverse_pow")
maximum = binary("maximum", "broadcast_maximum", NUMBER, "", "", "broadcast_logical_or")
minimum = binary("minimum", "broadcast_minimum", NUMBER, "", "", "broadcast_logical_and")
atan2 = binary("atan2", "atan2", FLOAT)

eq = binary("eq", "broadcast_equal", COMPARE, "scalar_logical_equal", "scalar_logical_equal")
ne = binary("ne", "broadcast_not_equal", COMPARE, "scalar_logical_not_equal", "scalar_logical_not_equal")
gt = binary("gt", "broadcast_greater", COMPARE, "scalar_logical_greater", "scalar_logical_less")
ge = binary("ge", "broadcast_greater_equal", COMPARE, "scalar_logical_greater_equal", "scalar_logical_less_equal")
lt = binary("lt", "broadcast_less", COMPARE, "scalar_logical_less", "scalar_logical_greater")
le = binary("le", "broadcast_less_equal", COMPARE, "scalar_logical_less_equal", "scalar_logical_greater_equal")

logical_and = binary("logical_and", "broadcast_logical_and", LOGIC)
logical_or = binary("logical_or", "broadcast_logical_or", LOGIC)
logical_xor = binary("logical_xor", "broadcast_logical_xor", LOGIC)
bitwise_and = binary("bitwise_and", "broadcast_bitwise_and", BITS, "", "", "broadcast_logical_and")
bitwise_or = binary("bitwise_or", "broadcast_bitwise_or", BITS, "", "", "broadcast_logical_or")
bitwise_xor = binary("bitwise_xor", "broadcast_bitwise_xor", BITS, "", "", "broadcast_logical_xor")


def add(input: Any, other: Any, *others: Any, alpha: float = 1) -> Tensor:
    """x + alpha * y, or the sum of more tensors of one shape and element type.

    Two operands broadcast, converted to their common element type, which is also the type of the result.
    """
    if others:
        return add_n([input, other, *others])
    return _add(input, other if alpha == 1 else _scaled(input, other, alpha))


def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """x - alpha * y.

    Operands broadcast, converted to their common element type, which is also the type of the result.
    """
    other = other if alpha == 1 else _scaled(input, other, alpha)
    plain = is_number(other) and not isinstance(as_number(other), bool)
    return _add(input, -as_number(other)) if plain and not is_number(input) else _sub(input, other)


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """`alpha` times the second operand of a sum; the type of the operand has to hold alpha."""
    if not is_number(alpha):
        raise fail(f"expected alpha to be a number, got {alpha!r}; write x + alpha * y")
    if not isinstance(as_number(alpha), int) and not any(map(_is_inexact, (input, other))):
        raise fail(f"expected an integer as alpha of integers, got {alpha}; write x.float() first")
    return other * as_number(alpha) if is_number(other) else mul(other, alpha)


def _is_inexact(operand: Any) -> bool:
    return not isinstance(as_number(operand), int) if is_number(operand) else as_tensor(operand).dtype.is_inexact


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / y; operands broadcast.

    Integers and bools are converted to float32, unless `rounding_mode` is "floor" or "trunc", which rounds down or
    towards 0.
    """
    modes = {None: _div, "floor": floor_divide, "trunc": _truncated}
    if rounding_mode not in modes:
        raise fail(f'expected rounding_mode to be None, "floor" or "trunc", got {rounding_mode!r}')
    return modes[rounding_mode](input, other)


def pow(input: Any, other: Any) -> Tensor:
    """x to the power y, operands broadcast, converted to their common element type, which is also the type of the
    result.

    Raises:
        OneFlowError: integers to a negative integer, whose result would be none.
    """
    if is_number(other) and isinstance(as_number(other), int) and other < 0 and not _is_inexact(input):
        raise fail(f"expected an exponent of at least 0 for integers, got {other}; write x.float() ** {other}")
    if is_number(other) and not is_number(input) and as_tensor(input).dtype.is_complex:
        return _complex_power(as_tensor(input), as_number(other))
    return _pow(input, other)


def _complex_power(x: Tensor, number: Any) -> Tensor:
    """Complex numbers to a constant power, so that small integer powers are products."""
    if isinstance(number, complex):
        return _pow(x, number)
    return dispatch("scalar_pow", x, **scalar_operand(number, x.dtype))


def bitwise_not(x: Any) -> Tensor:
    """Each bit of integers inverted; `logical_not` of bools."""
    x = as_tensor(x)
    return logical_not(x) if x.dtype == dtypes.bool_ else dispatch("bitwise_not", x)


@with_inplace
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope * x; floats."""
    return dispatch("leaky_relu", x, alpha=negative_slope)


@with_inplace
def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha * (exp(x) - 1); floats."""
    return dispatch("elu", x, alpha=alpha)


@with_inplace
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha * (exp(x / alpha) - 1); floats."""
    if alpha == 0:
        raise fail("expected alpha other than 0, got 0")
    return dispatch("celu", x, alpha=alpha)


@with_inplace
def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x; floats."""
    return dispatch("hardshrink", x, lambd=lambd)


@with_inplace
def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 where |x| <= lambd; floats."""
    if not lambd >= 0:
        raise fail(f"expected lambd of at least 0 for softshrink, got {lambd}")
    return dispatch("softshrink", x, alpha=lambd)


def square(x: Any) -> Tensor:
    """x * x, element by element; bools are converted to int64."""
    x = as_tensor(x)
    return _square(cast(x, dtypes.int64) if x.dtype == dtypes.bool_ else x)


@with_inplace
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]; floats."""
    if min_val > max_val:
        raise fail(f"expected min_val of at most max_val, got {min_val} and {max_val}")
    return dispatch("hardtanh", x, min_val=min_val, max_val=max_val)


@with_inplace
def relu6(x: Any) -> Tensor:
    """x limited to [0, 6]; floats."""
    return hardtanh(x, 0.0, 6.0)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, x itself where beta * x > threshold; floats."""
    return dispatch("softplus", x, beta=beta, threshold=threshold)


@with_inplace
def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else value; floats."""
    return dispatch("threshold", x, threshold_val=threshold, value=value)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x times the cumulative distribution function of the normal distribution at x; floats.

    `approximate="tanh"` is 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
    """
    if approximate == "none":
        return dispatch("gelu", x)
    if approximate == "tanh":
        return dispatch("fast_gelu", x)
    raise fail(f'expected approximate to be "none" or "tanh", got {approximate!r}')


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`x` where `condition` is true, else `y`; the three broadcast. Alone, `nonzero(condition, as_tuple=True)`.

    `x` and `y` are tensors or numbers, converted to their common element type.
    """
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    condition = cast(condition, dtypes.bool_)
    x, y = as_common(x, y)
    return dispatch("where", condition, x, y)


def masked_fill(x: Any, mask: Any, value: Any) -> Tensor:
    """`x`, with the number `value` where the bool tensor `mask` is true; mask broadcasts to x.

    A tensor without dimensions is a number too, to which a gradient flows.
    """
    x, number = as_tensor(x), as_number(value)
    if isinstance(value, Tensor):
        if value.rank:
            raise fail(f"expected a tensor without dimensions to fill with, got {value.desc}; write flow.where")
        if value.dtype.is_complex and not x.dtype.is_complex:
            raise fail(f"expected a real number to fill {x.desc} with, got {value.desc}; write value.real()")
        return _in_shape_of(x, where(mask, cast(value, x.dtype), x))
    if isinstance(number, complex):
        return where(mask, constant(fitting(number, x.dtype), x.dtype), x)  # type: ignore[no-any-return]
    return dispatch("masked_fill", x, cast(mask, dtypes.bool_), **scalar_operand(fitting(value, x.dtype), x.dtype))


def _in_shape_of(x: Tensor, filled: Tensor) -> Tensor:
    if filled.rank != x.rank or any(a != b for a, b in zip(filled.shape, x.shape, strict=True)):
        raise fail(f"expected a mask that broadcasts to {x.desc}, got a result {filled.desc}")
    return filled


def clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """`x` limited to [min, max]; each bound is a number, a tensor or None.

    NaN is kept; a bound that is NaN makes all elements NaN. The result has the common element type of x and the
    bounds.
    """
    if min is None and max is None:
        raise fail("expected min, max or both for clamp, got neither")
    x = as_tensor(x)
    bounds = {k: as_number(v) for k, v in (("min", min), ("max", max)) if v is not None and is_number(v)}
    if len(bounds) < (min is not None) + (max is not None) or any(math.isnan(v) for v in bounds.values()):
        return _clamp_by_tensors(x, min, max)
    x = cast(x, result_dtype([x.dtype], list(bounds.values())))
    kind = ("floating", float) if x.dtype.is_float else ("integral", int)
    attrs = {f"{kind[0]}_{k}": kind[1](v) for k, v in bounds.items()}
    suffix = "" if len(bounds) == 2 else f"_{next(iter(bounds))}"
    return dispatch(f"clip_by_scalar{suffix}", x, **attrs)


def _clamp_by_tensors(x: Tensor, low: Any, high: Any) -> Tensor:
    """`clamp` where a bound is a tensor. An element at a bound keeps its gradient, which `maximum` would share."""
    raised = x if low is None else maximum(x, low)
    value = raised if high is None else minimum(raised, high)
    if not value.dtype.is_float:
        return value
    x, raised = cast(x, value.dtype), cast(raised, value.dtype)
    low, high = (None if bound is None else cast(as_tensor(bound), value.dtype) for bound in (low, high))
    result = dispatch("stop_gradient", value)  # only NaN elements keep this value; no gradient flows from them
    if high is not None:
        result = where(gt(raised, high), high, result)
    if low is not None:
        result = where(lt(x, low) if high is None else logical_and(lt(x, low), lt(low, high)), low, result)
    inside = [holds(x, bound) for holds, bound in ((ge, low), (le, high)) if bound is not None]
    clamped: Tensor = where(functools.reduce(logical_and, inside), x, result)
    return clamped


clip = clamp


def clamp_min(input: Any, min: Any) -> Tensor:
    """`input`, at least `min`."""
    return clamp(input, min=min)


def clamp_max(input: Any, max: Any) -> Tensor:
    """`input`, at most `max`."""
    return clamp(input, max=max)


def frac(input: Any) -> Tensor:
    """The fractional part, with the sign of `input`; floats."""
    x = as_tensor(input)
    if not x.dtype.is_float:
        raise fail(f"expected floating-point elements for frac, got {x.desc}; write x.float()")
    return sub(x, trunc(x))


def softsign(input: Any) -> Tensor:
    """x / (1 + |x|), elementwise; floats or complex numbers."""
    x = as_tensor(input)
    return div(x, add(abs(x), 1)) if x.dtype.is_complex else _softsign_of_reals(x)


def _logaddexp_of_complex(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of a sum, from the operand with the larger real part; equal real parts may be infinite."""
    first, second = dispatch("real", a), dispatch("real", b)
    top, other = where(ge(first, second), a, b), where(ge(first, second), b, a)
    distance = where(eq(first, second), 0.0, neg(abs(sub(first, second))))
    turn = sub(dispatch("imag", other), dispatch("imag", top))
    return add(top, log1p(exp(add(dispatch("real_grad", distance), dispatch("imag_grad", turn)))))


def logaddexp(input: Any, other: Any) -> Tensor:
    """log(exp(x) + exp(y)), without overflow; operands broadcast. Floats or complex numbers."""
    a, b = as_common(input, other)
    if a.dtype.is_complex:
        return _logaddexp_of_complex(a, b)
    if not a.dtype.is_float:
        raise fail(f"expected floating-point elements for logaddexp, got {a.desc} and {b.desc}; write x.float()")
    distance: Tensor = where(eq(a, b), 0.0, neg(abs(sub(a, b))))  # the distance of equal infinities is 0
    return add(maximum(a, b), log1p(exp(distance)))


def to(x: Any, dtype: DType) -> Tensor:
    """`x` with its elements converted to `dtype`; see `cast`."""
    return cast(x, dtype)


def add_n(tensors: Any) -> Tensor:
    """The sum of a list of tensors of one shape and element type."""
    return dispatch("add_n", list(tensors))


def round(input: Any, *, decimals: int = 0) -> Tensor:
    """Elementwise: the nearest integers, the even one of two; with `decimals`, the nearest multiples of
    10^-decimals of floats.
    """
    if not decimals:
        return _round(input)
    x = as_tensor(input)
    if not x.dtype.is_float:
        raise fail(f"expected floats to round to decimals, got {x.desc}")
    scale = 10.0 ** builtins.abs(decimals)
    return div(_round(mul(x, scale)), scale) if decimals > 0 else mul(_round(div(x, scale)), scale)


def lerp(input: Any, end: Any, weight: Any) -> Tensor:
    """input + weight * (end - input); `weight` is a number, or a tensor; all broadcast. Floats."""
    if is_number(weight):
        start, stop = as_common(input, end)
        if start.shape != stop.shape or start.dtype.is_complex:
            return add(start, mul(sub(stop, start), weight))
        number = {"has_float_operand": True, "float_operand": float(as_number(weight))}
        return dispatch("scalar_lerp", start, stop, **number)
    start, stop, by = as_common(input, end, weight)
    if start.shape == stop.shape == by.shape:
        return dispatch("lerp", start, stop, by)
    return add(start, mul(by, sub(stop, start)))


@accumulated
def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """x + value * tensor1 * tensor2."""
    return add(x, mul(mul(tensor1, tensor2), value))


@accumulated
def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """x + value * tensor1 / tensor2; floats or complex numbers."""
    operands = [as_tensor(v) for v in (x, tensor1, tensor2)]
    if not any(v.dtype.is_inexact for v in operands):
        raise fail(f"expected floating-point elements for addcdiv, got {operands[0].desc}; write x.float()")
    return add(x, mul(div(tensor1, tensor2), value))


def polygamma(n: int, input: Any) -> Tensor:
    """The n-th derivative of `digamma`; from the second on of positive numbers, by Hurwitz's zeta function.

    Raises:
        OneFlowError: n is no whole number of at least 0.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise fail(f"expected n to be a whole number of at least 0 for polygamma, got {n!r}")
    if n < 2:
        return trigamma(input) if n else digamma(input)
    x = to_float(input)
    sums = dispatch("broadcast_zeta", constant(n + 1.0, x.dtype), x)
    return mul(sums, (-1.0) ** (n + 1) * math.factorial(n))
