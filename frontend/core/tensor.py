"""The tensor of a trace: a shape and an element type, and no values.

`methods.py` adds operators and methods, as in the functional API; this module has the attributes of a tensor itself,
and the operations that a trace refuses: Python branches and numbers that depend on values (data-dependent control
flow, concretization).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Value
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.errors import called_by_user, fail
from oneflow.frontend.core.shape import Shape

if TYPE_CHECKING:
    import numpy as np


class Tensor(Value):
    """A tensor of a function that is being traced: `shape`, `dtype`, operators and methods, no values."""

    __slots__ = ()
    __hash__ = object.__hash__

    if TYPE_CHECKING:  # `methods.methods.attach` sets operators and methods; users call `methods.tensor_type.Tensor`

        def __init__(self, *data: Any, **where: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...

    def __copy__(self) -> Tensor:
        copied = object.__new__(type(self))
        names = {name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())} - {"__weakref__"}
        for name in names:
            setattr(copied, name, getattr(self, name))
        return copied

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape. To users a dynamic size is a `Size`, a number of the program; within this package None."""
        known = super().shape
        if None not in known:
            return Shape(known)
        return self.sizes() if called_by_user() else known

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.rank

    def dim(self) -> int:
        """The number of dimensions."""
        return self.rank

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension, a `Size` where it is dynamic.

        Raises:
            OneFlowError: the dimension does not exist.
        """
        sizes = self.sizes()
        if dim is None:
            return sizes
        if not -self.rank <= dim < self.rank:
            raise fail(f"expected dim in [{-self.rank}, {self.rank}), got {dim}")
        return sizes[dim]

    def sizes(self) -> tuple[Any, ...]:
        """The shape, with a `Size` for each dynamic dimension."""
        known = super().shape
        return Shape(Size("", self, i) if d is None else d for i, d in enumerate(known))

    def numel(self) -> Any:
        """The number of elements, a `Size` where it is dynamic."""
        return math.prod(self.sizes())

    def is_floating_point(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.dtype.is_float

    @property
    def requires_grad(self) -> bool:
        """False: in a trace `flow.grad` asks for gradients."""
        return False

    def _known(self, dim: int, advice: str) -> int:
        size = super().shape[dim]
        if size is None:
            raise fail(f"dimension {dim % self.rank} of {self.desc} is only known at run time: {advice}")
        return size

    def __len__(self) -> int:
        if not self.rank:
            raise fail(f"expected a tensor with dimensions for len(), got {self.desc}")
        return self._known(0, "len() needs a static size; compute on the whole tensor, or trace with a static size")

    def __iter__(self) -> Iterator[Any]:
        if not self.rank:
            raise fail(f"expected a tensor with dimensions to iterate over, got {self.desc}")
        size = self._known(0, "a loop cannot be unrolled; compute on the whole tensor, or trace with a static size")
        return (self[i] for i in range(size))

    def __contains__(self, _: Any) -> bool:
        raise fail("`in` on a tensor depends on its values; write flow.any(x == value)")

    def __bool__(self) -> bool:
        raise fail(
            "a branch on a tensor's value: the value is not known while the function is traced; "
            "write flow.where(condition, a, b), or branch on static sizes and Python values"
        )

    def __int__(self) -> int:
        raise _no_value("int()", "keep a tensor, x.to(flow.int64), or pass a Python int as an argument")

    def __index__(self) -> int:
        raise _no_value("an index or size", "index with flow.gather, or pass a Python int as an argument")

    def __float__(self) -> float:
        raise _no_value("float()", "keep a tensor, x.float(), or pass a Python float as an argument")

    def __format__(self, spec: str) -> str:
        """The tensor as text; with a `spec` such as ".3f", its one value."""
        return format(self.item(), spec) if spec else str(self)

    def __complex__(self) -> complex:
        raise _no_value("complex()", "keep a tensor")

    def item(self) -> Any:
        """Refused: the value is not known in a trace."""
        raise _no_value("item()", "return the tensor and read the number from the result")

    def tolist(self) -> Any:
        """Refused: the values are not known in a trace."""
        raise _no_value("tolist()", "return the tensor and read the numbers from the result")

    def numpy(self) -> np.ndarray:
        """Refused: the values are not known in a trace."""
        raise _no_value("numpy()", "return the tensor; the compiled function returns NumPy arrays")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise _no_value("a NumPy array", "use the functions of oneflow in place of NumPy's")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        name = function.__name__
        raise fail(f"NumPy's {name} cannot compute on a tensor that is being traced; write flow.{name} or its like")

    def __repr__(self) -> str:
        return f"Tensor({self.desc})"


#: The functions on sizes, and the corresponding operators on tensors.
_OPERATORS = {
    "+": "broadcast_add", "-": "broadcast_sub", "*": "broadcast_mul", "//": "floordiv", "%": "broadcast_floor_mod",
    "/": "broadcast_div", "min": "broadcast_minimum", "max": "broadcast_maximum",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "sqrt": "sqrt",
}  # fmt: skip


class _ComputedNumber(Tensor):
    """A number computed from the sizes of dimensions; it becomes a tensor at its first use as a tensor.

    `kind` is "" for dimension `b` of the tensor `a`, else the function of `a`, or of `a` and `b`.
    """

    __slots__ = ("_value", "a", "b", "kind")
    element_type: dtypes.DType

    def __init__(self, kind: str, a: Any, b: Any = None) -> None:
        self.builder = (a if isinstance(a, Tensor) else b).builder
        self.desc = TensorDesc((), self.element_type)
        self.kind, self.a, self.b, self._value = kind, a, b, None

    @property
    def handle(self) -> Any:
        """The number in the program."""
        if self._value is None:
            self._value = self._build().handle
        return self._value

    def _build(self) -> Value:
        if not self.kind:
            return self.builder.call("dim_size", self.a, dim=self.b)[0]
        is_real = any(isinstance(x, Real) for x in (self, *self.operands))
        dtype = dtypes.float64 if is_real else dtypes.int64
        result = self.builder.call(_OPERATORS[self.kind], *(self._operand(x, dtype) for x in self.operands))[0]
        return self._operand(result, self.element_type)

    def _operand(self, operand: Any, dtype: dtypes.DType) -> Value:
        """An operand as a tensor of `dtype`."""
        if isinstance(operand, Value):
            return operand if operand.dtype is dtype else self.builder.call("cast", operand, dtype=dtype)[0]
        value = {"floating_value": float(operand), "is_floating_value": True} if dtype.is_float else {}
        value = value or {"integer_value": operand}
        return self.builder.call("constant", dtype=dtype, shape=(), **value)[0]

    @property
    def operands(self) -> tuple[Any, ...]:
        """The numbers that the function has as arguments."""
        return (self.a,) if self.b is None else (self.a, self.b)

    def __copy__(self) -> _ComputedNumber:
        return self

    def dimensions(self) -> list[tuple[Tensor, int]]:
        """The dimensions that the number is computed from."""
        if not self.kind:
            return [(self.a, self.b)]
        return [d for x in self.operands if isinstance(x, _ComputedNumber) for d in x.dimensions()]

    def to_text(self, name: Callable[[Tensor, int], str]) -> str:
        """The number as text, with the names of dimensions from `name`."""
        if not self.kind:
            return name(self.a, self.b)
        texts = [x.to_text(name) if isinstance(x, _ComputedNumber) else str(x) for x in self.operands]
        return f"{self.kind}({', '.join(texts)})" if self.kind.isalpha() else f"({f' {self.kind} '.join(texts)})"

    def __bool__(self) -> bool:
        raise self._unknown("a Python value to branch on")

    def __index__(self) -> int:
        raise self._unknown("a Python int")

    __int__ = __index__

    def __float__(self) -> float:
        raise self._unknown("a Python float")

    def __str__(self) -> str:
        return self.to_text(lambda of, at: f"dimension {at} of {of.desc}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self}, only known at run time)"

    def _unknown(self, what: str) -> Exception:
        return fail(
            f"expected {what}, got {self}, which is only known at run time; compute with the size as with a tensor, "
            f"pass "
            "it on as a size, write -1 in reshape and expand, or give the dimension a static size"
        )


class Size(_ComputedNumber):
    """A dynamic size (int64): of a dimension, computed from such sizes and integers, or a rounded `Real`."""

    __slots__ = ()
    element_type = dtypes.int64

    def is_size_of(self, x: Tensor, at: int) -> bool:
        """Whether the size is the size of dimension `at` of `x`."""
        return not self.kind and self.a is x and self.b == at

    def __neg__(self) -> Size:
        return Size("-", 0, self)


class Real(_ComputedNumber):
    """A floating-point number (float64) computed from dynamic sizes, as Python computes with the sizes."""

    __slots__ = ()
    element_type = dtypes.float64


def _arithmetic(kind: str, name: str, swapped: bool) -> Callable[[Size, Any], Any]:
    """A Python operator of sizes: the result with a size or an integer is a size, with other operands a tensor."""

    def method(self: Size, other: Any) -> Any:
        if isinstance(other, Size):
            return Size(kind, self, other)
        if isinstance(other, bool) or not isinstance(other, Integral):
            return getattr(Tensor, name)(self, other)
        return Size(kind, int(other), self) if swapped else Size(kind, self, int(other))

    method.__name__ = name
    return method


for _kind, _name in {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}.items():
    setattr(Size, f"__{_name}__", _arithmetic(_kind, f"__{_name}__", swapped=False))
    setattr(Size, f"__r{_name}__", _arithmetic(_kind, f"__r{_name}__", swapped=True))


def _no_value(what: str, advice: str) -> Exception:
    return fail(f"{what} of a tensor needs its value, which is not known while the function is traced; {advice}")
