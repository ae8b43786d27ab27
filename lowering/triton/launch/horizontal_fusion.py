"""Small kernels of a short program that do not need each other are one launch: small steps are mostly launches.

    call @k0(%a, %e)                      call @k0_k1(%a, %b, %e, %f)
    call @k1(%b, %f)             ->           programs of the first, then those of the second

Calls join where the longest ways to them, counted in calls, are as long. A program of many calls has enough to do,
and compiles longer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.donation import wait_for_readers
from oneflow.lowering.kernels.graph import Graph
from oneflow.lowering.triton.codegen.kernel import FAILURE, bytes_of
from oneflow.lowering.triton.launch.grouped_launches import PARAMETERS, callee_of, is_grouped, merge_calls
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source

#: Calls of a short program, the most programs of a launch that others join and of all together, and the bytes that a
#: small kernel reads and writes.
SHORT, PROGRAMS, TOGETHER, BYTES = 64, 264, 528, 1 << 22
#: The most warps of kernels that are launched with as many as each other.
WARPS = 4
#: What kernels have that stay alone: memory beside their tensors, and numbers of programs.
ALONE = re.compile(r"num_programs|range\(tl\.program_id")
_JIT = "\n\n@triton.jit\n"


def launch_together(module: ir.Module, entry: ir.Operation, functions: dict[str, ir.Operation],
                    sources: dict[str, Source]) -> None:  # fmt: skip
    """Merges calls in a short entry: adds what is called then, takes away the sources of what is called no more."""
    if sum(o.operation.name == "func.call" for o in entry.regions[0].blocks[0].operations) > SHORT:
        return
    merged = set[str]()
    while (found := _first(entry, functions, sources)) is not None:
        members = [callee_of(call) for call in found.calls]
        name = "_".join([members[0], *(m.removeprefix(_common(members)) for m in members[1:])])
        sources[name] = joined([sources[m] for m in members], name, [_inputs(call) for call in found.calls])
        last = [o.operation for o in entry.regions[0].blocks[0].operations][found.low] if found.low >= 0 else None
        merge_calls(module, found.calls, name, functions, last)
        merged.update(members)
    called = {callee_of(o.operation) for o in entry.regions[0].blocks[0].operations}
    for name in merged - called:
        del sources[name]


def _common(names: Sequence[str]) -> str:
    """What names of kernels begin with, up to their number."""
    return names[0][: len(names[0].rstrip("0123456789"))]


def _inputs(call: ir.Operation) -> int:
    return len(call.operands) - len(call.results)


@dataclass
class _Window:
    """Calls of one level, which can stand behind operation `low` and before operation `high`."""

    calls: list[ir.Operation] = field(default_factory=list)
    low: int = -1
    high: int = 1 << 30
    programs: int = 0
    parameters: int = 0

    def takes(self, other: _Window) -> bool:
        """Whether calls may join these."""
        fits = self.parameters + other.parameters <= PARAMETERS and self.programs + other.programs <= TOGETHER
        return fits and max(self.low, other.low) < min(self.high, other.high)

    def add(self, other: _Window) -> None:
        """Adds the calls of another window."""
        self.calls += other.calls
        self.low, self.high = max(self.low, other.low), min(self.high, other.high)
        self.programs, self.parameters = self.programs + other.programs, self.parameters + other.parameters


def _first(entry: ir.Operation, functions: dict[str, ir.Operation], sources: dict[str, Source]) -> _Window | None:
    """Calls that become one launch, None where nothing is left to merge."""
    graph = Graph([o.operation for o in entry.regions[0].blocks[0].operations])
    wait_for_readers(entry, graph)
    needs = needs_of(graph)
    by_level: dict[int, list[_Window]] = {}
    for number, level in enumerate(_levels(graph, needs)):
        op = graph.ops[number]
        source = sources.get(callee_of(op))
        if source is None or is_grouped(functions[source.name]) or not _is_small(source, op):
            continue
        users = [i for i, found in enumerate(needs) if number in found]
        low, high = _low(graph, needs[number]), min(users, default=len(graph.ops) - 1)
        one = _Window([op], low, high, _programs(source), len(source.parameters))
        known = by_level.setdefault(level, [])
        home = next((w for w in known if w.takes(one)), None)
        known.append(one) if home is None else home.add(one)
    return next((w for found in by_level.values() for w in found if len(w.calls) > 1), None)


def needs_of(graph: Graph) -> list[set[int]]:
    """What each operation comes after; who reads an argument and who updates it never run side by side."""
    needs = [set(found) for found in graph.needs]
    for updater, readers in graph.waits.items():
        for reader in readers:
            needs[max(updater, reader)].add(min(updater, reader))
    return needs


def _levels(graph: Graph, needs: Sequence[set[int]]) -> list[int]:
    """The longest way to each operation, counted in calls."""
    levels = list[int]()
    for found in needs:
        levels.append(max((levels[n] + (graph.ops[n].name == "func.call") for n in found), default=0))
    return levels


def _low(graph: Graph, needs: set[int]) -> int:
    """Behind what a call stands; memory for results is made where it is wanted."""
    return max((n for n in needs if graph.ops[n].name != "tensor.empty"), default=-1)


def _programs(source: Source) -> int:
    """The number of programs of a kernel, 0 where it depends on sizes."""
    known = re.fullmatch(r"[\d *]+", source.grid)
    return source.programs({}) if known else 0


def _is_small(source: Source, call: ir.Operation) -> bool:
    """Whether a kernel leaves most of the device idle, and all it needs are its tensors, of known sizes."""
    plain = all(kind.startswith("*") for _, kind in source.parameters)
    if (
        not plain
        or source.updates
        or source.fills
        or source.descriptors
        or ALONE.search(source.text)
        or source.warps > WARPS
    ):
        return False
    if not all(_is_fresh(v) for v in list(call.operands)[_inputs(call) :]):
        return False
    kinds = [ir.ShapedType(v.type) for v in call.operands]
    known = all(k.has_static_shape for k in kinds) and 0 < _programs(source) <= PROGRAMS
    return known and sum(_bytes(k) for k in kinds) <= BYTES


def _is_fresh(destination: ir.Value) -> bool:
    """Whether a destination is memory for one call alone."""
    made = not isinstance(destination, ir.BlockArgument) and destination.owner.name == "tensor.empty"
    return made and len(list(destination.uses)) == 1


def _bytes(kind: ir.ShapedType) -> int:
    return math.prod(kind.shape) * bytes_of(str(kind.element_type))


def joined(members: Sequence[Source], name: str, inputs: Sequence[int]) -> Source:
    """The source of a launch of several kernels: all inputs, kernel by kernel, then all results."""
    tensors = [[p for p in m.parameters if p[0] != FAILURE] for m in members]
    given = [[(f"{n}_{i}", kind) for n, kind in own] for i, own in enumerate(tensors)]
    parameters = [p for own, count in zip(given, inputs, strict=True) for p in own[:count]]
    parameters += [p for own, count in zip(given, inputs, strict=True) for p in own[count:]]
    checks = [p for m in members for p in m.parameters if p[0] == FAILURE][:1]
    lines, first = ["number = tl.program_id(0)"], 0
    for place, (member, own) in enumerate(zip(members, given, strict=True)):
        end = first + _programs(member)
        lines.append("else:" if place == len(members) - 1 else f"{'elif' if place else 'if'} number < {end}:")
        failure = [FAILURE] if member.parameters[-1][0] == FAILURE else []
        values = [f"number - {first}" if first else "number", *(n for n, _ in own), *failure]
        lines.append(f"    {identifier(member.name)}_part({', '.join(values)})")
        first = end
    names = ", ".join(n for n, _ in [*parameters, *checks])
    body = "".join(f"    {line}\n" for line in lines)
    text = f"{_texts(members)}{_JIT}def {identifier(name)}({names}):\n{body}"
    warps, stages = max(m.warps for m in members), max(m.stages for m in members)
    return replace(members[0], name=name, text=text, parameters=(*parameters, *checks), grid=str(first), warps=warps,
                   stages=stages, special={})  # fmt: skip


def _texts(members: Sequence[Source]) -> str:
    """The heads and functions of sources, each once; kernels become functions of the program's number."""
    heads, functions = dict[str, None](), dict[str, None]()
    for member in members:
        head, *found = member.text.rstrip("\n").split(_JIT)
        heads |= dict.fromkeys(head.split("\n"))
        *others, kernel = found
        name = identifier(member.name)
        kernel = kernel.replace(f"def {name}(", f"def {name}_part(program_number, ", 1)
        functions |= dict.fromkeys([*others, kernel.replace("tl.program_id(0)", "program_number")])
    ordered = sorted(filter(None, heads), key=lambda line: not line.startswith("#"))
    return "\n".join(ordered) + "\n" + "".join(f"{_JIT}{f.rstrip()}\n" for f in functions)
