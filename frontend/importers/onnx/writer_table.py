"""The table of the writer: nodes of ONNX for each operator of the dialect.

A row takes the writer `w` and a call `c`, whose operands are names of values; and returns the names of the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.frontend.importers.onnx.errors import OnnxError
from oneflow.frontend.importers.onnx.types import NUMBERS

Row = Callable[[Any, Any], Any]
ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Adds a function to the table, for operators of these names."""

    def add(function: Row) -> Row:
        ROWS.update(dict.fromkeys(names, function))
        return function

    return add


def _same(op: str) -> Row:
    """A node of the same operands, for an operator without attributes."""

    def write(w: Any, c: Any) -> Any:
        if c.attrs:
            raise OnnxError(f"expected no attributes, got {', '.join(c.attrs)}")
        return w.node(op, *c.inputs.values())

    return write


for _name, _op in {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor",
    "isinf": "IsInf", "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "mish": "Mish", "negative": "Neg",
    "reciprocal": "Reciprocal", "relu": "Relu", "rint": "Round", "round": "Round", "sigmoid": "Sigmoid",
    "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt",
    "tan": "Tan", "tanh": "Tanh", "hardswish": "HardSwish", "gelu": "Gelu", "identity": "Identity",
    "stop_gradient": "Identity", "bitwise_not": "BitwiseNot", "where": "Where", "gather_nd": "GatherND",
    "broadcast_add": "Add", "broadcast_sub": "Sub", "broadcast_mul": "Mul", "broadcast_div": "Div",
    "broadcast_pow": "Pow", "pow": "Pow", "broadcast_minimum": "Min",
    "broadcast_maximum": "Max", "broadcast_equal": "Equal", "broadcast_greater": "Greater",
    "broadcast_greater_equal": "GreaterOrEqual", "broadcast_less": "Less", "broadcast_less_equal": "LessOrEqual",
    "broadcast_logical_and": "And", "broadcast_logical_or": "Or", "broadcast_logical_xor": "Xor",
    "broadcast_bitwise_and": "BitwiseAnd", "broadcast_bitwise_or": "BitwiseOr",
    "broadcast_bitwise_xor": "BitwiseXor",
}.items():  # fmt: skip
    ROWS[_name] = _same(_op)


def scalar(w: Any, value: Any, like: str) -> str:
    """A constant of the element type of a value."""
    return str(w.constant(np.array(value, w.desc(like).dtype.numpy)))


def ints(w: Any, values: Sequence[int]) -> str:
    """A constant vector of int64."""
    return str(w.constant(np.array(values, np.int64).reshape(-1)))


def _number(c: Any) -> Any:
    """The number of a `scalar_*` operator."""
    return c.attrs["float_operand"] if c.attrs["has_float_operand"] else c.attrs["int_operand"]


def _with_number(op: str, swapped: bool = False) -> Row:
    def write(w: Any, c: Any) -> Any:
        x = next(iter(c.inputs.values()))
        number = scalar(w, _number(c), x)
        return w.node(op, number, x) if swapped else w.node(op, x, number)

    return write


for _name, _op in {
    "scalar_add": "Add", "scalar_mul": "Mul", "scalar_div": "Div", "scalar_pow": "Pow",
    "scalar_logical_equal": "Equal", "scalar_logical_greater": "Greater",
    "scalar_logical_greater_equal": "GreaterOrEqual", "scalar_logical_less": "Less",
    "scalar_logical_less_equal": "LessOrEqual",
}.items():  # fmt: skip
    ROWS[_name] = _with_number(_op)
ROWS["scalar_reverse_pow"] = _with_number("Pow", swapped=True)


@row("broadcast_not_equal")
def _not_equal(w: Any, c: Any) -> Any:
    return w.node("Not", w.node("Equal", c.x, c.y))


@row("scalar_logical_not_equal")
def _scalar_not_equal(w: Any, c: Any) -> Any:
    x = c.inputs["in"]
    return w.node("Not", w.node("Equal", x, scalar(w, _number(c), x)))


def _truncated(w: Any, dividend: str, divisor: str) -> Any:
    """A quotient rounded towards 0, as ONNX divides integers."""
    quotient = w.node("Div", dividend, divisor)
    if not w.desc(dividend).dtype.is_float:
        return quotient
    return w.node("Mul", w.node("Sign", quotient), w.node("Floor", w.node("Abs", quotient)))


