"""`flow.sbp`: the layout of a tensor along one axis of a mesh."""

import operator
from typing import SupportsIndex

from oneflow.dialect.sbp import B, P, S, Sbp

#: The class of layouts along one axis.
sbp = Sbp
#: Whole on every rank.
broadcast = B
#: Every rank has one term of a sum; the tensor is the sum.
partial_sum = P


def split(axis: SupportsIndex) -> Sbp:
    """Cut along an axis; a negative axis counts from the last.

    Raises:
        ValueError: the axis is no integer.
    """
    try:
        return S(operator.index(axis))
    except TypeError:
        raise ValueError(f"expected flow.sbp.split(axis) with an integer, got {axis!r}") from None


__all__ = ["broadcast", "partial_sum", "sbp", "split"]
