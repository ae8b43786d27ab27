"""Outlining: moves a dispatch region, operations of an entry, into a kernel function in destination-passing style.

A scalar leaves a kernel in a tensor of rank 0.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import func, ir, tensor
from oneflow.lowering.kernels import scalar_storage
from oneflow.lowering.kernels.structural_hash import StructuralHasher
from oneflow.lowering.linalg.emit import BARRIER
from oneflow.passes.base import PassError
from oneflow.passes.inline import clone_with

#: Operations that are cloned into a kernel rather than passed as an argument.
REMATERIALIZED = frozenset({"arith.constant", "linalg.fill"})
#: Operations whose last operands are the dynamic sizes of the result.
EXPLICITLY_SIZED = frozenset({"tensor.extract_slice", "tensor.splat", "tensor.generate"})
#: Reshapes stay in the entry, so a later kernel can take sizes from their results.
RESHAPES = frozenset({"tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape"})
#: The order of cloned operations at the start of a kernel.
_CLONE_ORDER = ("arith.constant", "tensor.empty", "linalg.fill")


@dataclass
class Outliner:
    """Makes the kernels of a module; equal groups share a function (`names`, by structure and by text)."""

    module: ir.Module
    names: dict[Hashable, str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)
    hasher: StructuralHasher = field(default_factory=StructuralHasher)

    def __post_init__(self) -> None:
        symbols = (o.operation.attributes.get("sym_name") for o in self.module.body.operations)
        self.taken = {ir.StringAttr(symbol).value for symbol in symbols if symbol is not None}

    def outline(self, entry: func.FuncOp, ops: Sequence[ir.Operation], kind: str, before: ir.Operation) -> None:
        """Replaces `ops` by a call of a kernel before the operation `before`."""
        builder = _KernelBuilder(ops, self.hasher)
        with before.location, ir.InsertionPoint(before):
            destinations = [_destination(r) for r in builder.results]
            kernel = self._function(entry, builder, kind)
            arguments = [*builder.tensors, *builder.scalars, *destinations]
            call = func.CallOp(builder.types, kernel, arguments)
            values = [
                scalar_storage.extract_scalar(v, r.type) for r, v in zip(builder.results, call.results, strict=True)
            ]
        for old, new in zip(builder.results, values, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed(ops):
            op.erase()

    def _function(self, entry: func.FuncOp, builder: _KernelBuilder, kind: str) -> str:
        """The name of the kernel function of a group."""
        prefix = f"{ir.StringAttr(entry.attributes['sym_name']).value}_kernel_"
        structure = builder.structural_key()
        if structure is None:
            return self._make_or_reuse(entry, builder, kind, prefix)
        key = prefix, kind, structure
        if key not in self.names:
            self.names[key] = self._make_or_reuse(entry, builder, kind, prefix)
        return self.names[key]

    def _make_or_reuse(self, entry: func.FuncOp, builder: _KernelBuilder, kind: str, prefix: str) -> str:
        """Makes the function, or finds one of equal text: different structures can have equal functions."""
        number = next(n for n in itertools.count(self.count.get(prefix, 0)) if f"{prefix}{n}" not in self.taken)
        name = f"{prefix}{number}"
        with ir.InsertionPoint(entry.operation):
            function = builder.function(name, kind)
        text = function.operation.get_asm(use_local_scope=True, assume_verified=True).replace(name, "", 1)
        if text in self.names:
            function.operation.erase()
            return self.names[text]
        self.names[text], self.count[prefix] = name, number + 1
        return name


@contextlib.contextmanager
def temporary_kernel(ops: Sequence[ir.Operation], kind: str) -> Iterator[ir.Operation]:
    """The kernel of operations in a temporary module; the operations stay where they are."""
    with ops[0].context, ops[0].location:
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = _KernelBuilder(ops, StructuralHasher()).function("draft", kind)
        yield function.operation


def _destination(result: ir.Value) -> ir.Value:
    """An empty tensor of a result's type and size, at the insertion point."""
    if scalar_storage.is_scalar(result.type):
        storage = scalar_storage.storage_type(result.type)
        return tensor.EmptyOp([], storage.element_type).result
    root = result
    while not isinstance(root, ir.BlockArgument) and root.owner.name != "tensor.empty":
        if root.owner.name in RESHAPES:
            break
        root = _same_shape_operand(root)
        if root is None:
            break
    shaped = ir.RankedTensorType(result.type)
    sizes = [shaped.get_dim_size(i) if not shaped.is_dynamic_dim(i) else None for i in range(shaped.rank)]
    dynamic = _sizes_of(root, result, sizes)
    return tensor.EmptyOp([d if d is not None else s for s, d in zip(sizes, dynamic, strict=True)],
                          shaped.element_type).result  # fmt: skip


