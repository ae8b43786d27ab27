"""`oneflow-define-launches`: the bodies of parallel launches, and the entry that the executable calls.

The pass is the last step, in the LLVM dialect. A launch stores its arguments in an array and passes
`oneflow_rt_parallel_for` a thunk that loads them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from oneflow.dialect._mlir import ir
from oneflow.dialect.record import Registry
from oneflow.lowering.llvm.plan_symbols import plan_symbol
from oneflow.lowering.llvm.writer import reference
from oneflow.passes.base import Pass
from oneflow.passes.registry import register_pass
from oneflow.passes.walk import gather


def entry_symbol(name: str) -> str:
    """The symbol of entry `name` in a compiled object; its parameters are `(io, workspace)`."""
    return f"oneflow_entry_{name}"


@register_pass
@dataclass(frozen=True)
class DefineLaunches(Pass):
    """Gives parallel launches their bodies over the thread pool, and the module its entry.

    llvm.func @k_parallel(..) {oneflow.launch = @k}   ->   a call of oneflow_rt_parallel_for(@k_thunk, ..)
    """

    name: ClassVar[str] = "oneflow-define-launches"

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Defines every declaration with `oneflow.launch`, and the entry of every plan."""
        planned: dict[str, ir.Attribute] = {}
        for op in [o.operation for o in module.body.operations]:
            if "oneflow.launch" in op.attributes:
                _define(module, op)
            elif "oneflow.planned" in op.attributes:
                planned[ir.StringAttr(op.attributes["sym_name"]).value] = op.attributes["oneflow.planned"]
                op.erase()
        for op in [o.operation for o in module.body.operations]:
            if "oneflow.entry" in op.attributes or "oneflow.body" in op.attributes:
                _call_directly(op, planned)
                op.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get(a) for a in _UNOPTIMIZED])
            if "oneflow.entry" in op.attributes:
                kinds = ", ".join(_parameters(op))
                name = ir.StringAttr(op.attributes["sym_name"]).value
                _add(module, f"llvm.func {reference(name)}({kinds})", _entry(op))


#: LLVM attributes of a plan. A plan only makes calls, so optimizing it costs compile time and gains nothing.
_UNOPTIMIZED = ("noinline", "optnone")


def _call_directly(entry: ir.Operation, planned: Mapping[str, ir.Attribute]) -> None:
    """Lets a plan call functions by their own names."""
    for op in gather(entry, lambda op: op.name == "llvm.call"):
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        op.attributes["callee"] = planned.get(callee, op.attributes["callee"])


def _parameters(op: ir.Operation) -> list[str]:
    """The parameter types of an `llvm.func`, as text."""
    return [str(kind) for kind in op.attributes["function_type"].value.inputs]


def _define(module: ir.Module, op: ir.Operation) -> None:
    """Defines one parallel launch."""
    name = ir.StringAttr(op.attributes["sym_name"]).value
    kernel = ir.FlatSymbolRefAttr(op.attributes["oneflow.launch"]).value
    grain = ir.IntegerAttr(op.attributes["oneflow.grain"]).value
    types = _parameters(op)
    op.erase()
    kinds = ", ".join([*types, "i64"])
    pool = "llvm.func @oneflow_rt_parallel_for(!llvm.ptr, !llvm.ptr, i64, i64)"
    _add(
        module,
        f"llvm.func {reference(kernel)}({kinds})\n{pool}",
        _launch(name, types, grain),
        _thunk(name, kernel, types[:-1]),
    )


def _add(module: ir.Module, declared: str, *texts: str) -> None:
    """Adds functions that call the functions of `declared`."""
    parsed = ir.Module.parse("\n".join([declared, *texts]))
    for op in [o.operation for o in parsed.body.operations][-len(texts) :]:
        module.body.append(op)


def _slot(array: str, index: int) -> str:
    """The address of the element with index `index` of an array of i64, named `%at<index>`."""
    return f"%at{index} = llvm.getelementptr {array}[{index}] : (!llvm.ptr) -> !llvm.ptr, i64"


def _launch(name: str, types: Sequence[str], grain: int) -> str:
    """The launch: stores the arguments and calls the thread pool."""
    parameters = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    lines = [
        f"llvm.func internal {reference(name)}({parameters}) {{",
        f"%n = llvm.mlir.constant({max(len(types), 1)} : i64) : i64",
        "%array = llvm.alloca %n x i64 : (i64) -> !llvm.ptr",
    ]
    for i, t in enumerate(types[:-1]):
        lines += [_slot("%array", i), f"llvm.store %a{i}, %at{i} : {t}, !llvm.ptr"]
    lines += [
        f"%body = llvm.mlir.addressof {reference(name + '_thunk')} : !llvm.ptr",
        f"%grain = llvm.mlir.constant({grain} : i64) : i64",
        f"llvm.call @oneflow_rt_parallel_for(%body, %array, %a{len(types) - 1}, %grain) : "
        "(!llvm.ptr, !llvm.ptr, i64, i64) -> ()",
    ]
    return "\n".join([*lines, "llvm.return", "}"])


def _thunk(name: str, kernel: str, types: Sequence[str]) -> str:
    """The thunk: loads the arguments and runs steps `lo` to `hi` of the kernel."""
    lines = [f"llvm.func internal {reference(name + '_thunk')}(%array: !llvm.ptr, %lo: i64, %hi: i64) {{"]
    for i, t in enumerate(types):
        lines += [_slot("%array", i), f"%a{i} = llvm.load %at{i} : !llvm.ptr -> {t}"]
    names = ", ".join([*(f"%a{i}" for i in range(len(types))), "%lo", "%hi"])
    lines.append(f"llvm.call {reference(kernel)}({names}) : ({', '.join([*types, 'i64', 'i64'])}) -> ()")
    return "\n".join([*lines, "llvm.return", "}"])


def _entry(op: ir.Operation) -> str:
    """The function of `entry_symbol`: loads addresses and sizes from `io` and runs the plan."""
    name = ir.StringAttr(op.attributes["sym_name"]).value
    types = _parameters(op)[:-2]
    symbol = entry_symbol(name.removeprefix(plan_symbol("")))
    lines = [f"llvm.func {reference(symbol)}(%io: !llvm.ptr, %workspace: !llvm.ptr) {{"]
    for i, t in enumerate(types):
        lines += [_slot("%io", i), f"%a{i} = llvm.load %at{i} : !llvm.ptr -> {t}"]
    names = ", ".join([*(f"%a{i}" for i in range(len(types))), "%workspace", "%io"])
    kinds = ", ".join([*types, "!llvm.ptr", "!llvm.ptr"])
    lines += [f"llvm.call {reference(name)}({names}) : ({kinds}) -> ()", "llvm.return", "}"]
    return "\n".join(lines)
