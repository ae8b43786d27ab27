"""Properties that follow from the shape and dtype of an array."""

from __future__ import annotations

import math

from oneflow.dialect.dtypes import DType


class ArrayProperties:
    """An array with `shape` and `dtype`; for an array on several ranks, of the whole array.

    Attributes:
        shape: the sizes of the dimensions.
        dtype: the element type.
    """

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