@row("truncdiv")
def _truncdiv(w: Any, c: Any) -> Any:
    return _truncated(w, c.x, c.y)


@row("scalar_truncdiv")
def _scalar_truncdiv(w: Any, c: Any) -> Any:
    x = c.inputs["in"]
    return _truncated(w, x, scalar(w, _number(c), x))


@row("softplus")
def _softplus(w: Any, c: Any) -> Any:
    beta, threshold = (scalar(w, c.attrs[name], c.x) for name in ("beta", "threshold"))
    scaled = w.node("Mul", c.x, beta)
    return w.node("Where", w.node("Greater", scaled, threshold), c.x, w.node("Div", w.node("Softplus", scaled), beta))


@row("broadcast_fmod")
def _fmod(w: Any, c: Any) -> Any:
    return w.node("Mod", c.x, c.y, fmod=1)


@row("broadcast_floor_mod")
def _floor_mod(w: Any, c: Any) -> Any:
    if w.desc(c.x).dtype.is_float:
        return w.node("Sub", c.x, w.node("Mul", w.node("Floor", w.node("Div", c.x, c.y)), c.y))
    return w.node("Mod", c.x, c.y)


@row("square")
def _square(w: Any, c: Any) -> Any:
    return w.node("Mul", c.x, c.x)


@row("rsqrt")
def _rsqrt(w: Any, c: Any) -> Any:
    return w.node("Reciprocal", w.node("Sqrt", c.x))


@row("silu")
def _silu(w: Any, c: Any) -> Any:
    return w.node("Mul", c.inputs["in"], w.node("Sigmoid", c.inputs["in"]))


@row("fast_gelu")
def _fast_gelu(w: Any, c: Any) -> Any:
    return w.node("Gelu", c.inputs["in"], approximate="tanh")


@row("elu", "celu", "leaky_relu")
def _with_alpha(w: Any, c: Any) -> Any:
    names = {"elu": "Elu", "celu": "Celu", "leaky_relu": "LeakyRelu"}
    return w.node(names[c.record.name], next(iter(c.inputs.values())), alpha=float(c.attrs["alpha"]))


@row("hardsigmoid")
def _hardsigmoid(w: Any, c: Any) -> Any:
    return w.node("HardSigmoid", c.inputs["in"], alpha=1 / 6, beta=0.5)


@row("hardtanh")
def _hardtanh(w: Any, c: Any) -> Any:
    x = c.inputs["in"]
    return w.node("Clip", x, scalar(w, c.attrs["min_val"], x), scalar(w, c.attrs["max_val"], x))


@row("clip_by_scalar", "clip_by_scalar_min", "clip_by_scalar_max")
def _clip(w: Any, c: Any) -> Any:
    kind = "floating" if w.desc(c.x).dtype.is_float else "integral"
    bounds = [scalar(w, c.attrs[f"{kind}_{b}"], c.x) if f"{kind}_{b}" in c.attrs else None for b in ("min", "max")]
    return w.node("Clip", c.x, *bounds)


@row("masked_fill")
def _masked_fill(w: Any, c: Any) -> Any:
    return w.node("Where", c.mask, scalar(w, _number(c), c.x), c.x)


@row("cast")
def _cast(w: Any, c: Any) -> Any:
    target = c.attrs["dtype"]
    how = {"saturate": 0} if target.name == "float8_e5m2" else {}
    return w.node("Cast", c.inputs["in"], to=NUMBERS[target.name], **how)


@row("softmax", "log_softmax")
def _softmax(w: Any, c: Any) -> Any:
    return w.node("Softmax" if c.record.name == "softmax" else "LogSoftmax", c.inputs["in"], axis=-1)


