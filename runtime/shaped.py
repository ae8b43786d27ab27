"""What follows from the shape and the element type of an array, wherever it lies."""

from __future__ import annotations

import math

from oneflow.dialect.dtypes import DType


class Shaped:
    """An array with `shape` and `dtype`; one that lies on several ranks counts as a whole."""

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.numpy.itemsize
