"""Grouped launches: independent calls of one kernel become one launch (multi-tensor updates, grouped GEMM).

    call @k(%a, %e)                       call @k_x2(%a, %b, %e, %f)
    call @k(%b, %f)              ->           programs of both calls, each with the tensors of its call

Calls that are grouped are parameter updates, sums for biases, and matrix products whose tiles leave SMs idle, such as
the gradients of the weights of equal layers. A call moves behind the definition of the last operand of its group, if
no operation before uses the results of the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from oneflow.dialect._mlir import func, ir
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.targets.instructions import VECTOR_BYTES
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import (
    PROGRAM_PLACEHOLDER,
    Function,
    Parameter,
    Source,
    TileLoop,
    nested,
)
from oneflow.lowering.triton.symbolic_sizes import TileCount, cdiv

#: The attribute of a function of several merged calls: the function of each call, or the single function of all
#: calls.
MEMBER = "oneflow.member"


def group_calls(module: ir.Module, entry: ir.Operation, functions: dict[str, ir.Operation],
                sources: dict[str, Source], read: Callable[[ir.Operation], Contraction | None]) -> None:  # fmt: skip
    """Merges calls in an entry; adds the functions and sources of the merged calls.

    `read` returns the matrix product that a kernel computes, None if the kernel is no product.
    """
    *ops, end = (o.operation for o in entry.regions[0].blocks[0].operations)
    calls: dict[str, list[ir.Operation]] = {}
    for op in ops:
        calls.setdefault(callee_of(op), []).append(op)
    for name in [n for n in sources if len(calls.get(n, ())) > 1]:
        grouping = _grouping_of(functions[name], sources[name], read)
        if grouping is None:
            continue
        max_calls = grouping.parameters // max(len(sources[name].parameters), 1)
        launches = [launch for g in _groups_of(calls[name], end, max_calls) for launch in _launches(g, grouping)]
        for launch in launches:
            _merge(module, launch, functions, sources, grouping)


@dataclass(frozen=True)
class _Grouping:
    """How calls of a kernel are merged.

    `launch_sizes` divides a number of calls into the numbers of calls of each launch. `emit` returns the source of
    the kernel for a launch of a number of calls. A launch has at most `parameters` parameters.
    """

    launch_sizes: Callable[[int], Sequence[int]]
    emit: Callable[[int], Source]
    parameters: int


def _grouping_of(function: ir.Operation, source: Source,
              read: Callable[[ir.Operation], Contraction | None]) -> _Grouping | None:  # fmt: skip
    """How calls of a kernel are merged, None if calls are not merged.

    Calls can be merged if all operands are tensors of known sizes and no destination needs to be filled or copied.
    """
    programs = source.grid.static
    if programs is None or not all(p.is_tensor for p in source.parameters) or source.updates or source.fills:
        return None
    kind, limits = _kind(function), gpu_target().kernels.launches
    if kind != "contraction":
        programs = programs if not source.descriptors else 0
        calls, sms = limits.grouped.get(kind, ()), gpu_target().sms
        parameters = next((c.parameters for c in calls if 0 < programs <= c.programs_per_sm * sms), None)
        return None if parameters is None else _Grouping(lambda count: [count], lambda count: source, parameters)
    product = read(function)
    return None if product is None else _Grouping(product.launch_sizes, product.emit_grouped, limits.max_parameters)


def _launches(calls: Sequence[ir.Operation], grouping: _Grouping) -> Iterator[Sequence[ir.Operation]]:
    """The calls of each launch, without launches of one call."""
    first = 0
    for count in grouping.launch_sizes(len(calls)):
        if count > 1:
            yield calls[first : first + count]
        first += count


def member_of(function: ir.Operation, operand: int, result: int,
              functions: Mapping[str, ir.Operation]) -> tuple[ir.Operation, int, int] | None:  # fmt: skip
    """The kernel of the call that has both an operand and a result of a function, with their indices in the kernel;
    None where the operand and the result belong to different calls.
    """
    if not is_grouped(function):
        return function, operand, result
    names = [ir.StringAttr(name).value for name in function.attributes[MEMBER]]
    if len(names) == 1:
        inputs, results = _counts(functions[names[0]])
        is_one_call = operand // inputs == result // results
        return (functions[names[0]], operand % inputs, result % results) if is_one_call else None
    for name in names:
        inputs, results = _counts(functions[name])
        if operand < inputs or result < results:
            return (functions[name], operand, result) if operand < inputs and result < results else None
        operand, result = operand - inputs, result - results
    return None


def _counts(function: ir.Operation) -> tuple[int, int]:
    """How many inputs and results a kernel has."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return len(kind.inputs) - len(kind.results), len(kind.results)