def _transposed(w: Any, x: str, wanted: bool) -> str:
    """A stack of matrices transposed."""
    rank = w.desc(x).rank
    return w.node("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2]) if wanted else x


@row("matmul", "batch_matmul", "broadcast_matmul")
def _matmul(w: Any, c: Any) -> Any:
    a, b = _transposed(w, c.a, c.attrs["transpose_a"]), _transposed(w, c.b, c.attrs["transpose_b"])
    product = w.node("MatMul", a, b)
    if c.attrs["alpha"] != 1:
        product = w.node("Mul", product, scalar(w, c.attrs["alpha"], c.a))
    return product if c.inputs.get("_add_to_output") is None else w.node("Add", product, c.inputs["_add_to_output"])


@row("bias_add")
def _bias_add(w: Any, c: Any) -> Any:
    rank, axis = w.desc(c.a).rank, c.attrs["axis"] % w.desc(c.a).rank
    return w.node("Add", c.a, w.node("Reshape", c.b, ints(w, [-1, *[1] * (rank - 1 - axis)])))


def channels_first(c: Any) -> None:
    """Refuses operands with channels last.

    Raises:
        OnnxError: the call has another `data_format`.
    """
    if c.attrs["data_format"] != "channels_first":
        raise OnnxError(f"expected data_format channels_first, got {c.attrs['data_format']}")


@row("normalization")
def _normalization(w: Any, c: Any) -> Any:
    if c.attrs["training"] or c.attrs["axis"] != 1 or c.inputs.get("_add_to_output") is not None:
        raise OnnxError("only running statistics over dimension 1 are written; call model.eval() first")
    operands = (c.x, c.gamma, c.beta, c.moving_mean, c.moving_variance)
    return w.node("BatchNormalization", *operands, epsilon=float(c.attrs["epsilon"]))


@row("layer_norm")
def _layer_norm(w: Any, c: Any) -> Any:
    desc, begin = w.desc(c.x), c.attrs["begin_norm_axis"]
    shape = desc.shape[begin:]
    if None in shape:
        raise OnnxError(f"expected static sizes of normalized dimensions, got {desc}")
    gamma = c.inputs.get("gamma") or w.constant(np.ones(shape, desc.dtype.numpy))
    results = w.node(
        "LayerNormalization",
        c.x,
        gamma,
        c.inputs.get("beta"),
        outputs=3,
        axis=begin,
        epsilon=float(c.attrs["epsilon"]),
    )
    return results


@row("group_norm")
def _group_norm(w: Any, c: Any) -> Any:
    channels_first(c)
    desc = w.desc(c.x)
    gamma = c.inputs.get("gamma") or w.constant(np.ones(desc.shape[1], desc.dtype.numpy))
    beta = c.inputs.get("beta") or w.constant(np.zeros(desc.shape[1], desc.dtype.numpy))
    groups = c.attrs["num_groups"]
    return w.node("GroupNormalization", c.x, gamma, beta, num_groups=groups, epsilon=float(c.attrs["epsilon"]))


@row("reshape")
def _reshape(w: Any, c: Any) -> Any:
    own, wanted = w.desc(c.inputs["in"]).shape, list(c.attrs["shape"])
    if (
        wanted.count(-1) > 1
        and len(wanted) <= len(own)
        and [d is None for d in own[: len(wanted)]] == [d == -1 for d in wanted]
    ):
        wanted = [0 if d == -1 else d for d in wanted]
    if wanted.count(-1) > 1:
        raise OnnxError(f"several dynamic sizes of {wanted} are not written")
    return w.node("Reshape", c.inputs["in"], ints(w, wanted), allowzero=int(0 in own))


@row("reshape_like")
def _reshape_like(w: Any, c: Any) -> Any:
    return w.node("Reshape", c.inputs["in"], w.node("Shape", c.like))


@row("transpose")
def _transpose(w: Any, c: Any) -> Any:
    return w.node("Transpose", c.input, perm=list(c.attrs["perm"]))


@row("expand_dims")
def _expand_dims(w: Any, c: Any) -> Any:
    return w.node("Unsqueeze", c.inputs["in"], ints(w, [c.attrs["axis"]]))


@row("squeeze")
def _squeeze(w: Any, c: Any) -> Any:
    return w.node("Squeeze", c.inputs["in"], ints(w, c.attrs["axes"]))


@row("expand")
def _expand(w: Any, c: Any) -> Any:
    return w.node("Expand", c.inputs["in"], ints(w, [1 if d == -1 else d for d in c.attrs["expand_shape"]]))


@row("broadcast_like")
def _broadcast_like(w: Any, c: Any) -> Any:
    axes = list(c.attrs["broadcast_axes"]) if w.desc(c.x).rank < w.desc(c.like).rank else []
    x = w.node("Unsqueeze", c.x, ints(w, axes)) if axes else c.x
    return w.node("Expand", x, w.node("Shape", c.like))


@row("cat")
def _cat(w: Any, c: Any) -> Any:
    return w.node("Concat", *c.inputs["in"], axis=c.attrs["axis"])


@row("stack")
def _stack(w: Any, c: Any) -> Any:
    axis = ints(w, [c.attrs["axis"]])
    return w.node("Concat", *(w.node("Unsqueeze", x, axis) for x in c.inputs["in"]), axis=c.attrs["axis"])


@row("stack_grad")
def _unbind(w: Any, c: Any) -> Any:
    axis, count = c.attrs["axis"], len(c.inputs["like"])
    if count == 1:
        return (w.node("Squeeze", c.inputs["in"], ints(w, [axis])),)
    parts = w.node("Split", c.inputs["in"], outputs=count, axis=axis, num_outputs=count)
    return tuple(w.node("Squeeze", part, ints(w, [axis])) for part in parts)


@row("split_like")
def _split_like(w: Any, c: Any) -> Any:
    axis = c.attrs["axis"]
    sizes = [w.node("Gather", w.node("Shape", like), ints(w, [axis])) for like in c.inputs["like"]]
    return w.node("Split", c.inputs["in"], w.node("Concat", *sizes, axis=0), outputs=len(sizes), axis=axis)


@row("slice")
def _slice(w: Any, c: Any) -> Any:
    bounds = (c.attrs[k] for k in ("start", "stop"))
    axes = ints(w, range(len(c.attrs["start"])))
    return w.node("Slice", c.x, *(ints(w, b) for b in bounds), axes, ints(w, c.attrs["step"]))


@row("narrow")
def _narrow(w: Any, c: Any) -> Any:
    start, length = c.attrs["start"], c.attrs["length"]
    stop = start + length if start >= 0 or start + length < 0 else 2**63 - 1
    return w.node("Slice", c.inputs["in"], ints(w, [start]), ints(w, [stop]), ints(w, [c.attrs["dim"]]))


@row("pad")
def _pad(w: Any, c: Any) -> Any:
    kind = "floating" if w.desc(c.x).dtype.is_float else "integral"
    value = scalar(w, c.attrs[f"{kind}_constant_value"], c.x)
    return w.node("Pad", c.x, ints(w, [*c.attrs["padding_before"], *c.attrs["padding_after"]]), value)


@row("gather")
def _gather(w: Any, c: Any) -> Any:
    return w.node("Gather", c.inputs["in"], c.indices, axis=c.attrs["axis"])


@row("embedding")
def _embedding(w: Any, c: Any) -> Any:
    return w.node("Gather", c.weight, c.indices, axis=0)


@row("dim_gather")
def _dim_gather(w: Any, c: Any) -> Any:
    return w.node("GatherElements", c.input, c.index, axis=c.attrs["dim"])


@row("one_hot")
def _one_hot(w: Any, c: Any) -> Any:
    dtype = c.attrs["dtype"]
    kind = "floating" if dtype.is_float else "integer"
    values = [c.attrs[f"{kind}_off_value"], c.attrs[f"{kind}_on_value"]]
    return w.node("OneHot", c.indices, ints(w, [c.attrs["depth"]]), w.constant(np.array(values, dtype.numpy)))


def _reduction(op: str) -> Row:
    def write(w: Any, c: Any) -> Any:
        axes = ints(w, c.attrs["axis"])
        return w.node(op, c.input_tensor, axes, keepdims=int(c.attrs["keepdims"]), noop_with_empty_axes=1)

    return write


for _name, _op in {
    "reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin",
}.items():  # fmt: skip
    ROWS[_name] = _reduction(_op)


@row("reduce_any", "reduce_all")
def _reduce_bools(w: Any, c: Any) -> Any:
    op = "ReduceMax" if c.record.name == "reduce_any" else "ReduceMin"
    return w.node(op, c.input_tensor, ints(w, c.attrs["axis"]), keepdims=int(c.attrs["keepdims"]))


@row("argmax")
def _argmax(w: Any, c: Any) -> Any:
    return w.node("ArgMax", c.inputs["in"], axis=-1, keepdims=0)


@row("cumsum")
def _cumsum(w: Any, c: Any) -> Any:
    return w.node("CumSum", c.x, w.constant(np.array(c.attrs["dim"], np.int64)))


@row("tril", "triu")
def _triangle(w: Any, c: Any) -> Any:
    diagonal = w.constant(np.array(c.attrs["diagonal"], np.int64))
    return w.node("Trilu", c.inputs["in"], diagonal, upper=int(c.record.name == "triu"))


@row("constant")
def _constant(w: Any, c: Any) -> Any:
    value = c.attrs["floating_value"] if c.attrs["is_floating_value"] else c.attrs["integer_value"]
    filling = np.array(value).astype(c.attrs["dtype"].numpy)
    shape = list(c.attrs["shape"])
    if math.prod(shape) <= 64:
        return w.constant(np.full(shape, filling))
    return w.node("Expand", w.constant(filling), ints(w, shape))


@row("arange")
def _arange(w: Any, c: Any) -> Any:
    dtype = c.attrs["dtype"]
    kind = "float" if dtype.is_float else "integer"
    bounds = [c.attrs[f"{kind}_{k}"] for k in ("start", "limit", "delta")]
    return w.constant(np.arange(*bounds).astype(dtype.numpy))


@row("zero_like", "ones_like")
def _filled_like(w: Any, c: Any) -> Any:
    value = scalar(w, int(c.record.name == "ones_like"), c.like)
    return w.node("Expand", value, w.node("Shape", c.like))


@row("dim_size")
def _dim_size(w: Any, c: Any) -> Any:
    return w.node("Gather", w.node("Shape", c.like), w.constant(np.array(c.attrs["dim"], np.int64)))


@row("attention")
def _attention(w: Any, c: Any) -> Any:
    """Attention written out: scaled scores, a mask, softmax, and the weighed values."""
    if c.attrs["rate"] or c.inputs.get("offset") is not None or c.attrs["logical_shape"]:
        raise OnnxError("attention with dropout, or of a part, is not written")
    query = w.desc(c.query)
    if query.rank != 4:
        raise OnnxError(f"expected a query of 4 dimensions, got {query}")
    key, value = (_repeated_heads(w, x, query.shape[1]) for x in (c.key, c.value))
    scores = w.node(
        "MatMul",
        w.node("Mul", c.query, scalar(w, c.attrs["scale"], c.query)),
        w.node("Transpose", key, perm=(0, 1, 3, 2)),
    )
    if c.attrs["causal"]:
        scores = w.node("Where", _causal(w, c.query, c.key), scores, scalar(w, -np.inf, c.query))
    if c.inputs.get("mask") is not None:
        is_bool = w.desc(c.mask).dtype.name == "bool"
        scores = (
            w.node("Where", c.mask, scores, scalar(w, -np.inf, c.query)) if is_bool else w.node("Add", scores, c.mask)
        )
    result = w.node("MatMul", w.node("Softmax", scores, axis=-1), value)
    return result, w.node("ReduceLogSumExp", scores, ints(w, [-1]), keepdims=0)


def _repeated_heads(w: Any, x: str, heads: int) -> Any:
    """Keys or values with as many heads as the queries: a head is that of several queries in grouped attention."""
    own, size = w.desc(x).shape[1], w.desc(x).shape[3]
    if own == heads:
        return x
    wide = w.node("Expand", w.node("Unsqueeze", x, ints(w, [2])), ints(w, [1, 1, heads // own, 1, 1]))
    return w.node("Reshape", wide, ints(w, [0, heads, -1, size]))


def _causal(w: Any, query: str, key: str) -> Any:
    """The mask of keys that do not follow their query."""
    rows, columns = (w.desc(x).shape[2] for x in (query, key))
    if rows is not None and columns is not None:
        return w.constant(np.tril(np.ones((rows, columns), bool), columns - rows))
    lengths = [w.node("Shape", x, start=2, end=3) for x in (query, key)]
    every = w.node("Expand", w.constant(np.array(True)), w.node("Concat", *lengths, axis=0))
    return w.node("Trilu", every, w.node("Squeeze", w.node("Sub", *lengths[::-1])), upper=0)


@row("add_n")
def _add_n(w: Any, c: Any) -> Any:
    return w.node("Sum", *c.inputs["in"])


@row("rms_norm")
def _rms_norm(w: Any, c: Any) -> Any:
    x, rank = w.desc(c.x), len(c.attrs["normalized_shape"])
    if x.dtype.bits < 32:
        raise OnnxError(
            f"normalization by the root of squares of {x.dtype.mlir}, which is computed in f32, is not written"
        )
    squares = w.node("ReduceMean", w.node("Mul", c.x, c.x), ints(w, range(-rank, 0)), keepdims=1)
    inverse = w.node("Reciprocal", w.node("Sqrt", w.node("Add", squares, scalar(w, c.attrs["epsilon"], c.x))))
    y = w.node("Mul", c.x, inverse)
    return (y if c.inputs.get("weight") is None else w.node("Mul", y, c.weight)), inverse


@row("flip")
def _flip(w: Any, c: Any) -> Any:
    dims = c.attrs["dims"]
    ends, steps = ([v] * len(dims) for v in (-(2**63), -1))
    return w.node("Slice", c.x, ints(w, [-1] * len(dims)), ints(w, ends), ints(w, dims), ints(w, steps))


@row("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def _mirrored(w: Any, c: Any) -> Any:
    mode = "reflect" if c.record.name.startswith("reflection") else "edge"
    before, after = (list(c.attrs["padding"])[side::2][::-1] for side in (0, 1))
    axes = range(w.desc(c.x).rank - len(before), w.desc(c.x).rank)
    return w.node("Pad", c.x, ints(w, [*before, *after]), None, ints(w, axes), mode=mode)


def _after(op: str, number: float) -> Row:
    """A node, and a product of its result with a number."""

    def write(w: Any, c: Any) -> Any:
        x = next(iter(c.inputs.values()))
        return w.node("Mul", w.node(op, x), scalar(w, number, x))

    return write


ROWS["log2"], ROWS["log10"] = _after("Log", 1 / math.log(2)), _after("Log", 1 / math.log(10))


@row("selu")
def _selu(w: Any, c: Any) -> Any:
    return w.node("Selu", c.inputs["in"])


@row("log_sigmoid")
def _log_sigmoid(w: Any, c: Any) -> Any:
    return w.node("Neg", w.node("Softplus", w.node("Neg", c.x)))


@row("quick_gelu")
def _quick_gelu(w: Any, c: Any) -> Any:
    return w.node("Mul", c.x, w.node("Sigmoid", w.node("Mul", c.x, scalar(w, 1.702, c.x))))


@row("square_relu")
def _square_relu(w: Any, c: Any) -> Any:
    positive = w.node("Relu", c.x)
    return w.node("Mul", positive, positive)


@row("isfinite")
def _isfinite(w: Any, c: Any) -> Any:
    x = c.inputs["in"]
    return w.node("Not", w.node("Or", w.node("IsInf", x), w.node("IsNaN", x)))


@row("eye")
def _eye(w: Any, c: Any) -> Any:
    return w.constant(np.eye(c.attrs["rows"], c.attrs["cols"], dtype=c.attrs["dtype"].numpy))


@row(
    "upsample_nearest_1d", "upsample_nearest_2d", "upsample_nearest_3d", "upsample_linear_1d",
    "upsample_bilinear_2d", "upsample_trilinear_3d",
)  # fmt: skip
def _upsample(w: Any, c: Any) -> Any:
    channels_first(c)
    axes = list(range(2, w.desc(c.x).rank))
    names = [n for n in ("scale_factor", "depth_scale", "height_scale", "width_scale") if n in c.attrs]
    scales = None if c.attrs["output_size"] else w.constant(np.array([c.attrs[n] for n in names], np.float32))
    sizes = ints(w, c.attrs["output_size"]) if c.attrs["output_size"] else None
    how = "align_corners" if c.attrs.get("align_corners") else "half_pixel"
    options = {"mode": "linear", "coordinate_transformation_mode": how}
    if "nearest" in c.record.name:
        options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.node("Resize", c.x, None, scales, sizes, axes=axes, **options)
