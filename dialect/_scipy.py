"""SciPy, which references of operators and the solver of layouts import when they are first used: `scipy.special`."""

from __future__ import annotations

from oneflow.dialect.lazy import OptionalPackage

scipy = OptionalPackage("scipy", "SciPy, which references and the solver of layouts use", "sbp")
