"""`flow.special`: functions under SciPy's names."""

from __future__ import annotations

import math
from typing import Any

from oneflow.dialect import dtypes
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.rules import as_common, to_float

#: Each name, and the function that it is.
NAMES = {
    "erf": "erf", "erfc": "erfc", "exp2": "exp2", "expm1": "expm1", "expit": "sigmoid", "log1p": "log1p",
    "log_softmax": "log_softmax", "logsumexp": "logsumexp", "round": "round", "softmax": "softmax",
    "digamma": "digamma", "erfinv": "erfinv", "gammaln": "lgamma", "polygamma": "polygamma", "psi": "digamma",
}  # fmt: skip

__all__ = [*NAMES, "zeta"]

globals().update({name: getattr(F, function) for name, function in NAMES.items()})

#: The terms that `zeta` adds one by one, and (2n)! over the Bernoulli numbers of its remainder.
TERMS = 10
REMAINDER = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792, 74724249600.0, -2950130727918.164)


def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta function, the sum of (k + other)^-input over k from 0; computed in f64.

    It is infinite where input is 1, or other a whole number of at most 0; NaN where input is less than 1, or other
    negative. Formula: Euler and Maclaurin's, as in Cephes.
    """
    x, q = as_common(*map(to_float, as_common(input, other)))
    power, first = (F.cast(v, dtypes.float64) for v in (x, q))
    down = F.neg(power)
    total = F.pow(first, down)
    for k in range(1, TERMS):
        total = F.add(total, F.pow(F.add(first, k), down))
    last = F.add(first, TERMS - 1)
    term = F.pow(last, down)
    total = F.add(total, F.sub(F.div(F.mul(term, last), F.sub(power, 1)), F.mul(term, 0.5)))
    factor: Any = 1.0
    for n, divisor in enumerate(REMAINDER):
        factor, term = F.mul(F.add(power, 2 * n), factor), F.div(term, last)
        total = F.add(total, F.div(F.mul(factor, term), divisor))
        factor, term = F.mul(F.add(power, 2 * n + 1), factor), F.div(term, last)
    whole = F.logical_and(F.le(first, 0), F.eq(first, F.floor(first)))
    total = F.where(F.logical_or(whole, F.eq(power, 1)), math.inf, F.where(F.lt(first, 0), math.nan, total))
    return F.cast(F.where(F.lt(power, 1), math.nan, total), x.dtype)
