"""Unsupported kernels are split into operations; operations without a Triton form become programs for the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from oneflow.dialect._mlir import func, ir
from oneflow.lowering.kernels import scalar_storage
from oneflow.lowering.kernels.form_kernels import INITIALIZED_BY_KERNEL, kind_of
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.kernels.outline import Outliner
from oneflow.lowering.triton.codegen.emission import operator_names
from oneflow.lowering.triton.names import HOST
from oneflow.passes.inline import clone_with


@dataclass(frozen=True)
class HostKernel:
    """A kernel that runs on the host: a linalg program on tensors, whose function has the kernel's name.

    The function takes the kernel's arguments: tensors, destinations among them, and scalars as tensors of rank 0.
    `reason` says why the kernel has no Triton form. `operators` are the operators that the kernel was lowered from.
    """

    name: str
    text: str
    reason: str
    operators: str = ""

    @property
    def message(self) -> str:
        """The warning for users."""
        origin = f" ({self.operators})" if self.operators else ""
        return f"kernel {self.name}{origin} runs on the host: {self.reason}"


def split_kernels(module: ir.Module, entry: func.FuncOp, kernels: Mapping[str, ir.Operation]) -> None:
    """Replaces calls of `kernels` in an entry by calls of new kernels of one operation each."""
    outliner = Outliner(module)
    for call in list(_calls(entry, kernels)):
        _split_call(call, kernels[callee_of(call)], entry, outliner)


def _calls(entry: func.FuncOp, kernels: Mapping[str, ir.Operation]) -> Iterator[ir.Operation]:
    for op in entry.regions[0].blocks[0].operations:
        if callee_of(op.operation) in kernels:
            yield op.operation


def _split_call(call: ir.Operation, kernel: ir.Operation, entry: func.FuncOp, outliner: Outliner) -> None:
    block = kernel.regions[0].blocks[0]
    *body, last = [o.operation for o in block.operations]
    values = dict(zip(block.arguments, call.operands, strict=True))
    with ir.InsertionPoint(call):
        clones = [clone_with(op, values) for op in body]
    for old, result in zip(call.results, last.operands, strict=True):
        old.replace_all_uses_with(values[result])
    call.erase()
    setup = [op for op in clones if op.name not in INITIALIZED_BY_KERNEL]
    for op in clones:
        if op.name in INITIALIZED_BY_KERNEL:
            outliner.outline(entry, [op], kind_of(op), op)
    for op in reversed(setup):
        if not any(True for r in op.results for _ in r.uses):
            op.erase()


def is_one_operation(kernel: ir.Operation) -> bool:
    """Whether a kernel has a single operation that computes something."""
    return sum(o.operation.name in INITIALIZED_BY_KERNEL for o in kernel.regions[0].blocks[0].operations) < 2


def host_kernel(module: ir.Module, kernel: ir.Operation, reason: str) -> HostKernel:
    """A kernel as a program for the host."""
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    with kernel.context, kernel.location:
        program = ir.Module.create()
        with ir.InsertionPoint(program.body):
            _write_program(name, kernel.regions[0].blocks[0])
        for op in module.body.operations:
            if isinstance(op, func.FuncOp) and op.is_external and op.sym_name.value.startswith("oneflow_rt_"):
                op.operation.clone(ir.InsertionPoint(program.body))
    ops = [o.operation for o in kernel.regions[0].blocks[0].operations]
    operators = operator_names(ops)
    return HostKernel(name, str(program), reason, ", ".join(operators))


def _write_program(name: str, block: ir.Block) -> None:
    """Writes a function with the operations of a kernel's block at the insertion point."""
    *body, last = [o.operation for o in block.operations]
    inputs = [scalar_storage.storage_type(a.type) for a in block.arguments]
    function = func.FuncOp(name, (inputs, [v.type for v in last.operands]))
    with ir.InsertionPoint(function.add_entry_block()):
        values = {
            a: scalar_storage.extract_scalar(parameter, a.type)
            for a, parameter in zip(block.arguments, function.arguments, strict=True)
        }
        for op in body:
            clone_with(op, values)
        func.ReturnOp([values[v] for v in last.operands])


def declare_host(function: ir.Operation, kernel: HostKernel) -> None:
    """Replaces a function by a declaration with the kernel as an attribute."""
    with ir.InsertionPoint(function), function.location:
        kind = ir.TypeAttr(function.attributes["function_type"]).value
        declaration = func.FuncOp(kernel.name, kind, visibility="private")
    fields = {n: ir.StringAttr.get(text) for n, text in asdict(kernel).items() if n != "name"}
    declaration.attributes[HOST] = ir.DictAttr.get(fields)
    function.erase()


def read_host(function: ir.Operation) -> HostKernel:
    """The kernel that `declare_host` declared."""
    fields = {"name": function.attributes["sym_name"], **_named(function.attributes[HOST])}
    return HostKernel(**{n: ir.StringAttr(a).value for n, a in fields.items()})


def _named(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    return {named.name: named.attr for named in ir.DictAttr(attribute)}
