"""`oneflow-share-kernels`: kernels that only differ in constants become one kernel with the constants as arguments.

Compiling a kernel takes far longer than passing one more argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.passes.base import Pass
from oneflow.passes.inline import functions_of
from oneflow.passes.registry import register_pass

KIND = "oneflow.kernel"
#: Floating-point operations for which a constant operand may become an argument: constants allow no simplification.
_ACCEPTS_VARIABLES = frozenset(
    f"arith.{name}" for name in "addf subf mulf divf maximumf minimumf maxnumf minnumf cmpf select".split()
)


@register_pass
@dataclass(frozen=True)
class ShareKernels(Pass):
    """Merges kernels that only differ in constants; the constants become arguments.

        func.func private @main_kernel_0(%x, %out) { .. arith.mulf %in, 2.0 .. }
        func.func private @main_kernel_1(%x, %out) { .. arith.mulf %in, 3.0 .. }
    become
        func.func private @main_kernel_0(%x, %c, %out) { .. arith.mulf %in, %c .. }
    """

    name: ClassVar[str] = "oneflow-share-kernels"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Rewrites kernels and their calls."""
        by_text: dict[str, list[_ParameterizedKernel]] = {}
        for function in functions_of(module).values():
            if KIND in function.attributes and len(function.regions[0].blocks):
                kernel = _ParameterizedKernel.of(function)
                by_text.setdefault(kernel.text_without_constants(), []).append(kernel)
        shared = [kernels for kernels in by_text.values() if len(kernels) > 1]
        if shared:
            calls = _calls(module)
            for kernels in shared:
                _share(kernels, calls)


@dataclass(frozen=True)
class _ParameterizedKernel:
    """A kernel and the constants in it that can become arguments."""

    function: ir.Operation
    constants: list[ir.Operation]

    @classmethod
    def of(cls, function: ir.Operation) -> _ParameterizedKernel:
        """The kernel of a function."""
        block = function.regions[0].blocks[0]
        return cls(function, [o.operation for o in block.operations if _is_shareable_constant(o.operation)])

    @property
    def name(self) -> str:
        """The symbol of the kernel."""
        return str(ir.StringAttr(self.function.attributes["sym_name"]).value)

    @property
    def values(self) -> list[ir.Attribute]:
        """The values of the constants."""
        return [op.attributes["value"] for op in self.constants]

    def text_without_constants(self) -> str:
        """The kernel as text without its name and the values of its constants."""
        values = self.values
        for op in self.constants:
            op.attributes["value"] = ir.FloatAttr.get(op.results[0].type, 0.0, op.location)
        text = self.function.get_asm(use_local_scope=True, assume_verified=True).replace(self.name, "", 1)
        for op, value in zip(self.constants, values, strict=True):
            op.attributes["value"] = value
        return str(text)

    def add_parameters(self, varying: Sequence[int]) -> None:
        """Makes the constants with the indices `varying` arguments, in front of the destinations."""
        block = self.function.regions[0].blocks[0]
        results = ir.FunctionType(ir.TypeAttr(self.function.attributes["function_type"]).value).results
        first = len(block.arguments) - len(results)
        constants = [self.constants[i] for i in varying]
        for value in [*(op.results[0] for op in constants), *list(block.arguments)[first:]]:
            value.replace_all_uses_with(block.add_argument(value.type, self.function.location))
        for op in constants:
            op.erase()
        for _ in results:
            block.erase_argument(first)
        kind = ir.FunctionType.get([a.type for a in block.arguments], results)
        self.function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _is_shareable_constant(op: ir.Operation) -> bool:
    """Whether an operation is a float constant whose users all accept a variable."""
    return (
        op.name == "arith.constant"
        and isinstance(op.attributes["value"], ir.FloatAttr)
        and all(use.owner.operation.name in _ACCEPTS_VARIABLES for use in op.results[0].uses)
    )


def _calls(module: ir.Module) -> dict[str, list[ir.Operation]]:
    """The calls in entries, by the called function."""
    calls: dict[str, list[ir.Operation]] = {}
    for function in functions_of(module).values():
        if KIND not in function.attributes and len(function.regions[0].blocks):
            for view in function.regions[0].blocks[0].operations:
                if view.operation.name == "func.call":
                    callee = ir.FlatSymbolRefAttr(view.operation.attributes["callee"]).value
                    calls.setdefault(callee, []).append(view.operation)
    return calls


def _share(kernels: Sequence[_ParameterizedKernel], calls: dict[str, list[ir.Operation]]) -> None:
    """Redirects every call to the first kernel, with the constants that differ as arguments."""
    first, *others = kernels
    table = [kernel.values for kernel in kernels]
    varying = [i for i, column in enumerate(zip(*table, strict=True)) if any(v != column[0] for v in column)]
    for kernel, values in zip(kernels, table, strict=True):
        for call in calls.get(kernel.name, ()):
            _redirect(call, first.name, [values[i] for i in varying])
    first.add_parameters(varying)
    for kernel in others:
        kernel.function.erase()


def _redirect(call: ir.Operation, callee: str, values: Sequence[ir.Attribute]) -> None:
    """Replaces a call by a call of another kernel, with constants in front of the destinations."""
    operands = list(call.operands)
    before = len(operands) - len(call.results)
    with ir.InsertionPoint(call), call.location:
        constants = [
            ir.Operation.create("arith.constant", [ir.FloatAttr(v).type], [], {"value": v}).results[0] for v in values
        ]
        redirected = ir.Operation.create(
            "func.call",
            [r.type for r in call.results],
            [*operands[:before], *constants, *operands[before:]],
            {"callee": ir.FlatSymbolRefAttr.get(callee)},
        )
    for old, new in zip(call.results, redirected.results, strict=True):
        old.replace_all_uses_with(new)
    call.erase()
