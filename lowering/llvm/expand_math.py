"""`oneflow-expand-math`: exp, log, sin, tanh and their like as polynomials, on scalars and on vectors.

libm computes one number per call; these compute a vector in the time of one or two. Errors stay below 4 ulp,
NaN and infinities are exact. Each is one function per vector type, inlined by LLVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm import exponentials, powers, trigonometric
from oneflow.lowering.llvm.arithmetic import Math
from oneflow.lowering.llvm.formats import FORMATS
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather

#: How each operation is written, by name.
FUNCTIONS: dict[str, Callable[..., str]] = {
    **{f"math.{name}": getattr(exponentials, name) for name in (
        "exp exp2 expm1 log log2 log10 log1p tanh erf sinh cosh asinh acosh atanh".split()
    )},
    **{f"math.{name}": getattr(trigonometric, name) for name in "sin cos tan asin acos atan atan2".split()},
    "math.powf": powers.pow,
}  # fmt: skip
#: Those of f32 alone.
NARROW = frozenset({"math.erf"})


@register_pass
@dataclass(frozen=True)
class ExpandMath(Pass):
    """Replaces exp, log, sin, tanh and their like of f32 and f64 by calls of polynomials that LLVM inlines.

    %y = math.exp %x : vector<16xf32>   ->   %y = call @oneflow_exp_16(%x) : (vector<16xf32>) -> vector<16xf32>
    """

    name: ClassVar[str] = "oneflow-expand-math"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites every such operation in the module."""
        made: set[str] = set()
        for op in gather(module.operation, lambda op: op.name in FUNCTIONS):
            shape = _shape(op.results[0].type)
            if shape is not None and (shape[0] == "f32" or op.name not in NARROW):
                _replace(module, op, *shape, made)


def _shape(value_type: ir.Type) -> tuple[str, int] | None:
    """The element type and the vector length, 0 for a scalar; None for what is left to libm."""
    text = str(value_type)
    if text in FORMATS:
        return text, 0
    lanes, _, element = text.removeprefix("vector<").removesuffix(">").partition("x")
    return (element, int(lanes)) if element in FORMATS and lanes.isdigit() else None


def _replace(module: ir.Module, op: ir.Operation, element: str, lanes: int, made: set[str]) -> None:
    typed = "" if element == "f32" else f"_{element}"
    name = f"oneflow_{op.name.removeprefix('math.')}{typed}_{lanes}"
    if name not in made:
        made.add(name)
        m = Math(lanes or None, base=element)
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
