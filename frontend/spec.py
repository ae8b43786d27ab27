"""What a function is traced for: shapes, element types and layouts of its arguments.

Imports the dialect and `runtime.global_array`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        name: the argument's name in the program; None: that of the Python parameter.
        placement: the ranks that it lies on; None where it lies on none, or on those that the function says.
        sbp: how it lies there, one SBP for each mesh axis; None leaves it open.
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
        for size in shape:
            if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
                raise ValueError(f"expected sizes of at least 0, or None for a dynamic one, got {size!r} in {shape}")
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", dtype if isinstance(dtype, DType) else dtypes.from_numpy(dtype))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "placement", placement)
        given = (sbp,) if isinstance(sbp, Sbp) else sbp
        object.__setattr__(
            self, "sbp", given if given is None or placement is None else placement.layout(given, self.desc)
        )

    @property
    def desc(self) -> TensorDesc:
        """The same as the dialect's description."""
        return TensorDesc(self.shape, self.dtype)

    def __str__(self) -> str:
        return str(self.desc)
