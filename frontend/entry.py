"""The function of a traced program: its type, the names and layouts of arguments and results, what may share memory.

Imports `capture`, `layouts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oneflow.dialect._mlir import func, ir
from oneflow.dialect.nd_sbp import broadcast
from oneflow.frontend.capture import Captures, Effects
from oneflow.frontend.layouts import annotate
from oneflow.frontend.spec import TensorSpec
from oneflow.frontend.tensor import Tensor
from oneflow.runtime.global_array import Placement

#: The attribute of an argument whose memory a result may take: the number of the result.
DONATED = "oneflow.donated"


def finish(
    entry: func.FuncOp, captures: Captures, names: Sequence[str], results: Sequence[tuple[str, Tensor]]
) -> None:
    """Returns the results and states the function's type and the names of its arguments and results."""
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


def lay_out(
    entry: func.FuncOp,
    placement: Placement,
    captures: Captures,
    specs: Iterable[TensorSpec],
    results: Sequence[Tensor],
    effects: Effects,
) -> None:
    """States how arguments and results lie: what is updated as it is outside, single numbers on every rank."""
    whole = broadcast(placement.mesh)
    captured = [whole if found is None else found[1] for found in captures.layouts()]
    arguments = [None if s.sbp is None else placement.layout(s.sbp, s.desc) for s in specs]
    layouts = [None if v.rank else whole for v in results]
    first = len(results) - len(effects.results)
    for number, state in enumerate(effects.updated, first):
        layouts[number] = captured[state.argument]
    annotate(entry.operation, placement, [*arguments, *captured], layouts)


def donate(entry: func.FuncOp, first_input: int, first_result: int, effects: Effects) -> None:
    """Says at each argument that is updated which result may take its memory."""
    if not effects.updated:
        return
    attributes = [{a.name: a.attr for a in ir.DictAttr(d)} for d in entry.attributes["arg_attrs"]]
    for number, state in enumerate(effects.updated, first_result):
        attributes[first_input + state.argument][DONATED] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64), number
        )
    entry.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])


def _named(name: str) -> ir.DictAttr:
    return ir.DictAttr.get({"oneflow.name": ir.StringAttr.get(name)} if name else {})