def _same_shape_operand(value: ir.Value) -> ir.Value | None:
    """The operand that has the shape of the result by construction: a destination or an initial value."""
    op = value.owner
    index = list(op.results).index(value)
    if op.name.startswith("linalg.") or op.name in ("func.call", "scf.forall"):
        return op.operands[len(op.operands) - len(op.results) + index]
    if op.name == "scf.while":
        return op.operands[index] if [v.type for v in op.operands] == [v.type for v in op.results] else None
    if op.name == "scf.for":
        return op.operands[3 + index]
    if op.name in ("tensor.cast", BARRIER):
        return op.operands[0]
    return op.operands[1] if op.name in ("tensor.insert_slice", "tensor.insert") else None


def _sizes_of(root: ir.Value | None, result: ir.Value, sizes: Sequence[int | None]) -> list[ir.Value | None]:
    """The dynamic sizes of a result at the insertion point; None for static sizes."""
    if all(s is not None for s in sizes):
        return [None] * len(sizes)
    if root is not None and not isinstance(root, ir.BlockArgument) and root.owner.name == "tensor.empty":
        operands = iter(root.owner.operands)
        empty_sizes = [
            next(operands) if root.type.is_dynamic_dim(i) else root.type.get_dim_size(i) for i in range(len(sizes))
        ]
        return [
            None if s is not None else _index(f) if isinstance(f, int) else f
            for s, f in zip(sizes, empty_sizes, strict=True)
        ]
    if root is None and result.owner.name in EXPLICITLY_SIZED:
        operands = reversed(result.owner.operands)
        return list(reversed([next(operands) if s is None else None for s in reversed(sizes)]))
    if root is None:
        text = "expected results whose sizes are known before the run"
        advice = "tensor.cast the yielded value to a static type"
        raise PassError(f"{result.owner.name}: {text}, got {result.type}: {advice}", result.owner.location)
    return [None if s is not None else tensor.DimOp(root, _index(i)).result for i, s in enumerate(sizes)]


def _index(value: int) -> ir.Value:
    """An index constant at the insertion point."""
    kind = ir.IndexType.get()
    constant = ir.Operation.create("arith.constant", [kind], [], {"value": ir.IntegerAttr.get(kind, value)})
    return constant.results[0]


