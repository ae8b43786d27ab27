"""A module of the LLVM dialect in parts of like size, whose code several threads generate at once.

The plan of an entry calls launches of kernels; each launch goes with what it reaches into one part, the plan with
declarations of the launches into the last.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.llvm.define_launches import entry_symbol, plan_symbol

#: Launches that make a part worth while.
FEWEST = 3
_REFERENCES = {"llvm.call": "callee", "llvm.mlir.addressof": "global_name"}
_DECLARED = ("sym_name", "function_type")


@dataclass(frozen=True)
class Part:
    """A module as bytecode, the functions that others call, and those that it calls of others."""

    code: bytes
    given: tuple[str, ...]
    missing: tuple[str, ...] = ()


@dataclass
class Function:
    """A function or constant of a module: how many operations it has, and what it refers to."""

    op: ir.Operation
    size: int = 0
    refers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            self.size += 1
            attribute = _REFERENCES.get(op.name)
            if attribute is not None and attribute in op.attributes:
                self.refers.add(ir.FlatSymbolRefAttr(op.attributes[attribute]).value)
            return ir.WalkResult.ADVANCE

        self.op.walk(visit)

    @property
    def is_kernel(self) -> bool:
        """Whether it is a function that is defined here."""
        return self.op.name == "llvm.func" and self.made

    @property
    def made(self) -> bool:
        """Whether it is defined here."""
        return self.op.name != "llvm.func" or len(self.op.regions[0].blocks) > 0


def split(module: ir.Module, entry: str, count: int) -> list[Part]:
    """The module in `count` parts at most, that of the entry last."""
    ops = [o.operation for o in module.body.operations]
    known = {ir.StringAttr(op.attributes["sym_name"]).value: Function(op) for op in ops}
    start = entry_symbol(entry)
    launches = sorted(name for name in known[plan_symbol(entry)].refers if known[name].is_kernel)
    reached = {name: _reached(known, name) for name in launches}
    bins = _bins(reached, known, min(count - 1, len(launches) // FEWEST))
    if not bins:
        return [Part(_bytecode(module), (start,))]
    with module.context, ir.Location.unknown():
        kernels = [Part(_module(known, g, set().union(*(reached[n] for n in g)), ()), tuple(g)) for g in bins]
        rest = _reached(known, start, frozenset(launches))
        return [*kernels, Part(_module(known, [start], rest, launches), (start,), tuple(launches))]


def _reached(known: Mapping[str, Function], root: str, without: frozenset[str] = frozenset()) -> set[str]:
    """A function and what it refers to, directly or not."""
    found, rest = set(), [root]
    while rest:
        name = rest.pop()
        if name not in found and name not in without:
            found.add(name)
            rest.extend(known[name].refers)
    return found


def _bins(reached: Mapping[str, set[str]], known: Mapping[str, Function], count: int) -> list[list[str]]:
    """The launches in `count` groups: the largest first, each to the group that has least."""
    groups: list[list[str]] = [[] for _ in range(count)]
    if not groups:
        return []
    loads = [0] * count
    sizes = {name: sum(known[n].size for n in names) for name, names in reached.items()}
    for name in sorted(reached, key=lambda n: (-sizes[n], n)):
        least = loads.index(min(loads))
        groups[least].append(name)
        loads[least] += sizes[name]
    return groups


def _module(
    known: Mapping[str, Function], given: Sequence[str], names: set[str], declared: Sequence[str]
) -> bytes:  # fmt: skip
    """A module of the functions `names`, of which others see those `given`, and of declarations."""
    made = ir.Module.create()
    inside = ir.Attribute.parse("#llvm.linkage<internal>")
    for name in sorted(names):
        op = known[name].op.clone()
        if known[name].made and name not in given:
            op.attributes["linkage"] = inside
        made.body.append(op)
    for name in declared:
        attributes = {key: known[name].op.attributes[key] for key in _DECLARED}
        made.body.append(ir.Operation.create("llvm.func", attributes=attributes, regions=1))
    return _bytecode(made)


def _bytecode(module: ir.Module) -> bytes:
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()
