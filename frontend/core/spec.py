"""Specs: the shapes, element types and layouts of arguments that a function is traced for."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.sbp import Sbp
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.global_array import Placement


@dataclass(frozen=True, init=False)
class TensorSpec:
    """An argument's shape and element type: `TensorSpec((None, 64), flow.float32)`.

    Attributes:
        shape: sizes; None for a dimension that is only known at run time.
        dtype: the element type; a NumPy dtype or its name is taken too.
        name: the argument's name in the program; None: the name of the Python parameter.
        placement: the ranks of the tensor; None for a tensor without ranks, or for the ranks of the function.
        sbp: the layout on the placement, one SBP for each mesh axis; None for a layout to be inferred.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    name: str | None
    placement: Placement | None
    sbp: NdSbp | None

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any = dtypes.float32,
        name: str | None = None,
        *,
        placement: Placement | None = None,
        sbp: Any = None,
    ) -> None:
        if not isinstance(shape, Iterable) or isinstance(shape, str):
            raise ValueError(f"expected a shape such as (None, 64), got {shape!r}")
        sizes = tuple(shape)
        object.__setattr__(self, "shape", tuple(_size(size, sizes) for size in sizes))
        object.__setattr__(self, "dtype", _dtype(dtype))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "placement", placement)
        nd_sbp = (sbp,) if isinstance(sbp, Sbp) else sbp
        object.__setattr__(
            self, "sbp", nd_sbp if nd_sbp is None or placement is None else placement.layout(nd_sbp, self.desc)
        )

    def layout_on(self, home: Placement) -> tuple[Placement | None, NdSbp | None]:
        """The placement, None for `home`, and the layout, None for a layout to be inferred.

        Raises:
            ValueError: the layout does not fit the placement.
        """
        at = self.placement or home
        return self.placement, None if self.sbp is None else at.layout(self.sbp, self.desc)

    @property
    def desc(self) -> TensorDesc:
        """The dialect's description of the type."""
        return TensorDesc(self.shape, self.dtype)

    def __str__(self) -> str:
        return str(self.desc)


def _size(size: Any, shape: tuple[Any, ...]) -> int | None:
    """A size of a shape: any integer, such as one of NumPy."""
    if size is None:
        return None
    try:
        number = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = -1
    if not 0 <= number < 2**63:
        raise ValueError(f"expected sizes from 0 to 2^63 - 1, or None for a dynamic one, got {size!r} in {shape}")
    return number


def _dtype(dtype: Any) -> DType:
    """The element type for a dtype or a name of one."""
    if isinstance(dtype, DType):
        return dtype
    try:
        if dtype is not None:
            return dtypes.from_numpy(dtype)
    except TypeError:
        pass
    raise TypeError(f"expected an element type, one of {', '.join(dtypes.BY_NAME)}, got {dtype!r}")
