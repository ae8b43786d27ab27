"""The ranges and the precision of element types: `flow.finfo`, `flow.iinfo`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.settings import get_default_dtype

__all__ = ["finfo", "iinfo"]


class finfo:  # noqa: N801 (NumPy's name)
    """The range and the precision of a type of floats, by default the default type: `bits`, `eps`, `max`, `min`,
    `tiny`, `smallest_normal`, `resolution`, `dtype`.

    Raises:
        TypeError: the type is no type of floats.
    """

    def __init__(self, type: DType | None = None) -> None:
        dtype = get_default_dtype() if type is None else type
        if not isinstance(dtype, DType) or not dtype.is_float:
            raise TypeError(f"expected a type of floats for finfo, got {type!r}; write flow.iinfo for integers")
        limits: Any = ml_dtypes.finfo(dtype.numpy)
        self.bits, self.dtype = dtype.bits, repr(dtype)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.tiny)
        self.resolution = float(f"1e-{limits.precision}")

    def __repr__(self) -> str:
        numbers = {n: f"{getattr(self, n):g}" for n in ("resolution", "min", "max", "eps", "tiny")}
        texts = [f"{name}={text}" for name, text in numbers.items()]
        return f"finfo({', '.join(texts)}, dtype={self.dtype}, bits={self.bits})"


class iinfo:  # noqa: N801 (NumPy's name)
    """The range of a type of integers: `bits`, `max`, `min`, `dtype`.

    Raises:
        TypeError: the type is no type of integers.
    """

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType) or not type.is_integer:
            raise TypeError(f"expected a type of integers for iinfo, got {type!r}; write flow.finfo for floats")
        limits = np.iinfo(type.name)
        self.bits, self.max, self.min, self.dtype = type.bits, int(limits.max), int(limits.min), repr(type)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype}, bits={self.bits})"
