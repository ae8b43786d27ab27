"""Calls of one kernel that do not need each other become one launch: updates of parameters, sums for biases,
products whose tiles leave processors idle, such as the gradients of equal layers' weights.

    call @k(%a, %e)                       call @k_x2(%a, %b, %e, %f)
    call @k(%b, %f)              ->           programs of both, each with the tensors of its own

A call moves to where the last operand of its group is there, if nothing needs its results before.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oneflow.dialect._mlir import func, ir
from oneflow.lowering.triton.codegen.kernel import FAILURE
from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.names import identifier
from oneflow.lowering.triton.source import Source, cdiv, indented, signature

#: The attribute of a function that stands for several calls: the functions that they are of, or the one that all are.
MEMBER = "oneflow.member"
#: The most parameters of a kernel.
PARAMETERS = 480


class Small(NamedTuple):
    """Calls of at most so many programs (larger ones fill the device alone): the most parameters of their launch."""

    programs: int
    parameters: int


#: Calls that are small, by the kind of their kernel, fewer programs first. Choosing among many takes as long as a
#: call of more programs itself does: 48 updates of 768 x 768 in bf16 take 165 us one by one, 147 with 80 parameters a
#: launch, 176 with 480 on an H100. With 24 of 3072 x 768 a step of AdamW takes 447 us where they are one by one, 438
#: with 40 parameters a launch, 440 with 80, 527 with 160 on an H200.
SMALL = {"pointwise": (Small(264, PARAMETERS), Small(1056, 80), Small(2400, 40)), "row": (Small(264, PARAMETERS),)}
#: The number of a program.
PLACE = "tl.program_id(0)"


def group_calls(module: ir.Module, entry: ir.Operation, functions: dict[str, ir.Operation],
                sources: dict[str, Source], read: Callable[[ir.Operation], Contraction | None]) -> None:  # fmt: skip
    """Merges calls in an entry: adds what is called then, and takes away the sources of what is called no more.

    `read` gives the product that a kernel is, None where it is computed otherwise.
    """
    *ops, end = (o.operation for o in entry.regions[0].blocks[0].operations)
    calls: dict[str, list[ir.Operation]] = {}
    for op in ops:
        calls.setdefault(callee_of(op), []).append(op)
    for name in [n for n in sources if len(calls.get(n, ())) > 1]:
        one = _together(functions[name], sources[name], read)
        if one is None:
            continue
        most = one.parameters // max(len(sources[name].parameters), 1)
        merged = [p for g in _gathered(calls[name], end, most) for p in _cut(g, one)]
        for piece in merged:
            _merge(module, piece, functions, sources, one)
        if len(calls[name]) == sum(map(len, merged)):
            del sources[name]


@dataclass(frozen=True)
class _Together:
    """How many of so many calls are each launch, what gives the source of one, and the most parameters of it."""

    pieces: Callable[[int], Sequence[int]]
    emit: Callable[[int], Source]
    parameters: int = PARAMETERS


def _together(function: ir.Operation, source: Source,
              read: Callable[[ir.Operation], Contraction | None]) -> _Together | None:  # fmt: skip
    """How calls of a kernel are merged: those of tensors of known sizes that have nothing to prepare can be."""
    plain = all(k.startswith("*") and name != FAILURE for name, k in source.parameters)
    if not plain or not source.grid.isdigit() or source.updates or source.fills:
        return None
    kind = _kind(function)
    if kind != "contraction":
        programs = int(source.grid) if not source.descriptors else 0
        most = next((s.parameters for s in SMALL.get(kind, ()) if 0 < programs <= s.programs), None)
        return None if most is None else _Together(lambda count: [count], lambda count: source, most)
    product = read(function)
    return None if product is None else _Together(product.pieces, product.emit_together)


def _cut(calls: Sequence[ir.Operation], together: _Together) -> Iterator[Sequence[ir.Operation]]:
    """Calls in the pieces that are a launch each, without those of one."""
    first = 0
    for count in together.pieces(len(calls)):
        if count > 1:
            yield calls[first : first + count]
        first += count


def member_of(function: ir.Operation, operand: int, result: int,
              functions: Mapping[str, ir.Operation]) -> tuple[ir.Operation, int, int] | None:  # fmt: skip
    """The kernel that a function stands for, its operand and its result; None where those are of different calls."""
    if not is_grouped(function):
        return function, operand, result
    names = [ir.StringAttr(name).value for name in function.attributes[MEMBER]]
    if len(names) == 1:
        inputs, results = _counts(functions[names[0]])
        alike = operand // inputs == result // results
        return (functions[names[0]], operand % inputs, result % results) if alike else None
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
    """Whether a function stands for several calls."""
    return MEMBER in function.attributes


def _kind(function: ir.Operation) -> str:
    return str(ir.StringAttr(function.attributes["oneflow.kernel"]).value)


@dataclass
class _Group:
    """Calls in order; they can stand anywhere behind `low`, if that is an operation, and before `high`."""

    calls: dict[ir.Operation, None]
    low: ir.Operation | None
    high: ir.Operation


def _gathered(calls: Sequence[ir.Operation], end: ir.Operation, most: int) -> Iterator[Sequence[ir.Operation]]:
    """The groups of two and at most `most` of the calls of a kernel, given in order; `end` ends the entry."""
    groups: list[_Group] = []
    done: list[_Group] = []
    makers_of = [_makers(list(op.operands)[: len(op.operands) - len(op.results)]) for op in calls]
    lows = [functools.reduce(_later, makers, None) for makers in makers_of]
    for op, makers, low, least in zip(calls, makers_of, lows, _least(lows), strict=True):
        users = (u.owner.operation for r in op.results for u in r.uses)
        high = functools.reduce(_earlier, users, end)
        done += [g for g in groups if not _is_before(least, g.high)]
        groups = [g for g in groups if _is_before(least, g.high)]
        free = (g for g in groups if _is_before(_later(g.low, low), _earlier(g.high, high)))
        home = next((g for g in free if g.calls.keys().isdisjoint(makers)), None)
        if home is not None and len(home.calls) < most:
            home.calls[op] = None
            home.low, home.high = _later(home.low, low), _earlier(home.high, high)
        else:
            groups.insert(0, _Group({op: None}, low, high))
    yield from (list(g.calls) for g in (*groups, *reversed(done)) if len(g.calls) > 1)


def _least(lows: Sequence[ir.Operation | None]) -> list[ir.Operation | None]:
    """The earliest of each of some operations and all after it; None is before any."""
    found = lows[-1:]
    for low in reversed(lows[:-1]):
        found.append(None if low is None or found[-1] is None else _earlier(low, found[-1]))
    return found[::-1]


def _makers(values: Sequence[ir.Value]) -> set[ir.Operation]:
    """The operations that give values; arguments have none."""
    return {v.owner.operation for v in values if not isinstance(v, ir.BlockArgument)}


def _is_before(one: ir.Operation | None, other: ir.Operation) -> bool:
    return one is None or bool(one.is_before_in_block(other))


def _later(one: ir.Operation | None, other: ir.Operation | None) -> ir.Operation | None:
    """The later of two operations, of which None is before any."""
    return other if other is not None and _is_before(one, other) else one


def _earlier(one: ir.Operation, other: ir.Operation) -> ir.Operation:
    return one if _is_before(one, other) else other


def callee_of(op: ir.Operation) -> str:
    """The function that an operation calls, nothing for another operation."""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value) if op.name == "func.call" else ""


def _merge(module: ir.Module, calls: Sequence[ir.Operation], functions: dict[str, ir.Operation],
           sources: dict[str, Source], together: _Together) -> None:  # fmt: skip
    """One call in the place of several."""
    first, count = calls[0], len(calls)
    member, inputs = callee_of(first), len(first.operands) - len(first.results)
    name = f"{member}_x{count}"
    if name not in functions:
        sources[name] = grouped(together.emit(count), name, inputs, count)
    inputs_of = [v for call in calls for v in list(call.operands)[:inputs]]
    merge_calls(module, calls, name, functions, functools.reduce(_later, _makers(inputs_of), None))


def merge_calls(module: ir.Module, calls: Sequence[ir.Operation], name: str,
                functions: dict[str, ir.Operation], last: ir.Operation | None) -> None:  # fmt: skip
    """One call of the function `name`, made where it is missing, for several; it comes behind operation `last`."""
    first, inputs = calls[0], [len(call.operands) - len(call.results) for call in calls]
    operands = [v for call, count in zip(calls, inputs, strict=True) for v in list(call.operands)[:count]]
    empties = [v for call, count in zip(calls, inputs, strict=True) for v in list(call.operands)[count:]]
    if name not in functions:
        members = [callee_of(call) for call in calls]
        functions[name] = _declare(module, functions[members[0]], name, [*operands, *empties], len(empties), members)
    with first.location, ir.InsertionPoint.after(last) if last is not None else ir.InsertionPoint(first):
        made = func.CallOp([v.type for v in empties], name, [*operands, *empties])
    for empty in empties:
        empty.owner.operation.move_before(made.operation)
    results = iter(made.operation.results)
    for call in calls:
        for old in call.results:
            old.replace_all_uses_with(next(results))
        call.erase()


def _declare(module: ir.Module, member: ir.Operation, name: str, values: Sequence[ir.Value], results: int,
             of: Sequence[str]) -> ir.Operation:  # fmt: skip
    """The function of a merged call: it gives its destinations; `of` are the functions that its parts call."""
    kinds = [v.type for v in values]
    with member.location, ir.InsertionPoint(member):
        function = func.FuncOp(name, (kinds, kinds[len(kinds) - results :]), visibility="private")
        block = function.add_entry_block()
        func.ReturnOp(list(block.arguments)[len(kinds) - results :], ip=ir.InsertionPoint(block))
    function.attributes["oneflow.kernel"] = member.attributes["oneflow.kernel"]
    names = of[:1] if len(set(of)) == 1 else of
    function.attributes[MEMBER] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
    return function.operation


def grouped(source: Source, name: str, inputs: int, count: int) -> Source:
    """The source of `count` calls of a kernel at once: all inputs, call by call, then all results.

    Descriptors are made of the parameters before a call is chosen, as the host does (`runtime/cuda/tensor_maps.py`).
    Programs that stay go through the tiles of all calls.
    """
    names = [n for n, _ in source.parameters]
    order = [(call, n) for call in range(count) for n in names[:inputs]]
    order += [(call, n) for call in range(count) for n in names[inputs:]]
    kinds, one = dict(source.parameters), f"{identifier(source.name)}_one"
    loop = source.tile_loop
    body = source.tile_body if loop else source.body.replace(PLACE, "tile")
    pointers = [n for n in names if re.search(rf"\b{n}\b", body)]
    chosen = [*pointers, *(d.name for d in source.descriptors)]
    single = _kernel(one, ["tile", *chosen], body)
    calls = _Calls(chosen, [f"{n} = tl.multiple_of({n}, 16)" for n in pointers], one, count)
    programs, block = int(source.grid), _block(count)
    steps = calls.in_turn(loop.tiles, programs) if loop else calls.one_each(programs, block)
    descriptors = tuple(d.of_call(call) for call in range(count) for d in source.descriptors)
    parameters = [(f"{n}_{call}", kinds[n]) for call, n in order]
    main = _kernel(identifier(name), [n for n, _ in parameters], indented([*descriptors, *steps]))
    text = "\n\n".join([source.prelude + single, *([] if loop else [_picker(chosen, block)]), main])
    grid = str(programs if loop else programs * count)
    return replace(source, name=name, text=text, parameters=tuple(parameters), grid=grid, special={},
                   descriptors=descriptors, tile_loop=None)  # fmt: skip


@dataclass(frozen=True)
class _Calls:
    """So many calls of the function `one`: the names that it is given, and lines that say what is known of these."""

    names: Sequence[str]
    hints: Sequence[str]
    one: str
    count: int

    def in_turn(self, tiles: int, programs: int) -> list[str]:
        """Programs that stay go through the tiles of all calls."""
        steps = self._steps("every", tiles, list(_selected(self.names, self.count)))
        header = f"for every in tl.range({PLACE}, {tiles * self.count}, {programs}, flatten=True):"
        return [header, *(f"    {step}" for step in steps)]

    def one_each(self, tiles: int, block: int) -> list[str]:
        """Each tile of each call has a program, which chooses from blocks of calls."""
        which = _chosen(0, self.count, block, lambda first: _from_block(self.names, first, block, self.count))
        return self._steps(PLACE, tiles, which)

    def _steps(self, number: str, tiles: int, choice: Sequence[str]) -> list[str]:
        """A tile of all calls, by its number."""
        last = f"{self.one}({number} % {tiles}, {', '.join(self.names)})"
        return [f"which = {number} // {tiles}", *choice, *self.hints, last]


def _selected(names: Sequence[str], count: int) -> Iterator[str]:
    """The lines that give `names` those of call `which` without branches, as in the loop of programs that stay."""
    for call in range(count):
        given = f"{', '.join(names)} = {', '.join(f'{n}_{call}' for n in names)}"
        yield from [f"if which >= {call}:", f"    {given}"] if call else [given]


def _block(count: int) -> int:
    """How many calls one function chooses from. Triton copies all names at each `if`, so few may stand beside many
    names: those of all calls, against those of a block.
    """
    return max(round((count**2 / 2) ** (1 / 3)), 2)


def _kernel(name: str, parameters: Sequence[str], body: str) -> str:
    return f"{signature(name, parameters)}{body}"


def _picker(names: Sequence[str], block: int) -> str:
    """The function that gives what one call of a block is given."""
    parameters = ["which", *(f"{n}_{call}" for call in range(block) for n in names)]
    lines = _chosen(0, block, 1, lambda call: [f"{n} = {n}_{call}" for n in names])
    return _kernel("one_of", parameters, indented([*lines, f"return {', '.join(names)}"]))


def _from_block(names: Sequence[str], first: int, block: int, count: int) -> list[str]:
    """The line that gives `names` those of call `which`, which is in a block; the last stands for those behind it."""
    given = (f"{n}_{min(call, count - 1)}" for call in range(first, first + block) for n in names)
    return [f"{', '.join(names)} = one_of(which{f' - {first}' if first else ''}, {', '.join(given)})"]


def _chosen(first: int, end: int, step: int, lines: Callable[[int], list[str]]) -> list[str]:
    """`lines` of the number, of those from `first` on in steps, behind which `which` comes next."""
    count = cdiv(end - first, step)
    if count == 1:
        return lines(first)
    middle = first + count // 2 * step
    lower, upper = (["    " + x for x in _chosen(a, b, step, lines)] for a, b in ((first, middle), (middle, end)))
    return [f"if which < {middle}:", *lower, "else:", *upper]
