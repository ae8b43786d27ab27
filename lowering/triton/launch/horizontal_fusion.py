"""Horizontal fusion: independent small kernels of a short program become one launch.

    call @k0(%a, %e)                      call @k0_k1(%a, %b, %e, %f)
    call @k1(%b, %f)             ->           programs of the first kernel, then programs of the second

The time of a small kernel is mostly the time of its launch. Calls of one level are fused: the level of a call is the
length of the longest dependence path to it, counted in calls. A program of many calls is not changed: such a program
keeps the GPU busy, and fused kernels take longer to compile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.donated_arguments import order_after_users
from oneflow.lowering.kernels.graph import DependenceGraph, callee_of
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.kernel import bytes_of
from oneflow.lowering.triton.launch.grouped_launches import (
    is_grouped,
    merge_calls,
)
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import FAILURE, PROGRAM_PLACEHOLDER, Function, Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount


def fuse_horizontally(
    module: ir.Module, entry: ir.Operation, functions: dict[str, ir.Operation], sources: dict[str, Source]
) -> None:
    """Fuses calls in a short entry; adds the functions and sources of fused calls."""
    most = gpu_target().kernels.launches.max_fused_entry_calls
    if sum(o.operation.name == "func.call" for o in entry.regions[0].blocks[0].operations) > most:
        return
    while (group := _next_group(entry, functions, sources)) is not None:
        members = [callee_of(call) for call in group.calls]
        name = "_".join([members[0], *(m.removeprefix(_common_prefix(members)) for m in members[1:])])
        sources[name] = fused([sources[m] for m in members], name, [_input_count(call) for call in group.calls])
        ops = [o.operation for o in entry.regions[0].blocks[0].operations]
        merge_calls(module, group.calls, name, functions, ops[group.lower] if group.lower >= 0 else None)


def _common_prefix(names: Sequence[str]) -> str:
    """The name of a kernel without the trailing number, the common prefix of the names of an entry's kernels."""
    return names[0][: len(names[0].rstrip("0123456789"))]


def _input_count(call: ir.Operation) -> int:
    return len(call.operands) - len(call.results)


@dataclass
class _Group:
    """Calls of one level. The fused call has to be after the operation `lower` and before `upper`, by index."""

    calls: list[ir.Operation] = field(default_factory=list)
    lower: int = -1
    upper: int = 1 << 30
    programs: int = 0
    parameters: int = 0
    functions: dict[str, Function] = field(default_factory=dict)

    def accepts(self, other: _Group) -> bool:
        """Whether the calls of another group can be fused with the calls of this group."""
        target = gpu_target()
        limits = target.kernels.launches
        if self.parameters + other.parameters > limits.max_parameters:
            return False
        if self.programs + other.programs > limits.max_total_programs_per_sm * target.sms:
            return False
        if any(self.functions.get(name, function) != function for name, function in other.functions.items()):
            return False
        return max(self.lower, other.lower) < min(self.upper, other.upper)

    def add(self, other: _Group) -> None:
        """Adds the calls of another group."""
        self.calls += other.calls
        self.lower, self.upper = max(self.lower, other.lower), min(self.upper, other.upper)
        self.programs, self.parameters = self.programs + other.programs, self.parameters + other.parameters
        self.functions |= other.functions


def _next_group(entry: ir.Operation, functions: dict[str, ir.Operation], sources: dict[str, Source]) -> _Group | None:
    """The next group of calls to fuse, None where nothing is left to fuse."""
    graph = DependenceGraph([o.operation for o in entry.regions[0].blocks[0].operations])
    order_after_users(entry, graph)
    depends_on = dependences(graph)
    groups_by_level: dict[int, list[_Group]] = {}
    for index, level in enumerate(_levels(graph, depends_on)):
        op = graph.ops[index]
        source = sources.get(callee_of(op))
        if source is None or is_grouped(functions[source.name]) or not _is_small(source, op):
            continue
        users = [user for user, needed in enumerate(depends_on) if index in needed]
        lower, upper = _lower_bound(graph, depends_on[index]), min(users, default=len(graph.ops) - 1)
        call = _Group([op], lower, upper, source.grid.static or 0, len(source.parameters), _functions([source]))
        groups = groups_by_level.setdefault(level, [])
        group = next((g for g in groups if g.accepts(call)), None)
        groups.append(call) if group is None else group.add(call)
    return next((g for groups in groups_by_level.values() for g in groups if len(g.calls) > 1), None)


