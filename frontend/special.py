"""`flow.special`: functions under SciPy's names."""

from __future__ import annotations

from oneflow.frontend import functional as F  # noqa: N812

#: Each name, and the function that it is.
NAMES = {
    "erf": "erf", "erfc": "erfc", "exp2": "exp2", "expm1": "expm1", "expit": "sigmoid", "log1p": "log1p",
    "log_softmax": "log_softmax", "logsumexp": "logsumexp", "round": "round", "softmax": "softmax",
    "digamma": "digamma", "erfinv": "erfinv", "gammaln": "lgamma", "polygamma": "polygamma", "psi": "digamma",
    "zeta": "zeta",
}  # fmt: skip

#: A name whose function is not there is none of this module either.
__all__ = [name for name, function in NAMES.items() if hasattr(F, function)]

globals().update({name: getattr(F, NAMES[name]) for name in __all__})
