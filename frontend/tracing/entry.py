"""The entry function of a traced program: its type, the names of arguments and results, and donated arguments."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import func, ir
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.tracing.capture import Captures, Effects
from oneflow.lowering.kernels.donated_arguments import donate_arguments


def complete_entry(
    entry: func.FuncOp, captures: Captures, names: Sequence[str], results: Sequence[tuple[str, Tensor]]
) -> None:
    """Returns the results, and sets the type of the function and the names of its arguments and results."""
    handles = [t.handle for _, t in results]
    block = entry.entry_block
    func.ReturnOp(handles, ip=ir.InsertionPoint(block))
    inputs = [a.type for a in block.arguments]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [h.type for h in handles]))
    captured = [f"captured.{i}" for i in range(len(captures.inputs))]
    if names or captured:
        entry.attributes["arg_attrs"] = ir.ArrayAttr.get([_named(n) for n in (*names, *captured)])
    if any(n for n, _ in results):
        entry.attributes["res_attrs"] = ir.ArrayAttr.get([_named(n) for n, _ in results])


def donate(entry: func.FuncOp, first_input: int, first_result: int, effects: Effects) -> None:
    """Marks each updated argument with the result that may take its memory (`oneflow.donated`)."""
    pairs = [(first_input + state.argument, first_result + n) for n, state in enumerate(effects.updated)]
    last = first_result + effects.count - len(effects.mutated_arguments)
    pairs += [(index, result) for result, index in enumerate(effects.mutated_indices, last)]
    if pairs:
        donate_arguments(entry.operation, pairs)


def _named(name: str) -> ir.DictAttr:
    return ir.DictAttr.get({"oneflow.name": ir.StringAttr.get(name)} if name else {})