def dependences(graph: DependenceGraph) -> list[set[int]]:
    """The operations that each operation depends on.

    Where an argument is updated in place, the later of the update and of an operation that reads the argument depends
    on the earlier.
    """
    depends_on = [set(needed) for needed in graph.producers]
    for update, users in graph.ordered_after.items():
        for user in users:
            depends_on[max(update, user)].add(min(update, user))
    return depends_on


def _levels(graph: DependenceGraph, depends_on: Sequence[set[int]]) -> list[int]:
    """The length of the longest dependence path to each operation, counted in calls."""
    levels = list[int]()
    for needed in depends_on:
        levels.append(max((levels[n] + (graph.ops[n].name == "func.call") for n in needed), default=0))
    return levels


def _lower_bound(graph: DependenceGraph, needed: set[int]) -> int:
    """The last operation that has to precede a call; a `tensor.empty` moves along with the call that it is for."""
    return max((n for n in needed if graph.ops[n].name != "tensor.empty"), default=-1)


def _is_small(source: Source, call: ir.Operation) -> bool:
    """Whether a kernel leaves most SMs idle, and all arguments are tensors of static sizes."""
    takes_tensors = all(p.is_pointer for p in source.parameters)
    target = gpu_target()
    limits = target.kernels.launches
    if not takes_tensors or source.updates or source.fills or source.warps > limits.max_fused_warps:
        return False
    if source.descriptors or source.tile_loop:
        return False
    if not all(_is_new_buffer(v) for v in list(call.operands)[_input_count(call) :]):
        return False
    types = [ir.ShapedType(v.type) for v in call.operands]
    is_known = all(t.has_static_shape for t in types)
    if not is_known or not 0 < (source.grid.static or 0) <= limits.max_fused_programs_per_sm * target.sms:
        return False
    return sum(_bytes(t) for t in types) <= limits.max_fused_l2_share * target.l2_cache_bytes


def _is_new_buffer(destination: ir.Value) -> bool:
    """Whether a destination is memory that one call alone uses."""
    is_empty = not isinstance(destination, ir.BlockArgument) and destination.owner.name == "tensor.empty"
    return is_empty and len(list(destination.uses)) == 1


def _bytes(tensor: ir.ShapedType) -> int:
    count: int = math.prod(tensor.shape)
    return count * bytes_of(str(tensor.element_type))


def fused(members: Sequence[Source], name: str, inputs: Sequence[int]) -> Source:
    """The source of a launch of several kernels: all inputs, kernel by kernel, then all results.

    `inputs` has the number of inputs of each kernel.
    """
    tensors = [[p for p in m.parameters if p.is_tensor] for m in members]
    renamed = [[Parameter(f"{n}_{i}", kind) for n, kind in group] for i, group in enumerate(tensors)]
    parameters = [p for group, count in zip(renamed, inputs, strict=True) for p in group[:count]]
    parameters += [p for group, count in zip(renamed, inputs, strict=True) for p in group[count:]]
    checks = [p for m in members for p in m.parameters if p.name == FAILURE][:1]
    statements, first = [f"number = {PROGRAM_PLACEHOLDER}"], 0
    for index, (member, tensors_of_member) in enumerate(zip(members, renamed, strict=True)):
        end = first + (member.grid.static or 0)
        is_last = index == len(members) - 1
        statements.append("else:" if is_last else f"{'elif' if index else 'if'} number < {end}:")
        failure = [FAILURE] if member.parameters[-1].name == FAILURE else []
        arguments = [f"number - {first}" if first else "number", *(n for n, _ in tensors_of_member), *failure]
        statements.append(f"    {_part_name(member)}({', '.join(arguments)})")
        first = end
    return Source(
        name, (*parameters, *checks), TileCount.of(first), tuple(statements), max(m.warps for m in members),
        max(m.stages for m in members), origins=_union(m.origins for m in members),
        preamble=_union(m.preamble for m in members), functions=tuple(_functions(members).values()),
        has_dot=any(m.has_dot for m in members),
    )  # fmt: skip


def _union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The elements of tuples in order, each once."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))


def _part_name(member: Source) -> str:
    return f"{identifier(member.name)}_part"


def _functions(members: Sequence[Source]) -> dict[str, Function]:
    """The functions of kernels by name; each kernel becomes a function of the program id."""
    functions = dict[str, Function]()
    for member in members:
        parameters = ("program_number", *(p.name for p in member.parameters))
        part = Function(_part_name(member), parameters, member.body, "program_number")
        functions |= {function.name: function for function in (*member.functions, part)}
    return functions
