"""The operators and methods of `Tensor`: functions of the functional API with the tensor as the first argument.

The import of this module enables `x + y` and `x.sum()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.deprecated import warn_deprecated
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.arrays import is_array
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.devices import device as named_device
from oneflow.frontend.core.dispatch import current_builder, detached
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.hooks import Handle, Hook, Hooks
from oneflow.frontend.core.promotion import is_number
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.function import to_device
from oneflow.frontend.eager.tape import Variable
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.functional import elementwise as e
from oneflow.frontend.functional.scattering import unfold_dimension
from oneflow.frontend.functional.shape import as_arguments
from oneflow.frontend.methods.backward import backward as backward_of
from oneflow.frontend.tracing.builder import TraceBuilder

#: Functions that are methods under their own names.
METHODS = """
    abs absolute acos acosh add addcdiv addcmul addmm addmv all allclose amax amin angle any arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere as_strided asin asinh atan atan2 atanh baddbmm
    bernoulli bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_to ceil chunk clamp clamp_max
    clamp_min clip clone conj conj_physical cos cosh cross cumprod cumsum diag diagonal digamma div divide dot
    dsplit elu eq equal erf erfc erfinv exp exp2 expand expand_as expm1 fix flatten flip floor floor_divide fmod
    frac ge gelu greater greater_equal gt hardshrink hsplit imag in_top_k index_add inner is_complex is_nonzero
    isclose isfinite isinf isnan kthvalue le lerp less less_equal lgamma log log1p log2 log10 log_softmax logaddexp
    logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_select matmul max maximum mean
    median min minimum mish mm mode moveaxis movedim mul multinomial multiply mv nansum narrow ne neg negative nms
    nonzero norm not_equal outer pow prod quantile real reciprocal relu remainder repeat repeat_interleave
    reshape_as roll round rsqrt scatter scatter_add scatter_reduce select selu sigmoid sign silu sin sinh softmax
    softplus softsign sort split sqrt square squeeze std stft sub subtract sum swapaxes swapdims t tan tanh
    tensor_split tile topk trace tril triu true_divide trunc unbind unique unsqueeze var vdot view vsplit
""".split()

#: Python's operators on two tensors, and their functions. The results of element-wise functions are new in any case,
#: so that these functions are called directly.
OPERATORS = {
    "add": e.add, "sub": e.sub, "mul": e.mul, "truediv": e.div, "floordiv": e.floor_divide, "mod": e.remainder,
    "pow": e.pow, "matmul": F.matmul, "and": e.bitwise_and, "or": e.bitwise_or, "xor": e.bitwise_xor,
}  # fmt: skip
COMPARISONS = {"eq": e.eq, "ne": e.ne, "lt": e.lt, "le": e.le, "gt": e.gt, "ge": e.ge}

#: The method that NumPy calls for an array left of a tensor.
UFUNCS = {
    np.add: F.add, np.subtract: F.sub, np.multiply: F.mul, np.divide: F.div, np.floor_divide: F.floor_divide,
    np.remainder: F.remainder, np.power: F.pow, np.matmul: F.matmul, np.equal: F.eq, np.not_equal: F.ne,
    np.less: F.lt, np.less_equal: F.le, np.greater: F.gt, np.greater_equal: F.ge, np.bitwise_and: F.bitwise_and,
    np.bitwise_or: F.bitwise_or, np.bitwise_xor: F.bitwise_xor,
}  # fmt: skip

CASTS = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip


def _swapped(function: Any) -> Any:
    return lambda self, other: function(other, self)


def _caster(name: str, dtype: DType) -> Any:
    def method(self: Tensor) -> Tensor:
        return F.cast(self, dtype)

    method.__name__, method.__doc__ = name, f"The elements converted to {dtype.name}."
    return method


def _comparing(function: Callable[..., Tensor], name: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        # Python's rule for None, strings and other objects that have no elements.
        has_elements = isinstance(other, (Tensor, list, tuple)) or is_number(other) or is_array(other)
        return function(self, other) if has_elements else NotImplemented

    method.__name__, method.__doc__ = name, function.__doc__
    return method


def permute(self: Tensor, *dims: Any) -> Tensor:
    """Dimension i of the result is dimension dims[i]; the dims one by one or as a list."""
    return F.permute(self, *dims)


def reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements under another shape; sizes one by one or as a list. See `flow.reshape`."""
    return F.reshape(self, as_arguments(shape))


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    return F.transpose(self, dim0, dim1)


def to(self: Tensor, *target: Any, dtype: DType | None = None, device: str | Device | None = None) -> Tensor:
    """Converted to an element type, moved to a device, or both; or like another tensor in both. A class of which the
    tensor is an instance, such as `flow.Tensor`, changes nothing.

    Raises:
        OneFlowError: a target is neither, or a tensor of a traced function would move to another device.
        CudaError: the device does not exist.
    """
    result = self
    for wanted in (*target, *(x for x in (dtype, device) if x is not None)):
        if isinstance(wanted, Tensor):
            result = to(result, wanted.device, wanted.dtype)
        elif isinstance(wanted, (str, Device)):
            result = _moved(result, named_device(wanted))
        elif isinstance(wanted, DType):
            result = F.cast(result, wanted)
        elif not (isinstance(wanted, type) and isinstance(result, wanted)):
            raise fail(f"expected an element type such as flow.float32, or a device, got {wanted!r}")
    return result


def _moved(x: Tensor, target: Device) -> Tensor:
    if isinstance(x, EagerTensor):
        return to_device(x, target)
    if device_of(x) != target:
        raise fail(
            f"expected the device {device_of(x)}, on which the function runs, got {target}: a compiled function runs "
            "on one device; move its arguments and results outside of the function"
        )
    return x


