"""Further names of functions, from NumPy and PyTorch."""

from __future__ import annotations

from oneflow.frontend.functional import elementwise, shape

#: The modules in which functions are looked up.
_MODULES = (elementwise, shape)

#: The functions by their further names.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "concat": "cat", "concatenate": "cat",
    "divide": "div", "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "moveaxis": "movedim", "multiply": "mul", "not_equal": "ne", "subtract": "sub", "swapaxes": "transpose",
    "swapdims": "transpose", "true_divide": "div",
}  # fmt: skip

__all__ = list(ALIASES)

for _name, _function in ALIASES.items():
    globals()[_name] = next(getattr(m, _function) for m in _MODULES if hasattr(m, _function))
