"""Kernels that no emitter covers (scatters, some insertions, unusual accesses), through MLIR's bufferization.

Input is a kernel on tensors, output its launch as loops on memrefs. The tensors of the kernel become views of its
pointers; its results are materialized in their destinations.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import ir, passmanager
from oneflow.lowering.kernels.donated_arguments import updated_argument
from oneflow.lowering.llvm.fold_flags import remove_fold_flags
from oneflow.lowering.llvm.kernel import Kernel, compute_operations
from oneflow.lowering.llvm.writer import Index, MemRef, Writer, reference, view
from oneflow.passes.base import PassError
from oneflow.passes.inline import RETURN, clone_with, functions_of, inline_calls
from oneflow.passes.walk import gather, returned_values

#: The suffix of the function that runs a kernel.
LAUNCH = "_launch"
MATERIALIZE = "bufferization.materialize_in_destination"
BUFFERIZE = (
    "builtin.module(eliminate-empty-tensors,empty-tensor-to-alloc-tensor,"
    "one-shot-bufferize{allow-return-allocs-from-loops=1},canonicalize,cse,"
    "buffer-deallocation-pipeline,convert-linalg-to-loops,canonicalize,cse,convert-bufferization-to-memref)"
)


class NotLowered(Exception):
    """An operation that bufferization left without loops."""


def _frame(kernel: Kernel) -> str:
    """The function `<kernel>_launch` without the operations of the kernel, as MLIR text.

    The function returns a value for each argument of the kernel, computed from the pointers, and the memory of each
    result.
    """
    writer = Writer()
    arguments = list(kernel.block.arguments)
    count = len(returned_values(kernel.block))
    inputs, destinations = arguments[: len(arguments) - count], arguments[len(arguments) - count :]
    values = [_argument(kernel, writer, value) for value in inputs]
    targets = [_memref(kernel, writer, value) for value in destinations]
    values += [_empty(kernel, writer, value) for value in destinations]
    for result, target in enumerate(targets):
        updated = updated_argument(kernel.block, result)
        if updated is not None:
            source = _memref(kernel, writer, arguments[updated])
            values[updated] = _updated(writer, source, target, arguments[updated].type)
    names = ", ".join([*values, *(m.name for m in targets)])
    types = ", ".join([*(str(a.type) for a in arguments), *(m.type for m in targets)])
    head = f"func.func private {reference(kernel.name + LAUNCH)}({kernel.signature()}) -> ({types}) {{"
    return "\n".join([head, *writer.head, *writer.lines, f"return {names} : {types}", "}"])


def _fill(launch: ir.Operation, kernel: Kernel) -> None:
    """Copies the operations of a kernel into the frame of its launch, which then returns nothing."""
    *_, end = launch.regions[0].blocks[0].operations
    arguments = list(kernel.block.arguments)
    values = dict(zip(arguments, end.operands, strict=False))
    *operations, _ = kernel.block.operations
    with ir.InsertionPoint(end), launch.location:
        for op in operations:
            clone_with(op.operation, values)
        for result, target in zip(returned_values(kernel.block), list(end.operands)[len(arguments) :], strict=True):
            attributes = {"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()}
            ir.Operation.create(MATERIALIZE, operands=[values[result], target], attributes=attributes)
        ir.Operation.create(RETURN)
    end.operation.erase()
    kind = ir.FunctionType(ir.TypeAttr(launch.attributes["function_type"]).value)
    launch.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, []))


def _memref(kernel: Kernel, writer: Writer, value: ir.Value) -> MemRef:
    """A memref of an argument's memory."""
    tensor = kernel.tensors[value]
    return view(writer, tensor.pointer, tensor.shape, tensor.element)


def _argument(kernel: Kernel, writer: Writer, value: ir.Value) -> str:
    """An input as a tensor, or a scalar."""
    if value in kernel.scalars:
        return kernel.scalars[value]
    memory = _memref(kernel, writer, value)
    return writer.op(f"bufferization.to_tensor {memory.name} restrict : {memory.type} to {value.type}")


def _updated(writer: Writer, source: MemRef, target: MemRef, kind: ir.Type) -> str:
    """A tensor in the memory of a result, initialized by a copy of `source` unless the two share memory."""
    addresses = [
        writer.op(f"memref.extract_aligned_pointer_as_index {m.name} : {m.type} -> index") for m in (source, target)
    ]
    distinct = writer.op(f"arith.cmpi ne, {', '.join(addresses)} : index")
    with writer.block(f"scf.if {distinct} {{"):
        writer.line(f"memref.copy {source.name}, {target.name} : {source.type} to {target.type}")
    return writer.op(f"bufferization.to_tensor {target.name} restrict writable : {target.type} to {kind}")


def _empty(kernel: Kernel, writer: Writer, value: ir.Value) -> str:
    """An empty tensor of a destination's size."""
    sizes: Sequence[Index] = kernel.tensors[value].shape
    return writer.op(f"tensor.empty({', '.join(s for s in sizes if isinstance(s, str))}) : {value.type}")


def bufferize(kernels: Sequence[Kernel], declarations: str) -> ir.Module:
    """The launches of kernels that no emitter covers, on memrefs and loops.

    Raises:
        PassError: MLIR cannot lower a kernel.
    """
    try:
        return _bufferized(kernels, declarations)
    except (ir.MLIRError, NotLowered):
        for kernel in kernels:
            _report_failing_kernel(kernel, declarations)
        raise


def _bufferized(kernels: Sequence[Kernel], declarations: str) -> ir.Module:
    """The bufferized module of kernels."""
    module = ir.Module.parse("\n".join([declarations, *map(_frame, kernels)]))
    functions = functions_of(module)
    for kernel in kernels:
        _fill(functions[kernel.name + LAUNCH], kernel)
    passmanager.PassManager.parse(BUFFERIZE).run(module.operation)
    _check_lowered(module)
    _inline_helpers(module)
    remove_fold_flags(module)
    return module


def _check_lowered(module: ir.Module) -> None:
    """Checks that no operation is left without loops, as linalg.softmax, which bufferization accepts, would be."""
    for op in gather(module.operation, lambda op: op.name.startswith(("linalg.", "tensor."))):
        raise NotLowered(f"{op.name} has no loops")


def _inline_helpers(module: ir.Module) -> None:
    """Inlines the functions that bufferization adds: a plan cannot pass their memrefs of dynamic size."""
    functions = functions_of(module)
    helpers = [n for n, op in functions.items() if len(op.regions[0].blocks) and not n.endswith(LAUNCH)]
    for name, function in functions.items() if helpers else ():
        if name.endswith(LAUNCH):
            inline_calls(function, functions, functions.keys() - set(helpers))
    for name in helpers:
        functions[name].erase()


def _report_failing_kernel(kernel: Kernel, declarations: str) -> None:
    """Raises an error at the operation that makes bufferization fail."""
    try:
        _bufferized([kernel], declarations)
    except (ir.MLIRError, NotLowered) as error:
        reason = error.error_diagnostics[0].message if isinstance(error, ir.MLIRError) else error
        what = "expected operators of oneflow, and of scf, linalg and tensor those that become loops on memory"
        op = compute_operations(kernel)[0]
        raise PassError(f"{what}, got {op.name} ({reason}): lower it to these first", op.location) from None