def device_of(self: Tensor) -> Device:
    """The device on which the traced function runs."""
    builder = current_builder()
    assert isinstance(builder, TraceBuilder)
    return builder.device


def cuda(self: Tensor, index: int = 0) -> Tensor:
    """The tensor, or a copy of it, on a CUDA device."""
    return _moved(self, Device("cuda", index))


def cpu(self: Tensor) -> Tensor:
    """The tensor, or a copy of it, on the host."""
    return _moved(self, Device("cpu"))


def contiguous(self: Tensor) -> Tensor:
    """The tensor itself where its elements follow each other in memory in row-major order, else a copy."""
    return self if is_contiguous(self) else F.clone(self)


def contiguous_(self: Tensor) -> Tensor:
    """The tensor, from now on in contiguous memory of its own."""
    if not is_contiguous(self):
        self.data = contiguous(self.detach())
    return self


def is_contiguous(self: Tensor) -> bool:
    """Whether the elements follow each other in memory in row-major order, which may be false for views."""
    return current_builder().is_contiguous(self)


def is_view(self: Tensor) -> bool:
    """Whether the tensor shares the memory of another tensor, so that an update of either changes both; in a traced
    function whether it would in eager mode.
    """
    return current_builder().memory_root(self)[0] is not self


def positive(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


def detach(self: Tensor) -> Tensor:
    """The same values, through which no gradient flows."""
    return detached(self)


def data(self: Tensor) -> Tensor:
    """The same as `detach()`."""
    return detach(self)


def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds to the `grad` of every leaf that the tensor depends on, or of `inputs` alone, the gradient of this tensor;
    see `flow.autograd.backward`.
    """
    backward_of([self], [gradient], retain_graph, create_graph, inputs)


def register_hook(self: Tensor, hook: Hook) -> Handle:
    """Has `hook(grad)` called when the gradient of the tensor is known; a result other than None replaces the
    gradient.

    In a traced function the hook is part of the program of the gradient.

    Raises:
        RuntimeError: the tensor does not require grad.
        TraceError: the tensor is from outside the traced function, or a checkpoint computes it again.
    """
    variable, builder = self.handle, current_builder()
    if isinstance(builder, TraceBuilder) and not isinstance(variable, Variable) and not builder.in_checkpoint:
        return builder.hooks_of(self).add(hook)
    if not isinstance(variable, Variable) or not builder.eager:
        raise fail(
            "expected register_hook on a tensor that the function computes, outside of flow.checkpoint; hooks on "
            "parameters are registered before the function is called"
        )
    owner = variable if variable.node is not None else variable.leaf
    if owner is None or not variable.requires_grad:
        raise refuse(f"expected a tensor that requires grad to hang a hook on, got {self.desc}")
    if owner.hooks is None:
        owner.hooks = Hooks()
    return owner.hooks.add(hook)


def reversed_dims(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    return F.permute(self, list(range(self.rank))[::-1])


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Tensor:
    """An operator between an array and a tensor; other functions of NumPy are refused."""
    function = UFUNCS.get(ufunc) if method == "__call__" and not options else None
    if function is None:
        name = ufunc.__name__
        raise fail(f"NumPy's {name} cannot compute on a tensor that is being traced; write flow.{name} or its like")
    return function(*inputs)


def attach(target: type[Tensor]) -> None:
    """Sets every operator and method on `target`."""
    for name in METHODS:
        setattr(target, name, getattr(F, name))
    for name, function in OPERATORS.items():
        setattr(target, f"__{name}__", function)
        setattr(target, f"__r{name}__", _swapped(function))
    for name, function in COMPARISONS.items():
        setattr(target, f"__{name}__", _comparing(function, f"__{name}__"))
    for name, dtype in CASTS.items():
        setattr(target, name, _caster(name, dtype))
    special = {
        "__neg__": e.neg, "__abs__": e.abs, "__invert__": e.bitwise_not, "__getitem__": F.getitem,
        "__array_ufunc__": array_ufunc, "__pos__": positive, "permute": permute, "reshape": reshape,
        "transpose": transpose, "to": to, "cast": to, "device": property(device_of), "cuda": cuda,
        "cpu": cpu, "contiguous": contiguous, "contiguous_": contiguous_, "detach": detach,
        "is_contiguous": is_contiguous, "is_view": is_view, "T": property(reversed_dims), "data": property(data),
        "where": where, "gather": F.gather, "index_select": F.index_select, "backward": backward,
        "register_hook": register_hook, "unfold": unfold_dimension,
    }  # fmt: skip
    for name, member in special.items():
        setattr(target, name, member)


def where(self: Tensor, *values: Any, **named: Any) -> Any:
    """`flow.where` with the tensor as the condition.

    The previous release's form `x.where(condition, other)` works for inexact tensors, which are no conditions.

    Raises:
        OneFlowError: the tensor is no condition. A tensor of integers could be `x` in the previous release's form.
    """
    if self.dtype.is_inexact and (named.keys() >= {"condition"} or any(map(_is_bool, values[:1]))):
        warn_deprecated("x.where(condition, y) is now flow.where(condition, x, y)")
        return _previous_where(self, *values, **named)
    if self.dtype.is_inexact or (self.dtype != dtypes.bool_ and any(map(_is_bool, values[:1]))):
        raise fail(
            f"expected a condition of bools or integers for condition.where(x, y), got {self.desc}; "
            "PyTorch's x.where(condition, y) is flow.where(condition, x, y)"
        )
    return F.where(self, *values, **named)


def _previous_where(x: Tensor, condition: Any, other: Any) -> Any:
    return F.where(condition, x, other)


def _is_bool(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype == dtypes.bool_


attach(Tensor)
