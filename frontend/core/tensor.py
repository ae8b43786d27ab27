"""The tensor that a traced function computes with.

It has a shape and an element type and no values yet. `methods.py` gives it its operators and methods, which
are the functional API's; here is what it knows of itself, and what it refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NoReturn

from oneflow.dialect import dtypes
from oneflow.dialect.builder import Value
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.errors import called_by_user, fail


class Tensor(Value):
    """A tensor of a function that is being traced: `shape`, `dtype`, operators and methods, no values."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __copy__(self) -> Tensor:
        copied = object.__new__(type(self))
        names = {name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())} - {"__weakref__"}
        for name in names:
            setattr(copied, name, getattr(self, name))
        return copied

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes. One that is only known at run time is a number of the program to users (`Size`), None inside."""
        known = super().shape
        if None not in known or not called_by_user():
            return known
        return self.sizes()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.rank

    def dim(self) -> int:
        """The number of dimensions."""
        return self.rank

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension: a `Size` where it is only known at run time.

        Raises:
            OneFlowError: there is no such dimension.
        """
        sizes = self.sizes()
        if dim is None:
            return sizes
        if not -self.rank <= dim < self.rank:
            raise fail(f"expected dim in [{-self.rank}, {self.rank}), got {dim}")
        return sizes[dim]

    def sizes(self) -> tuple[Any, ...]:
        """The shape, with a `Size` for each dimension that is only known at run time."""
        known = super().shape
        return tuple(Size("", self, i) if d is None else d for i, d in enumerate(known))

    def numel(self) -> Any:
        """The number of elements: a `Size` where it is only known at run time."""
        return math.prod(self.sizes())

    def is_floating_point(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.dtype.is_float

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to it; a tensor of a trace does not say, and `flow.grad` asks for one."""
        return False

    def _known(self, dim: int, advice: str) -> int:
        size = super().shape[dim]
        if size is None:
            raise fail(f"dimension {dim % self.rank} of {self.desc} is only known at run time: {advice}")
        return size

    def __len__(self) -> int:
        if not self.rank:
            raise fail("a tensor without dimensions has no len()")
        return self._known(0, "len() needs a static size; compute on the whole tensor, or trace with a static size")

    def __iter__(self) -> Iterator[Any]:
        if not self.rank:
            raise fail("cannot iterate over a tensor without dimensions")
        size = self._known(0, "a loop cannot be unrolled; compute on the whole tensor, or trace with a static size")
        return (self[i] for i in range(size))  # type: ignore[index]

    def __contains__(self, _: Any) -> NoReturn:
        raise fail("`in` on a tensor depends on its values; write flow.any(x == value)")

    def __bool__(self) -> NoReturn:
        raise fail(
            "a branch on a tensor's value: the value is not known while the function is traced; "
            "write flow.where(condition, a, b), or branch on static sizes and Python values"
        )

    def __int__(self) -> NoReturn:
        raise _no_value("int()", "keep it a tensor, x.to(flow.int64), or pass a Python int as an argument")

    def __index__(self) -> NoReturn:
        raise _no_value("an index or size", "index with flow.gather, or pass a Python int as an argument")

    def __float__(self) -> NoReturn:
        raise _no_value("float()", "keep it a tensor, x.float(), or pass a Python float as an argument")

    def __format__(self, spec: str) -> str:
        """As text; with a `spec`, such as ".3f", the one value."""
        return format(self.item(), spec) if spec else str(self)

    def __complex__(self) -> NoReturn:
        raise _no_value("complex()", "keep it a tensor")

    def item(self) -> NoReturn:
        """Refused: a traced tensor has no value yet."""
        raise _no_value("item()", "return the tensor and read the number from the result")

    def tolist(self) -> NoReturn:
        """Refused: a traced tensor has no values yet."""
        raise _no_value("tolist()", "return the tensor and read the numbers from the result")

    def numpy(self) -> NoReturn:
        """Refused: a traced tensor has no values yet."""
        raise _no_value("numpy()", "return the tensor; the compiled function gives NumPy arrays")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise _no_value("a NumPy array", "use the functions of oneflow in place of NumPy's")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        name = function.__name__
        raise fail(f"NumPy's {name} cannot compute on a tensor that is being traced; write flow.{name} or its like")

    def __repr__(self) -> str:
        return f"Tensor({self.desc})"


#: What sizes are computed by, and the operators that do the same to tensors.
_COMPUTED = {
    "+": "broadcast_add", "-": "broadcast_sub", "*": "broadcast_mul", "//": "floordiv", "%": "broadcast_floor_mod",
    "min": "broadcast_minimum", "max": "broadcast_maximum",
}  # fmt: skip


class Size(Tensor):
    """A size that is only known at run time: that of a dimension, or one computed from such and integers.

    It is a tensor of one int64, made when it is first used as such. `kind` is "" for dimension `b` of the tensor `a`,
    else how `a` and `b` are put together.
    """

    __slots__ = ("_made", "a", "b", "kind")

    def __init__(self, kind: str, a: Any, b: Any) -> None:
        self.builder = (a if isinstance(a, Tensor) else b).builder
        self.desc = TensorDesc((), dtypes.int64)
        self.kind, self.a, self.b, self._made = kind, a, b, None

    @property
    def handle(self) -> Any:
        """The number in the program."""
        if self._made is None:
            self._made = self._make()[0].handle
        return self._made

    def _make(self) -> tuple[Value, ...]:
        if not self.kind:
            return self.builder.call("dim_size", self.a, dim=self.b)
        return self.builder.call(_COMPUTED[self.kind], *(self._number(x) for x in (self.a, self.b)))

    def _number(self, operand: Any) -> Value:
        if isinstance(operand, Size):
            return operand
        return self.builder.call("constant", dtype=dtypes.int64, shape=(), integer_value=operand)[0]

    def __copy__(self) -> Size:
        return self

    def dimensions(self) -> list[tuple[Tensor, int]]:
        """The dimensions that it is computed from."""
        if not self.kind:
            return [(self.a, self.b)]
        return [d for x in (self.a, self.b) if isinstance(x, Size) for d in x.dimensions()]

    def is_of(self, x: Tensor, at: int) -> bool:
        """Whether it is the size of dimension `at` of `x`."""
        return not self.kind and self.a is x and self.b == at

    def written(self, name: Callable[[Tensor, int], str]) -> str:
        """It as text, dimensions by the names that they are given."""
        if not self.kind:
            return name(self.a, self.b)
        a, b = (x.written(name) if isinstance(x, Size) else str(x) for x in (self.a, self.b))
        return f"{self.kind}({a}, {b})" if self.kind in ("min", "max") else f"({a} {self.kind} {b})"

    def __neg__(self) -> Size:
        return Size("-", 0, self)

    def __bool__(self) -> NoReturn:
        raise self._unknown("a Python value to branch on")

    def __index__(self) -> NoReturn:
        raise self._unknown("a Python int")

    __int__ = __index__

    def __float__(self) -> NoReturn:
        raise self._unknown("a Python float")

    def __str__(self) -> str:
        return self.written(lambda of, at: f"dimension {at} of {of.desc}")

    def __repr__(self) -> str:
        return f"Size({self}, only known at run time)"

    def _unknown(self, what: str) -> Exception:
        return fail(
            f"expected {what}, got {self}, which is only known at run time; compute with it as with a tensor, pass "
            "it on as a size, write -1 in reshape and expand, or give the dimension a static size"
        )


def _computing(kind: str, name: str, swapped: bool) -> Callable[[Size, Any], Any]:
    """A Python operator of sizes: beside sizes and integers it gives a size, beside anything else a tensor."""

    def method(self: Size, other: Any) -> Any:
        if isinstance(other, Size):
            return Size(kind, self, other)
        if isinstance(other, bool) or not isinstance(other, Integral):
            return getattr(Tensor, name)(self, other)
        return Size(kind, int(other), self) if swapped else Size(kind, self, int(other))

    method.__name__ = name
    return method


for _kind, _name in {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}.items():
    setattr(Size, f"__{_name}__", _computing(_kind, f"__{_name}__", swapped=False))
    setattr(Size, f"__r{_name}__", _computing(_kind, f"__r{_name}__", swapped=True))


def _no_value(what: str, advice: str) -> Exception:
    return fail(f"{what} of a tensor needs its value, which is not known while the function is traced; {advice}")
