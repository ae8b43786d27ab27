"""Every transfer between layouts, run by the ranks of a world: the received tensor equals the sent tensor.

Run under mpirun, the script checks the ranks of the job; the tests also run all ranks in one process.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.dialect.nd_sbp import Mesh, NdSbp, devices, local_shape
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY, Call
from oneflow.dialect.sbp import B, P, S
from oneflow.runtime.collectives import mpi
from oneflow.runtime.collectives.operations import run_collective
from oneflow.runtime.collectives.transport import Array, World
from oneflow.runtime.distributed import compile_distributed, lay_out
from oneflow.runtime.global_array import GlobalArray, Placement
from oneflow.runtime.ranks import world_of
from oneflow.testing.simulate import RULES, Rendezvous, exchange, split_array

#: All element types; the types of a row move in one program.
DTYPES = [dtypes.DTYPES[first : first + 6] for first in range(0, len(dtypes.DTYPES), 6)]
#: The element types that collectives carry: complex numbers are pairs of reals when collectives run.
REAL = (*dtypes.ALL, *dtypes.FLOAT8)
MESHES: dict[int, list[Mesh]] = {2: [(2,), (1, 2)], 3: [(3,)], 4: [(4,), (2, 2)]}
SHAPE = (5, 3)
PAIRS = 24
#: A type, and the layouts before and after.
Move = tuple[DType, NdSbp, NdSbp]


def pairs_of(mesh: Mesh, dtype: DType) -> list[tuple[NdSbp, NdSbp]]:
    """Pairs of layouts: all pairs on one mesh axis, some pairs on two."""
    kinds = [S(0), S(1), B] + ([P] if dtype.has_sums else [])
    layouts = list(itertools.product(kinds, repeat=len(mesh)))
    pairs: list[tuple[NdSbp, NdSbp]] = list(itertools.product(layouts, layouts))
    return pairs if len(pairs) <= PAIRS else random.Random(str(mesh) + dtype.name).sample(pairs, PAIRS)


def program(mesh: Mesh, moves: Sequence[Move]) -> str:
    """A program that gives back each argument in another layout."""
    kinds = [f"tensor<{'x'.join(map(str, SHAPE))}x{dtype.mlir}>" for dtype, *_ in moves]
    names = {"B": "#sbp.broadcast", "P": "#sbp.partial_sum"}

    def stated(kind: str, nd: NdSbp) -> str:
        listed = ", ".join(names.get(s.kind) or f"#sbp.split<{s.axis}>" for s in nd)
        return f"{kind} {{oneflow.nd_sbp = [{listed}]}}"

    typed = list(zip(kinds, moves, strict=True))
    arguments = ", ".join(f"%a{i}: {stated(kind, source)}" for i, (kind, (_, source, _)) in enumerate(typed))
    results = ", ".join(stated(kind, target) for kind, (_, _, target) in typed)
    values = ", ".join(f"%a{i}" for i in range(len(moves)))
    types = ", ".join(kinds)
    sizes = ", ".join(map(str, mesh))
    return (
        f"module attributes {{oneflow.mesh = array<i64: {sizes}>}} {{\n"
        f"func.func @main({arguments}) -> ({results}) {{ return {values} : {types} }}\n}}"
    )


def draw_tensor(rng: np.random.Generator, dtype: DType) -> Array:
    """Small integers of both signs, where the type has a sign."""
    low = 0 if dtype.kind == "bool" else 1 if dtype.name == "uint8" else -4
    return rng.integers(low, 2 if low == 0 else 5, SHAPE).astype(dtype.numpy)


def check(world: World, mesh: Mesh, types: Sequence[DType], device: str = "cpu") -> None:
    """Moves tensors of each type between layouts on a mesh, partial sums of both signs among them, in one program."""
    moves = [(dtype, *pair) for dtype in types for pair in pairs_of(mesh, dtype)]
    module = read_module(program(mesh, moves), create_context(REGISTRY), "boxing.mlir")
    placement = Placement(device, np.arange(devices(mesh)).reshape(mesh)).within(world)
    executable = compile_distributed(lay_out(module), "main", placement)
    rng = np.random.default_rng(7)
    arrays = [draw_tensor(rng, dtype) for dtype, *_ in moves]
    shards = [
        split_array(a, source, mesh, seed) for seed, (a, (_, source, _)) in enumerate(zip(arrays, moves, strict=True))
    ]
    made = executable.run([
        GlobalArray(placement, layout, {p: np.ascontiguousarray(x[p]) for p in executable.programs})
        for layout, x in zip(executable.arguments, shards, strict=True)
    ])  # fmt: skip
    for result, array, (dtype, *pair) in zip(made, arrays, moves, strict=True):
        np.testing.assert_array_equal(result.numpy(), array, err_msg=f"{dtype.name} on {mesh}: {pair}")


def check_roots(world: World, dtype: DType, run: Callable[..., list[Array]]) -> None:
    """Reductions to each member, and broadcasts from each member, against the simulation.

    `run(name, rank, attributes, arrays, shapes)` returns the results of a rank, arrays of `shapes`.
    """
    rng, members = np.random.default_rng(5), world.size
    arrays = [rng.integers(0, 2, SHAPE).astype(dtype.numpy) for _ in range(members)]
    names: Any = [("ccl_broadcast", {})]
    if dtype.has_sums:
        names += [("ccl_reduce", {"reduce_type": r}) for r in ("sum", "max")]
    for root, (name, how) in itertools.product(range(members), names):
        attrs = [{"root": root, "index": r, "members": members, "mesh_axes": [0], **how} for r in range(members)]
        wanted = RULES[name](arrays, attrs)
        made = world.run([functools.partial(run, name, r, attrs[r], [arrays[r]], [SHAPE]) for r in world.local_ranks])
        for rank, (array,) in zip(world.local_ranks, made, strict=True):
            np.testing.assert_array_equal(array, wanted[rank], err_msg=f"{name} {how} of {dtype.name}, root {root}")


#: Shapes of several tensors of one collective: empty, small, and too large to be packed.
SEVERAL = ((), (3,), (0, 2), (5, 2), (1 << 14, 2), (7,))


def check_several(world: World, dtype: DType, run: Callable[..., list[Array]]) -> None:
    """Collectives of several tensors equal the collectives of each tensor; `run` takes lists of arrays."""
    rng, members, rank_of = np.random.default_rng(6), world.size, range(world.size)
    group = [{"index": r, "members": members, "mesh_axes": [0]} for r in rank_of]

    def draw(shape: tuple[int, ...]) -> Array:
        return rng.integers(0, 2 if dtype.kind == "bool" else 5, shape).astype(dtype.numpy)

    def compare(name: str, attrs: dict[str, Any], arrays: list[list[Array]]) -> None:
        calls = [Call(REGISTRY[name], {"in": tuple(a)}, {**attrs, **g}) for a, g in zip(arrays, group, strict=True)]
        wanted = exchange([Rendezvous(c, c.operands) for c in calls])
        shapes = [[w.shape for w in row] for row in wanted]
        tasks = [functools.partial(run, name, r, calls[r].attrs, arrays[r], shapes[r]) for r in world.local_ranks]
        for rank, made in zip(world.local_ranks, world.run(tasks), strict=True):
            for one, other in zip(made, wanted[rank], strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{name} {attrs} of {dtype.name}")

    if dtype.has_sums:
        for how in ("sum", "max"):
            compare("ccl_all_reduce", {"reduce_type": how}, [[draw(s) for s in SEVERAL] for _ in rank_of])
    for axis in (0, 1):
        shapes = [s for s in SEVERAL if len(s) > axis]
        sizes = [[local_shape((s[axis],), (S(0),), (members,), r)[0] for r in rank_of] for s in shapes]
        attrs = {"axis": axis, "sizes": [n for row in sizes for n in row]}
        if dtype.has_sums:
            compare("ccl_reduce_scatter", attrs, [[draw(s) for s in shapes] for _ in rank_of])
        shards = [[(*s[:axis], n[r], *s[axis + 1 :]) for s, n in zip(shapes, sizes, strict=True)] for r in rank_of]
        compare("ccl_all_gather", attrs, [[draw(s) for s in row] for row in shards])


def on_host(world: World) -> Callable[..., list[Array]]:
    """Runs a collective of all ranks on arrays of the host."""

    def run(name: str, rank: int, attrs: dict[str, Any], arrays: list[Array], shapes: list[Any]) -> list[Array]:
        targets = [np.empty(s, arrays[0].dtype) for s in shapes]
        run_collective(name, world.transport(rank, range(world.size)), attrs, arrays, targets)
        return targets

    return run


def main() -> None:
    """Checks the ranks of the MPI job."""
    world = mpi.world()
    for mesh in MESHES[world.size]:
        for types in DTYPES:
            check(world_of(devices(mesh)), mesh, types)
    for dtype in REAL:
        check_roots(world, dtype, on_host(world))
        check_several(world, dtype, on_host(world))
    print(f"rank {world.rank} is done", flush=True)


if __name__ == "__main__":
    main()