def is_grouped(function: ir.Operation) -> bool:
    """Whether a function is the function of several merged calls."""
    return MEMBER in function.attributes


def _kind(function: ir.Operation) -> str:
    return str(ir.StringAttr(function.attributes["oneflow.kernel"]).value)


@dataclass
class _Group:
    """Calls in order. The merged call has to be after operation `lower`, if there is one, and before `upper`."""

    calls: dict[ir.Operation, None]
    lower: ir.Operation | None
    upper: ir.Operation


def _groups_of(calls: Sequence[ir.Operation], end: ir.Operation, max_calls: int) -> Iterator[Sequence[ir.Operation]]:
    """The groups of two to `max_calls` calls of a kernel, given in order; `end` is the return of the entry.

    A group that no later call can join is closed, so that each call is compared with few groups.
    """
    groups: list[_Group] = []
    closed: list[_Group] = []
    producers_of = [_producers(list(op.operands)[: len(op.operands) - len(op.results)]) for op in calls]
    lowers = [functools.reduce(_later, producers, None) for producers in producers_of]
    for op, producers, lower, earliest in zip(calls, producers_of, lowers, _earliest_from(lowers), strict=True):
        users = (u.owner.operation for r in op.results for u in r.uses)
        upper = functools.reduce(_earlier, users, end)
        closed += [g for g in groups if not _is_before(earliest, g.upper)]
        groups = [g for g in groups if _is_before(earliest, g.upper)]
        possible = (g for g in groups if _is_before(_later(g.lower, lower), _earlier(g.upper, upper)))
        group = next((g for g in possible if g.calls.keys().isdisjoint(producers)), None)
        if group is not None and len(group.calls) < max_calls:
            group.calls[op] = None
            group.lower, group.upper = _later(group.lower, lower), _earlier(group.upper, upper)
        else:
            groups.insert(0, _Group({op: None}, lower, upper))
    yield from (list(g.calls) for g in (*groups, *reversed(closed)) if len(g.calls) > 1)


def _earliest_from(ops: Sequence[ir.Operation | None]) -> list[ir.Operation | None]:
    """For each operation the earliest of this operation and all later operations in the list; None is before every
    operation.
    """
    earliest = list(ops[-1:])
    for op in reversed(ops[:-1]):
        earliest.append(None if op is None or earliest[-1] is None else _earlier(op, earliest[-1]))
    return earliest[::-1]


def _producers(values: Sequence[ir.Value]) -> set[ir.Operation]:
    """The operations that define values; arguments have none."""
    return {v.owner.operation for v in values if not isinstance(v, ir.BlockArgument)}


def _is_before(first: ir.Operation | None, second: ir.Operation) -> bool:
    return first is None or bool(first.is_before_in_block(second))


def _later(first: ir.Operation | None, second: ir.Operation | None) -> ir.Operation | None:
    """The later of two operations; None is before every operation."""
    return second if second is not None and _is_before(first, second) else first


def _earlier(first: ir.Operation, second: ir.Operation) -> ir.Operation:
    return first if _is_before(first, second) else second


