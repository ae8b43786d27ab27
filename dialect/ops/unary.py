"""Element-wise operators of one operand, under OneFlow's names; a row each.

Sources of formulas: the operator's definition in OneFlow, which follows PyTorch's.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect.elementwise import elementwise

elementwise(
    "negative(x) -> y", "-x.", scalar=lambda x: -x, reference=np.negative,
    allowed=dtypes.NUMERIC, linear="joint",
)  # fmt: skip
elementwise("tanh(x) -> y", "The hyperbolic tangent.", scalar=s.tanh, reference=np.tanh)
elementwise("erf(x) -> y", "The error function.", scalar=s.erf, reference=special.erf)
elementwise("exp(x) -> y", "e to the power x.", scalar=s.exp, reference=np.exp)
elementwise(
    "relu(x) -> y", "x where x > 0, else 0; NaN stays.",
    scalar=lambda x: s.maximum(x, 0), reference=lambda x: np.maximum(x, 0), allowed=dtypes.NUMERIC,
)  # fmt: skip
elementwise(
    "leaky_relu(x, alpha: float) -> y", "x where x > 0, else alpha * x.",
    scalar=lambda x, *, alpha: s.where(x > 0, x, x * alpha),
    reference=lambda x, *, alpha: np.where(x > 0, x, x * np.asarray(alpha, x.dtype)),
)  # fmt: skip
