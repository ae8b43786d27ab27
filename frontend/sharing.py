"""Tensors in memory that others write into as well. Imports `eager`."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import eager
from oneflow.frontend.eager import EagerTensor


def from_numpy(array: Any) -> EagerTensor:
    """A tensor in the memory of an array, where that is contiguous and in native byte order.

    Updates of either show in the other, and in views of it.

    Raises:
        TypeError: the element type is none of ours.
    """
    made = eager.from_numpy(array)
    made.variable.shared_memory().exposed = True
    return made