def _merge(module: ir.Module, calls: Sequence[ir.Operation], functions: dict[str, ir.Operation],
           sources: dict[str, Source], grouping: _Grouping) -> None:  # fmt: skip
    """Replaces calls of a kernel by one call of its grouped form."""
    first, count = calls[0], len(calls)
    member, inputs = callee_of(first), len(first.operands) - len(first.results)
    name = f"{member}_x{count}"
    if name not in functions:
        sources[name] = grouped(grouping.emit(count), name, inputs, count)
    inputs_of = [v for call in calls for v in list(call.operands)[:inputs]]
    merge_calls(module, calls, name, functions, functools.reduce(_later, _producers(inputs_of), None))


def merge_calls(module: ir.Module, calls: Sequence[ir.Operation], name: str,
                functions: dict[str, ir.Operation], last: ir.Operation | None) -> None:  # fmt: skip
    """Replaces calls by one call of the function `name`, which is declared if it is missing.

    The new call is inserted after operation `last`, or in place of the first call if there is no such operation.
    """
    first, inputs = calls[0], [len(call.operands) - len(call.results) for call in calls]
    operands = [v for call, count in zip(calls, inputs, strict=True) for v in list(call.operands)[:count]]
    empties = [v for call, count in zip(calls, inputs, strict=True) for v in list(call.operands)[count:]]
    if name not in functions:
        members = [callee_of(call) for call in calls]
        functions[name] = _declare(module, functions[members[0]], name, [*operands, *empties], len(empties), members)
    with first.location, ir.InsertionPoint.after(last) if last is not None else ir.InsertionPoint(first):
        merged = func.CallOp([v.type for v in empties], name, [*operands, *empties])
    for empty in empties:
        empty.owner.operation.move_before(merged.operation)
    results = iter(merged.operation.results)
    for call in calls:
        for old in call.results:
            old.replace_all_uses_with(next(results))
        call.erase()


def _declare(module: ir.Module, member: ir.Operation, name: str, values: Sequence[ir.Value], results: int,
             callees: Sequence[str]) -> ir.Operation:  # fmt: skip
    """The function of a merged call: it returns its destinations; `callees` are the functions of the merged calls."""
    kinds = [v.type for v in values]
    with member.location, ir.InsertionPoint(member):
        function = func.FuncOp(name, (kinds, kinds[len(kinds) - results :]), visibility="private")
        block = function.add_entry_block()
        func.ReturnOp(list(block.arguments)[len(kinds) - results :], ip=ir.InsertionPoint(block))
    function.attributes["oneflow.kernel"] = member.attributes["oneflow.kernel"]
    names = callees[:1] if len(set(callees)) == 1 else callees
    function.attributes[MEMBER] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
    return function.operation


def grouped(source: Source, name: str, inputs: int, count: int) -> Source:
    """The source of `count` calls of a kernel as one launch: all inputs, call by call, then all results.

    Descriptors are created from the parameters before a program selects its call, so that the host can create them
    (`runtime/cuda/tensor_maps.py`). A persistent kernel loops over the tiles of all calls.
    """
    names = [p.name for p in source.parameters]
    order = [(call, n) for call in range(count) for n in names[:inputs]]
    order += [(call, n) for call in range(count) for n in names[inputs:]]
    types, loop = dict(source.parameters), _sole_loop(source)
    pointers = [n for n in names if n not in source.descriptor_only]
    selected = [*pointers, *(d.name for d in source.descriptors)]
    body = loop.body if loop else source.without_descriptors
    single = Function(f"{identifier(source.name)}_one", ("tile", *selected), body, "tile")
    hints = [f"{n} = tl.multiple_of({n}, {VECTOR_BYTES})" for n in pointers]
    calls = _CallSelection(selected, hints, single.name, count)
    programs, block = source.grid.static or 0, _calls_per_block(count)
    statements = [calls.persistent(loop)] if loop else calls.one_tile(programs, block)
    functions = [single] if loop else [single, _selector(selected, block)]
    parameters = tuple(Parameter(f"{n}_{call}", types[n]) for call, n in order)
    descriptors = (d.of_call(call) for call in range(count) for d in source.descriptors)
    grid = TileCount.of(programs if loop else programs * count)
    return replace(source, name=name, parameters=parameters, grid=grid, body=(*descriptors, *statements),
                   functions=(*source.functions, *functions), descriptor_only=(), specializations={})  # fmt: skip


