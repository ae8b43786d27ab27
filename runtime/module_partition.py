"""Splits a module of the LLVM dialect into parts of similar size, for parallel code generation.

The plan of an entry calls launch functions. Each launch function is in one part with all functions that it
reaches. The plan is in the last part, with declarations of the launch functions.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.define_launches import entry_symbol
from oneflow.lowering.llvm.plan_symbols import plan_symbol

#: The fewest launch functions for which another part pays.
MIN_LAUNCHES_PER_PART = 3
_REFERENCES = {"llvm.call": "callee", "llvm.mlir.addressof": "global_name"}
_DECLARED = ("sym_name", "function_type")


@dataclass(frozen=True)
class Part:
    """A part as bytecode, with the names of the functions that it exports and imports."""

    code: bytes
    exported: tuple[str, ...]
    imported: tuple[str, ...] = ()


@dataclass
class Function:
    """A function or constant of a module, with the number of its operations and the symbols that it references."""

    op: ir.Operation
    size: int = 0
    references: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            self.size += 1
            attribute = _REFERENCES.get(op.name)
            if attribute is not None and attribute in op.attributes:
                self.references.add(ir.FlatSymbolRefAttr(op.attributes[attribute]).value)
            return ir.WalkResult.ADVANCE

        self.op.walk(visit)

    @property
    def is_kernel(self) -> bool:
        """Whether this is a function with a body."""
        return self.op.name == "llvm.func" and self.is_defined

    @property
    def is_defined(self) -> bool:
        """Whether this is a definition, not a declaration."""
        return self.op.name != "llvm.func" or len(self.op.regions[0].blocks) > 0


def split(module: ir.Module, entry: str, count: int) -> list[Part]:
    """The module in at most `count` parts; the part of the entry is the last."""
    ops = [o.operation for o in module.body.operations]
    functions = {ir.StringAttr(op.attributes["sym_name"]).value: Function(op) for op in ops}
    start = entry_symbol(entry)
    launches = sorted(name for name in functions[plan_symbol(entry)].references if functions[name].is_kernel)
    reachable = {name: _reachable(functions, name) for name in launches}
    bins = _bins(reachable, functions, min(count - 1, len(launches) // MIN_LAUNCHES_PER_PART))
    if not bins:
        return [Part(_bytecode(module), (start,))]
    with module.context, ir.Location.unknown():
        kernels = [Part(_module(functions, g, set().union(*(reachable[n] for n in g)), ()), tuple(g)) for g in bins]
        rest = _reachable(functions, start, frozenset(launches))
        return [*kernels, Part(_module(functions, [start], rest, launches), (start,), tuple(launches))]


def _reachable(functions: Mapping[str, Function], root: str, without: frozenset[str] = frozenset()) -> set[str]:
    """A function and all symbols that it references, directly or indirectly."""
    reached, rest = set(), [root]
    while rest:
        name = rest.pop()
        if name not in reached and name not in without:
            reached.add(name)
            rest.extend(functions[name].references)
    return reached


def _bins(reachable: Mapping[str, set[str]], functions: Mapping[str, Function], count: int) -> list[list[str]]:
    """The launches in `count` groups of similar size (greedy: the largest first, each to the smallest group)."""
    groups: list[list[str]] = [[] for _ in range(count)]
    if not groups:
        return []
    loads = [0] * count
    sizes = {name: sum(functions[n].size for n in names) for name, names in reachable.items()}
    for name in sorted(reachable, key=lambda n: (-sizes[n], n)):
        least = loads.index(min(loads))
        groups[least].append(name)
        loads[least] += sizes[name]
    return groups


def _module(
    functions: Mapping[str, Function], exported: Sequence[str], names: set[str], declared: Sequence[str]
) -> bytes:  # fmt: skip
    """A module of the functions `names`, of which others see those `exported`, and of declarations."""
    part = ir.Module.create()
    inside = ir.Attribute.parse("#llvm.linkage<internal>")
    for name in sorted(names):
        op = functions[name].op.clone()
        if functions[name].is_defined and name not in exported:
            op.attributes["linkage"] = inside
        part.body.append(op)
    for name in declared:
        attributes = {key: functions[name].op.attributes[key] for key in _DECLARED}
        part.body.append(ir.Operation.create("llvm.func", attributes=attributes, regions=1))
    return _bytecode(part)


def _bytecode(module: ir.Module) -> bytes:
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()
