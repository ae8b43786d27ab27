"""`flow.special`: functions under SciPy's names."""

from __future__ import annotations

from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.rules import as_common, to_float

#: The functions by name.
NAMES = {
    "erf": "erf", "erfc": "erfc", "exp2": "exp2", "expm1": "expm1", "expit": "sigmoid", "log1p": "log1p",
    "log_softmax": "log_softmax", "logsumexp": "logsumexp", "round": "round", "softmax": "softmax",
    "digamma": "digamma", "erfinv": "erfinv", "gammaln": "lgamma", "polygamma": "polygamma", "psi": "digamma",
}  # fmt: skip

__all__ = [*NAMES, "zeta"]

globals().update({name: getattr(F, function) for name, function in NAMES.items()})


def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta function, the sum of (k + other)^-input over k from 0; computed in f64.

    The result is infinite where input is 1, or other a whole number of at most 0; NaN where input is less than 1, or
    other negative.
    """
    return dispatch("broadcast_zeta", *as_common(*map(to_float, as_common(input, other))))
