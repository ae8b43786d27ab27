"""Element-wise operators of two operands that broadcast, and their scalar forms; a row each."""

from __future__ import annotations

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.elementwise import elementwise

elementwise(
    "broadcast_add(x, y) -> z", "x + y.", scalar=lambda x, y: x + y, reference=np.add,
    allowed=dtypes.NUMERIC, linear="joint",
)  # fmt: skip
elementwise(
    "broadcast_mul(x, y) -> z", "x * y.", scalar=lambda x, y: x * y, reference=np.multiply,
    allowed=dtypes.NUMERIC, linear="each",
)  # fmt: skip
