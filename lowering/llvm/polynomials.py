"""`oneflow-expand-math`: exp, log, sin, tanh and their like of f32 as polynomials, on scalars and on vectors.

libm computes one number per call; these compute a vector in the time of one or two. Errors stay below 4 ulp,
NaN and infinities are exact. Each is one function per vector type, inlined by LLVM. Imports `exponentials`,
`circular`, `powers` and the MLIR seam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm import circular, exponentials, powers
from oneflow.lowering.llvm.arithmetic import Math
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass

#: How each operation is written, by name.
FUNCTIONS: dict[str, Callable[..., str]] = {
    **{f"math.{name}": getattr(exponentials, name) for name in (
        "exp exp2 expm1 log log2 log10 log1p tanh erf sinh cosh asinh acosh atanh".split()
    )},
    **{f"math.{name}": getattr(circular, name) for name in "sin cos tan asin acos atan atan2".split()},
    "math.powf": powers.pow,
}  # fmt: skip


@register_pass
@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replaces exp, log, sin, tanh and their like of f32 by calls of polynomials that LLVM inlines.

    %y = math.exp %x : vector<16xf32>   ->   %y = call @oneflow_exp_16(%x) : (vector<16xf32>) -> vector<16xf32>
    """

    name: ClassVar[str] = "oneflow-expand-math"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        found: list[ir.Operation] = []

        def collect(op: ir.Operation) -> ir.WalkResult:
            if op.name in FUNCTIONS:
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(collect)
        made: set[str] = set()
        for op in found:
            lanes = _lanes(op.results[0].type)
            if lanes is not None:
                _replace(module, op, lanes, made)


def _lanes(value_type: ir.Type) -> int | None:
    """The vector length, 0 for a scalar, None for what is left to libm."""
    text = str(value_type)
    if text == "f32":
        return 0
    is_row = text.startswith("vector<") and text.endswith("xf32>") and text.count("x") == 1
    return int(text[7:-5]) if is_row else None


def _replace(module: ir.Module, op: ir.Operation, lanes: int, made: set[str]) -> None:
    name = f"oneflow_{op.name.removeprefix('math.')}_{lanes}"
    if name not in made:
        made.add(name)
        m = Math(lanes or None)
        names = ["%x", "%y"][: len(op.operands)]
        result = FUNCTIONS[op.name](m, *names)
        parameters = ", ".join(f"{n}: {m.type()}" for n in names)
        head = f"func.func private @{name}({parameters}) -> {m.type()} attributes {{"
        options = 'llvm.linkage = #llvm.linkage<internal>, passthrough = ["alwaysinline"]} {'
        text = "\n".join([head + options, m.writer.text(), f"return {result} : {m.type()}", "}"])
        module.body.append(ir.Operation.parse(text))
    with ir.InsertionPoint(op), op.location:
        call = func.CallOp([op.results[0].type], name, list(op.operands))
    op.results[0].replace_all_uses_with(call.operation.results[0])
    op.erase()
