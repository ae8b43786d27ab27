"""All ranks of a distributed program in one process, on NumPy.

`simulate` splits the arguments, runs the programs of all ranks in lock-step, operators by their references and
collectives by the table here, and puts the results together. A collective that not all members of its group
reach is an error that names the waiting ranks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.control import bodies_of
from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, devices, format_nd_sbp, group, local_region
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.record import REGISTRY, Call, Registry
from oneflow.dialect.sbp import M
from oneflow.passes.inline import functions_of
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.to_physical import physical

Array = np.ndarray
Attrs = dict[str, Any]


class SimulationError(RuntimeError):
    """Ranks that issue different collectives, replicas that differ, or an operation that cannot be simulated."""


@dataclass(frozen=True)
class Rendezvous:
    """A collective that a rank has reached, with its operands."""

    call: Call
    operands: Sequence[Array]

    @property
    def name(self) -> str:
        """The collective and its mesh axes."""
        return f"{self.call.record.name} along mesh axes {list(self.call.attrs['mesh_axes'])}"


def simulate(
    module: ir.Module, arrays: Sequence[Array], entry: str = "main", registry: Registry = REGISTRY
) -> list[Array]:
    """The whole results of the function `entry` on whole `arrays`.

    Args:
        module: a program after `oneflow-insert-boxing`.
        arrays: one for each argument.
        entry: the function.
        registry: its operators.

    Raises:
        PassError: the program is not annotated and boxed.
        SimulationError: ranks issue different collectives, replicas of a result differ, or there are several
            placements.
    """
    mesh = notes.read_mesh(module.operation)
    if notes.PLACEMENTS in module.operation.attributes:
        raise SimulationError("expected a program of one placement; oneflow-run --simulate runs programs of several")
    function = functions_of(module)[entry]
    layouts = [_layouts(function, name, mesh) for name in (notes.ARGUMENTS, notes.RESULTS)]
    programs = [physical(module, rank, registry) for rank in range(devices(mesh))]
    cuts = [split_array(a, nd, mesh, seed) for seed, (a, nd) in enumerate(zip(arrays, layouts[0], strict=True))]
    runs = [_run(functions_of(p), entry, [c[rank] for c in cuts], registry) for rank, p in enumerate(programs)]
    results = _run_ranks(runs, mesh)
    return [assemble([r[i] for r in results], nd, mesh) for i, nd in enumerate(layouts[1])]


def _layouts(function: ir.Operation, name: str, mesh: Mesh) -> list[NdSbp]:
    kind = function.attributes["function_type"].value
    types = kind.inputs if name == notes.ARGUMENTS else kind.results
    stated = notes.read_values(function, name, len(types))
    return [broadcast(mesh) if nd is None else nd for nd in stated]


def split_array(array: Array, nd: NdSbp, mesh: Mesh, seed: int = 0) -> list[Array]:
    """The shards of all ranks. Partial sums are small numbers of both signs, and the remainder to the whole.

    Operands of one call are cut with different seeds: equal noise could cancel.
    """
    shards = [np.asarray(array)] * devices(mesh)
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        for axis in [k for k, s in enumerate(nd) if s.kind == "P"]:
            shards = _split_into_partials(shards, mesh, axis, rng)
    regions = [local_region(array.shape, nd, mesh, rank) for rank in range(devices(mesh))]
    indices: list[Any] = [(*_slices(r), ...) for r in regions]
    return [p[i] for p, i in zip(shards, indices, strict=True)]


def _split_into_partials(shards: list[Array], mesh: Mesh, axis: int, rng: np.random.Generator) -> list[Array]:
    """Shards whose sums along one mesh axis are the given values; ranks of other mesh axes stay replicas."""
    parts_of_shards: dict[int, list[Array]] = {}
    summed = list(shards)
    for rank in range(len(shards)):
        members = group(rank, mesh, [axis])
        logical = shards[members[0]]
        if id(logical) not in parts_of_shards:
            parts = [noise(rng, logical) for _ in members[1:]]
            rest = np.subtract(logical, sum(parts, np.zeros_like(logical)), dtype=logical.dtype)
            parts_of_shards[id(logical)] = [*parts, rest]
        summed[rank] = parts_of_shards[id(logical)][members.index(rank)]
    return summed


def noise(rng: np.random.Generator, like: Array) -> Array:
    """Small numbers of both signs in the shape and type of `like`: fractions for floats, with two parts for complex
    numbers.
    """
    steps = 1 if like.dtype.kind in "biu" else 4
    numbers = rng.integers(-3 * steps, 3 * steps + 1, like.shape) / steps
    return np.asarray((numbers * (1 - 0.5j) if like.dtype.kind == "c" else numbers).astype(like.dtype))


def _slices(region: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + size) for begin, size in region)


def assemble(shards: Sequence[Array], nd: NdSbp, mesh: Mesh) -> Array:
    """The whole tensor from the shards of all ranks.

    Raises:
        SimulationError: ranks that should have the same shard have others.
    """
    shape = _whole_shape(shards, nd, mesh)
    logical = np.zeros(shape, shards[0].dtype)
    sums = [k for k, s in enumerate(nd) if s.is_partial]
    whole_axes = [k for k, s in enumerate(nd) if s.kind == "B"]
    for rank, shard in enumerate(shards):
        first = group(rank, mesh, whole_axes)[0]
        if first != rank:
            if shards[first].tobytes() != shard.tobytes():
                raise SimulationError(f"ranks {first} and {rank} have other values of {format_nd_sbp(nd)}")
        elif group(rank, mesh, sums)[0] == rank:
            parts = [shards[m] for m in group(rank, mesh, sums)]
            total = parts[0] if len(parts) == 1 else reduce_partials(parts, "M" if M in nd else "P")
            logical[_slices(local_region(shape, nd, mesh, rank))] = total
    return logical


def _whole_shape(shards: Sequence[Array], nd: NdSbp, mesh: Mesh) -> tuple[int, ...]:
    sizes = list(shards[0].shape)
    for axis in {s.axis for s in nd if s.axis is not None}:
        along = [k for k, s in enumerate(nd) if s.axis == axis]
        sizes[axis] = sum(shards[r].shape[axis] for r in group(0, mesh, along))
    return tuple(sizes)


def reduce_partials(parts: Sequence[Array], kind: str) -> Array:
    """The sum of partial sums (`kind` P), or the maximum of partial maxima (M); NaN is the largest."""
    return np.asarray(functools.reduce(np.maximum, parts)) if kind == "M" else sum_partials(parts)


def sum_partials(parts: Sequence[Array]) -> Array:
    """The sum of arrays in order, of 16-bit floats computed in f32."""
    dtype = parts[0].dtype
    wide = np.float32 if dtype.itemsize == 2 else dtype
    with np.errstate(over="ignore"):
        return np.asarray(sum((p.astype(wide) for p in parts[1:]), parts[0].astype(wide))).astype(dtype)


Run = Generator[Rendezvous, Sequence[Array], list[Array]]


def _run(functions: dict[str, ir.Operation], entry: str, arrays: Sequence[Array], registry: Registry) -> Run:
    """Runs one rank's function; stops at every collective, and continues with its result."""
    block = functions[entry].regions[0].blocks[0]
    values: dict[ir.Value, Array] = dict(zip(block.arguments, arrays, strict=True))
    for view in block.operations:
        op = view.operation
        operands = [values[v] for v in op.operands]
        if op.name == "func.return":
            return operands
        if op.name == "func.call":
            outputs: Sequence[Array] = yield from _run(functions, op.attributes["callee"].value, operands, registry)
        elif op.name.startswith(dialect.PREFIX):
            outputs = yield from _operator(functions, op, values, registry)
        else:
            outputs = _other(op, operands)
        values.update(zip(op.results, map(np.asarray, outputs), strict=True))
    raise SimulationError(f"@{entry} does not return")


