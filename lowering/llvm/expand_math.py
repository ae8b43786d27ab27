"""`oneflow-expand-math`: exp, log, sin, tanh and similar functions as polynomials, on scalars and on vectors.

libm computes one element per call; the polynomials compute a vector. Errors are below 4 ulp; NaN and infinities are
exact. There is one function per vector type, which LLVM inlines.

Input and output are functions on scalars and vectors, after `oneflow-emit-kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm import exponentials, powers, trigonometric
from oneflow.lowering.llvm.float_formats import FORMATS
from oneflow.lowering.llvm.inlined_functions import call_inlined, float_shape
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: The function that writes each operation.
FUNCTIONS: dict[str, Callable[..., str]] = {
    **{f"math.{name}": getattr(exponentials, name) for name in (
        "exp exp2 expm1 log log2 log10 log1p tanh erf sinh cosh asinh acosh atanh".split()
    )},
    **{f"math.{name}": getattr(trigonometric, name) for name in "sin cos tan asin acos atan atan2".split()},
    "math.powf": powers.pow,
}  # fmt: skip


@register_pass
@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replaces exp, log, sin, tanh and similar functions of f32 and f64 by calls of polynomials that LLVM inlines.

    %y = math.exp %x : vector<16xf32>   ->   %y = call @oneflow_exp_16(%x) : (vector<16xf32>) -> vector<16xf32>
    """

    name: ClassVar[str] = "oneflow-expand-math"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        defined: set[str] = set()
        for op in gather(module.operation, lambda op: op.name in FUNCTIONS):
            element, lanes = float_shape(op.results[0].type) or ("", 0)
            if element in FORMATS:
                typed = "" if element == "f32" else f"_{element}"
                name = f"oneflow_{op.name.removeprefix('math.')}{typed}_{lanes}"
                call_inlined(module, op, FUNCTIONS[op.name], name, defined)
