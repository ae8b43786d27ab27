"""Shapes: tuples of sizes that print as OneFlow's."""

from __future__ import annotations

import math
from typing import Any


class Shape(tuple[Any, ...]):
    """The sizes of a tensor: `flow.Size`."""

    __slots__ = ()

    def numel(self) -> Any:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"oneflow.Size([{', '.join(map(str, self))}])"