def _operator(
    functions: dict[str, ir.Operation], op: ir.Operation, values: dict[ir.Value, Array], registry: Registry
) -> Generator[Rendezvous, Array, Any]:
    call = dialect.operand_call(op, dialect.record_of(op, registry), values.__getitem__)
    if call.record.control is not None:
        return (yield from _bodies(functions, call, registry))
    if "collective" in call.record.traits:
        return (yield Rendezvous(call, call.operands))
    return run_reference(call)


def _bodies(functions: dict[str, ir.Operation], call: Call, registry: Registry) -> Run:
    """Runs the bodies of an operator, which may have collectives."""
    form = bodies_of(call)
    try:
        body, arrays = next(form)
        while True:
            results = yield from _run(functions, body.symbol, arrays, registry)
            body, arrays = form.send(results)
    except StopIteration as stop:
        return list(stop.value)


def _other(op: ir.Operation, operands: Sequence[Array]) -> Sequence[Array]:
    if op.name == dialect.CAST:
        return operands
    if op.name == "arith.constant":
        return [np.array(op.attributes["value"])]
    raise SimulationError(f"expected operators of the dialect, casts, constants and calls, got {op.name}")


def _run_ranks(runs: Sequence[Run], mesh: Mesh) -> list[list[Array]]:
    """Runs every rank up to the next collective of the rank, until all ranks have returned."""
    results: list[list[Array] | None] = [None] * len(runs)
    received: list[Sequence[Array] | None] = [None] * len(runs)
    while True:
        waiting: list[Rendezvous | None] = []
        for rank, run in enumerate(runs):
            waiting.append(None if results[rank] is not None else _advance(run, received[rank], results, rank))
        if all(m is None for m in waiting):
            return [r for r in results if r is not None]
        received = _exchange(waiting, mesh)