def _sole_loop(source: Source) -> TileLoop | None:
    """The tile loop of a kernel where it is the only statement besides descriptors."""
    others = source.without_descriptors
    return source.tile_loop if len(others) == 1 else None


@dataclass(frozen=True)
class _CallSelection:
    """Writes the statements by which a program selects one of `count` calls of the function `callee`.

    `names` are the arguments of the function. `hints` are statements on their alignment.
    """

    names: Sequence[str]
    hints: Sequence[str]
    callee: str
    count: int

    def persistent(self, loop: TileLoop) -> TileLoop:
        """A loop over the tiles of all calls; each call has the tiles of `loop`."""
        tiles = loop.end.static or 0
        steps = self._tile("grouped_tile", tiles, list(_selection_statements(self.names, self.count)))
        return replace(loop, variable="grouped_tile", end=TileCount.of(tiles * self.count), body=tuple(steps))

    def one_tile(self, tiles: int, block: int) -> list[str]:
        """Each tile of each call has a program, which selects among blocks of `block` calls."""
        selection = _binary_search(
            0, self.count, block, lambda first: _block_selection(self.names, first, block, self.count)
        )
        return self._tile(PROGRAM_PLACEHOLDER, tiles, selection)

    def _tile(self, index: str, tiles: int, selection: Sequence[str]) -> list[str]:
        """The computation of one of the tiles of all calls, by the index of the tile."""
        call = f"{self.callee}({index} % {tiles}, {', '.join(self.names)})"
        return [f"call_index = {index} // {tiles}", *selection, *self.hints, call]


def _selection_statements(names: Sequence[str], count: int) -> Iterator[str]:
    """Statements that assign to `names` the arguments of call `call_index`, for the loop of a persistent kernel.

    Each `if` holds one assignment, which the compiler turns into selects.
    """
    for call in range(count):
        assignment = f"{', '.join(names)} = {', '.join(f'{n}_{call}' for n in names)}"
        yield from [f"if call_index >= {call}:", f"    {assignment}"] if call else [assignment]


def _calls_per_block(count: int) -> int:
    """How many calls the function `select_call` selects from.

    Triton copies all live names at each `if`. The block size balances the names of all calls, at each `if` that
    selects a block, against the names of a block, at each `if` that selects a call.
    """
    balanced: float = (count**2 / 2) ** (1 / 3)
    return max(round(balanced), 2)


def _selector(names: Sequence[str], block: int) -> Function:
    """The function `select_call`, which returns the arguments of one call of a block."""
    parameters = ("call_index", *(f"{n}_{call}" for call in range(block) for n in names))
    lines = _binary_search(0, block, 1, lambda call: [f"{n} = {n}_{call}" for n in names])
    return Function("select_call", parameters, (*lines, f"return {', '.join(names)}"))


def _block_selection(names: Sequence[str], first: int, block: int, count: int) -> list[str]:
    """The statement that assigns to `names` the arguments of call `call_index`, in the block from `first` on.

    The last call fills the positions of a block that has fewer calls.
    """
    parameters = (f"{n}_{min(call, count - 1)}" for call in range(first, first + block) for n in names)
    within_block = f"call_index - {first}" if first else "call_index"
    return [f"{', '.join(names)} = select_call({within_block}, {', '.join(parameters)})"]


def _binary_search(first: int, end: int, step: int, lines: Callable[[int], list[str]]) -> list[str]:
    """Binary search for `call_index` from `first` to `end`: `lines(n)` is for n <= call_index < n + step."""
    count: int = cdiv(end - first, step)
    if count == 1:
        return lines(first)
    middle = first + count // 2 * step
    lower, upper = (nested(_binary_search(a, b, step, lines)) for a, b in ((first, middle), (middle, end)))
    return [f"if call_index < {middle}:", *lower, "else:", *upper]