class _KernelBuilder:
    """The captured values and the results of a group of operations, and the group as a kernel function."""

    def __init__(self, ops: Sequence[ir.Operation], hasher: StructuralHasher) -> None:
        self.ops, self.hasher = list(ops), hasher
        self.captured = [hasher.read(op).captured_values for op in ops]
        defined = {r for op in ops for r in op.results}
        inside = set(ops)
        self.results = [
            r for op in ops for r in op.results if any(_ancestor_in_block(u.owner, ops) not in inside for u in r.uses)
        ]
        self.types = [scalar_storage.storage_type(r.type) for r in self.results]
        self.tensors: list[ir.Value] = []
        self.scalars: list[ir.Value] = []
        self.rematerialized: list[ir.Operation] = []
        self._empties: list[ir.Operation] = []
        for value in (v for captured in self.captured for v in captured if v not in defined):
            self._capture(value)

    def _capture(self, value: ir.Value) -> None:
        """Records a captured value as a tensor argument, a scalar argument, or an operation to clone."""
        owner = None if isinstance(value, ir.BlockArgument) else value.owner
        if owner is not None and owner.name == "tensor.empty":
            if owner not in self._empties:
                self._empties.append(owner)
            for size in owner.operands:
                self._capture(size)
        elif owner is not None and owner.name in REMATERIALIZED and _is_rematerializable(owner):
            if owner not in self.rematerialized:
                for operand in owner.operands:
                    self._capture(operand)
                self.rematerialized.append(owner)
        elif isinstance(value.type, ir.RankedTensorType):
            if value not in self.tensors:
                self.tensors.append(value)
        elif value not in self.scalars:
            self.scalars.append(value)

    def structural_key(self) -> Hashable:
        """A key that is equal for groups with equal kernels; None where an operation has no structural hash."""
        numbers_of: dict[ir.Value, int] = {}
        captured_keys: list[Hashable] = []

        def number(value: ir.Value) -> int:
            if value not in numbers_of:
                source = self._rematerialized(value)
                key = (
                    (self.hasher.read(source).structural_hash, *map(number, source.operands))
                    if source
                    else value.type
                )
                captured_keys.append(key)
                numbers_of[value] = len(numbers_of)
            return numbers_of[value]

        parts = []
        for op, captured in zip(self.ops, self.captured, strict=True):
            parts.append((self.hasher.read(op).structural_hash, *map(number, captured)))
            for result in op.results:
                numbers_of[result] = len(numbers_of)
        result_numbers = tuple(numbers_of[r] for r in self.results)
        return (
            None
            if any(structure is None for structure, *_ in parts)
            else (tuple(parts), tuple(captured_keys), result_numbers)
        )

    def _rematerialized(self, value: ir.Value) -> ir.Operation | None:
        """The operation that defines a captured value, if the kernel clones that operation."""
        owner = None if isinstance(value, ir.BlockArgument) else value.owner
        return owner if owner is not None and (owner in self.rematerialized or owner in self._empties) else None

    def function(self, name: str, kind: str) -> func.FuncOp:
        """The kernel function of the group, at the insertion point."""
        inputs = [v.type for v in (*self.tensors, *self.scalars)]
        function = func.FuncOp(name, (inputs + self.types, self.types), visibility="private")
        function.attributes["oneflow.kernel"] = ir.StringAttr.get(kind)
        self._fill(function.add_entry_block())
        return function

    def _fill(self, block: ir.Block) -> None:
        """Writes the body of the kernel."""
        captured = [*self.tensors, *self.scalars]
        env = dict(zip(captured, block.arguments, strict=False))
        destinations = list(block.arguments)[len(captured) :]
        destination_of = dict(zip(self.results, destinations, strict=True))
        with ir.InsertionPoint(block):
            for op in sorted([*self.rematerialized, *self._empties], key=lambda op: _CLONE_ORDER.index(op.name)):
                clone_with(op, env)
            for op in self.ops:
                self._clone_into(op, env, destination_of)
            func.ReturnOp(
                [scalar_storage.insert_scalar(env[r], d) for r, d in zip(self.results, destinations, strict=True)]
            )
        for op in reversed([o.operation for o in block.operations]):
            unused = not any(True for r in op.results for _ in r.uses)
            if op.name in ("tensor.empty", "linalg.fill") and unused:
                op.erase()

    def _clone_into(
        self, op: ir.Operation, env: dict[ir.Value, ir.Value], destination_of: Mapping[ir.Value, ir.Value]
    ) -> None:
        """Clones an operation; a result of the kernel gets its destination as initial value."""
        cloned = clone_with(op, env)
        if not op.name.startswith("linalg."):
            return
        first = len(op.operands) - len(op.results)
        for index, result in enumerate(op.results, first):
            if result in destination_of:
                cloned.operands[index] = _redirected_init(cloned.operands[index], destination_of[result], cloned)


def _redirected_init(init: ir.Value, destination: ir.Value, user: ir.Operation) -> ir.Value:
    """The initial value of an output, in another destination."""
    if isinstance(init, ir.BlockArgument):
        return init
    if init.owner.name == "tensor.empty":
        return destination
    if init.owner.name == "linalg.fill":
        with ir.InsertionPoint(user):
            filled = init.owner.clone(ir.InsertionPoint(user)).operation
        filled.operands[1] = destination
        return filled.results[0]
    return init


def _ancestor_in_block(op: ir.Operation, ops: Sequence[ir.Operation]) -> ir.Operation:
    """The ancestor of `op` in the block of `ops`."""
    block = ops[0].block
    current = op.operation
    while current.block != block:
        current = current.parent
    return current


def _is_rematerializable(op: ir.Operation) -> bool:
    """Whether an operation is cloned into kernels: all but constant tensors, which may be large."""
    return op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType)