def _advance(run: Run, received: Any, results: list[list[Array] | None], rank: int) -> Rendezvous | None:
    try:
        return run.send(received)
    except StopIteration as stop:
        results[rank] = stop.value
        return None


def _exchange(waiting: Sequence[Rendezvous | None], mesh: Mesh) -> list[Sequence[Array] | None]:
    """The results of the collectives at which the ranks wait, by rank."""
    received: list[Sequence[Array] | None] = [None] * len(waiting)
    for rank, rendezvous in enumerate(waiting):
        if rendezvous is None:
            continue
        members = group(rank, mesh, rendezvous.call.attrs["mesh_axes"])
        for other in members:
            reached = waiting[other]
            if reached is None or reached.name != rendezvous.name:
                waits = "has returned" if reached is None else f"is at {reached.name}"
                raise SimulationError(f"rank {rank} waits at {rendezvous.name} for rank {other}, which {waits}")
        if rank == members[0]:
            present = [m for m in (waiting[r] for r in members) if m is not None]
            for member, arrays in zip(members, exchange(present), strict=True):
                received[member] = arrays
    return received


def exchange(members: Sequence[Rendezvous]) -> list[Sequence[Array]]:
    """The result of each member of one group of a collective, tensor by tensor."""
    rule, count = RULES[members[0].call.record.name], len(members[0].operands)
    by_tensor = [
        rule([m.operands[i] for m in members], [_attributes_of(i, m.call.attrs) for m in members])
        for i in range(count)
    ]
    return [list(row) for row in zip(*by_tensor, strict=True)]


def _attributes_of(number: int, attrs: Attrs) -> Attrs:
    """The attributes of a collective of tensor `number` alone; `sizes` has sizes of one tensor, then of the next."""
    if "sizes" not in attrs:
        return attrs
    members = attrs["members"]
    return {**attrs, "sizes": attrs["sizes"][members * number : members * (number + 1)]}


def _all_reduce(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    return [reduce_partials(parts, "M" if attrs[0]["reduce_type"] == "max" else "P")] * len(parts)


def _reduce(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    reduced, *_ = _all_reduce(parts, attrs)
    return [reduced if member == attrs[0]["root"] else np.zeros_like(reduced) for member in range(len(parts))]


def _broadcast(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    return [parts[attrs[0]["root"]]] * len(parts)


def _shards(logical: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    return np.split(logical, list(itertools.accumulate(sizes))[:-1], axis)


def _reduce_scatter(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    return _shards(sum_partials(parts), attrs[0]["axis"], attrs[0]["sizes"])


def _all_gather(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    return [np.concatenate(parts, attrs[0]["axis"])] * len(parts)


def _all_to_all(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    return _shards(np.concatenate(parts, attrs[0]["in_axis"]), attrs[0]["out_axis"], attrs[0]["out_sizes"])


def _send_recv(parts: Sequence[Array], attrs: Sequence[Attrs]) -> list[Array]:
    shape, mesh, source, target = (attrs[0][k] for k in ("shape", "mesh", "src_nd_sbp", "dst_nd_sbp"))
    logical = assemble(parts, source, mesh)
    assert logical.shape == shape, f"shards of {logical.shape}, expected {shape}"
    return [logical[_slices(local_region(shape, target, mesh, m))] for m in range(len(parts))]


RULES: dict[str, Callable[[Sequence[Array], Sequence[Attrs]], list[Array]]] = {
    "ccl_all_reduce": _all_reduce,
    "ccl_reduce": _reduce,
    "ccl_broadcast": _broadcast,
    "ccl_reduce_scatter": _reduce_scatter,
    "ccl_all_gather": _all_gather,
    "ccl_all_to_all": _all_to_all,
    "ccl_send_recv": _send_recv,
}
