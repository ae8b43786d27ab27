"""The static description of a tensor: shape and element type.

`TensorDesc` is OneFlow's term. A description is independent of any MLIR context; `from_mlir` and `to_mlir` cross
the border.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import DType

#: A dimension: its size, or None where the size is known at run time only (`?`).
Dim = int | None
Shape = tuple[Dim, ...]


class SizeSymbol:
    """A size that is an expression: rules are run on such sizes to find what the rules require of dynamic sizes."""

    __slots__ = ()


_SIGNLESS = {f"s{d.mlir}": d.mlir for d in dtypes.SIGNED}


@dataclass(frozen=True)
class TensorDesc:
    """Shape and element type; `shape` is None for `tensor<*x..>`, a dynamic dimension is None."""

    shape: Shape | None
    dtype: DType

    @property
    def rank(self) -> int:
        """The number of dimensions. The tensor must be ranked."""
        assert self.shape is not None, "rank of an unranked tensor"
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return self.shape is not None and None not in self.shape

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a tensor that is static."""
        assert self.is_static, f"static shape of {self}"
        return cast("tuple[int, ...]", self.shape)

    @property
    def element_count(self) -> int | None:
        """The number of elements, or None while a dimension is unknown."""
        return count(self.shape) if self.shape is not None else None

    @property
    def is_too_large(self) -> bool:
        """Whether the bytes of the known sizes alone exceed 64 bits; unknown sizes are not assumed to be 0."""
        known = [d for d in self.shape or () if d is not None]
        return math.prod(known) * self.dtype.numpy.itemsize >= 2**63

    def refines(self, other: TensorDesc) -> bool:
        """Whether this says everything `other` says, and possibly more."""
        if self.dtype != other.dtype:
            return False
        if other.shape is None:
            return True
        if self.shape is None or len(self.shape) != len(other.shape):
            return False
        return all(o is None or o == s for s, o in zip(self.shape, other.shape, strict=True))

    def compatible(self, other: TensorDesc) -> bool:
        """Whether some tensor could have both descriptions."""
        if self is other:
            return True
        if self.dtype != other.dtype:
            return False
        if self.shape is None or other.shape is None:
            return True
        return len(self.shape) == len(other.shape) and all(
            s is None or o is None or s == o for s, o in zip(self.shape, other.shape, strict=True)
        )

    def meet(self, other: TensorDesc) -> TensorDesc:
        """The description with the known sizes of two compatible descriptions."""
        if self.shape is None or other.shape is None:
            return other if self.shape is None else self
        pairs = zip(self.shape, other.shape, strict=True)
        return TensorDesc(tuple(o if s is None else s for s, o in pairs), self.dtype)

    def to_mlir(self) -> ir.Type:
        """The `tensor<..>` type in the current context."""
        return ir.Type.parse(str(self))

    def __str__(self) -> str:
        if self.shape is None:
            return f"tensor<*x{self.dtype.mlir}>"
        return f"tensor<{format_shape(self.shape)}{'x' if self.shape else ''}{self.dtype.mlir}>"


def common_type(descs: Sequence[TensorDesc]) -> TensorDesc:
    """The most specific description of all: `?` where sizes differ, unranked where ranks do.

    Raises:
        ValueError: the element types differ, so no tensor type covers them.
    """
    if len({d.dtype for d in descs}) > 1:
        raise ValueError(f"expected tensors of one data type, got {', '.join(map(str, descs))}")
    if any(d.shape is None for d in descs) or len({d.rank for d in descs}) > 1:
        return TensorDesc(None, descs[0].dtype)
    sizes = zip(*(d.shape for d in descs if d.shape is not None), strict=True)
    return TensorDesc(tuple(s[0] if len(set(s)) == 1 else None for s in sizes), descs[0].dtype)


def format_shape(shape: Sequence[Dim]) -> str:
    """A shape as MLIR writes it: `2x?x3`."""
    return "x".join("?" if d is None else str(d) for d in shape)


def count(shape: Sequence[Dim]) -> int | None:
    """The product of the dimensions; None while one is unknown and none is zero."""
    if 0 in shape:
        return 0
    return None if None in shape else math.prod(d for d in shape if d is not None)


@functools.lru_cache(maxsize=4096)
def parse_desc(text: str) -> TensorDesc | None:
    """The description in the text of an MLIR type, or None where the type is not a tensor of a known type.

    Signed integers (`si64`) are read as signless integers; `ui8` is OneFlow's uint8, and so on.
    """
    if not (text.startswith("tensor<") and text.endswith(">")) or "," in text:
        return None
    dims, element = _split_type(text[len("tensor<") : -1])
    dtype = dtypes.BY_MLIR.get(_SIGNLESS.get(element, element))
    if dtype is None:
        return None
    if dims == ["*"]:
        return TensorDesc(None, dtype)
    return TensorDesc(tuple(None if d == "?" else int(d) for d in dims), dtype)


def _split_type(text: str) -> tuple[list[str], str]:
    """The sizes and the element type of `2x?xf32`; the word `complex` contains an x."""
    match = re.fullmatch(r"((?:[\d?*]+x)*)(.*)", text)
    assert match is not None
    sizes, element = match.groups()
    return sizes.split("x")[:-1], element


def expected_type(mlir_type: ir.Type) -> str:
    """The expected types, for the message about a type without a description."""
    if not isinstance(mlir_type, (ir.RankedTensorType, ir.UnrankedTensorType)):
        return "expected a tensor"
    if "," in str(mlir_type):
        return "expected a tensor without an encoding"
    return f"expected a tensor of {', '.join(dtypes.BY_MLIR)}"


def from_mlir(mlir_type: ir.Type) -> TensorDesc | None:
    """The description of an MLIR type; see `parse_desc`."""
    return parse_desc(str(mlir_type))
