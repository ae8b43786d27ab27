"""Programs of many ranks: `compile_distributed(module, ..)` gives a program to call with whole tensors or pieces.

A logical program is given its layouts by the passes, then each rank that this process runs compiles its own program;
collectives are kernels that the compiled code calls.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, devices, group, local_region, local_shape
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.linalg.checks import location_text
from oneflow.passes.inline import functions_of, keep_entry
from oneflow.passes.pipeline import Pipeline
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.collectives import collectives_of, meeting
from oneflow.passes.sbp.submeshes import Submesh, Submeshes, placements_of, read_submeshes
from oneflow.passes.to_physical import physical
from oneflow.runtime.arguments import Parameter, as_array, bind
from oneflow.runtime.collectives import mpi
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.collectives.move import Lying, Move
from oneflow.runtime.collectives.nccl import gpus
from oneflow.runtime.collectives.operations import carry_out
from oneflow.runtime.collectives.threads import ThreadWorld
from oneflow.runtime.collectives.transport import Array, World, WorldError
from oneflow.runtime.cuda.array import DeviceArray
from oneflow.runtime.cuda.executable import CudaExecutable, compile_cuda
from oneflow.runtime.executable import CpuExecutable, Options, compile_module, signature_of

#: The passes from a program with a few annotations to one in which every operator has its layout.
PASSES = (
    "oneflow-infer-types,oneflow-canonicalize,cse,oneflow-infer-sbp{{strategy={strategy}}},oneflow-insert-boxing,"
    "oneflow-join-boxing"
)
#: The pieces of one tensor, on the host or a GPU, by the place in the mesh of each rank that this process runs.
Pieces = dict[int, Any]


def world_of(size: int, ranks: Sequence[int] | None = None) -> World:
    """The world in which a program of `size` ranks runs: the MPI job of this process, or one that is simulated.

    Args:
        size: how many ranks the program has.
        ranks: which ranks of the world they are.

    Raises:
        WorldError: the job is too small, or mpi4py is not installed.
    """
    largest = max(ranks or range(size)) + 1
    if not mpi.launched() or mpi.world().size == 1:
        return ThreadWorld(largest)
    world = mpi.world()
    if world.size < largest:
        raise WorldError(
            f"expected a job of {largest} ranks for a mesh of {size}, got {world.size}; run mpirun -n {largest}"
        )
    return world


def lay_out(module: ir.Module, strategy: str = "greedy", registry: Registry = REGISTRY) -> ir.Module:
    """A copy of a program with a mesh, in which every operator has its layout and boxing is inserted.

    Raises:
        PassError: annotations do not fit, or shapes are not static.
    """
    with module.context, ir.Location.unknown():
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True, assume_verified=True))
        Pipeline.parse(f"builtin.module({PASSES.format(strategy=strategy)})", module.context).run(copy, registry)
    return copy


@dataclass(frozen=True)
class Layout:
    """How a whole tensor lies on a mesh."""

    desc: TensorDesc
    nd: NdSbp

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape, which is static."""
        return tuple(d or 0 for d in self.desc.shape or ())

    def piece(self, array: Array, mesh: Mesh, place: int) -> Array:
        """The piece of a whole array at a place of the mesh; of a partial sum the first of a group has it all."""
        sums = [k for k, s in enumerate(self.nd) if s.kind == "P"]
        if group(place, mesh, sums)[0] != place:
            return self.zeros(mesh, place)
        region = local_region(self.shape, self.nd, mesh, place)
        within: Any = (*(slice(b, b + n) for b, n in region), ...)
        piece: Array = array[within]
        return piece

    def zeros(self, mesh: Mesh, place: int) -> Array:
        """A piece of zeros."""
        return np.zeros(local_shape(self.shape, self.nd, mesh, place), self.desc.dtype.numpy)


@dataclass(frozen=True)
class PlacedLayout(Layout):
    """How an argument or result of a program lies, on a part of the program's mesh."""

    place: Submesh

    @property
    def nothing(self) -> Array:
        """The piece of a rank on which none of it lies."""
        return np.empty((0,), self.desc.dtype.numpy)


def compile_distributed(
    boxed: ir.Module,
    entry: str,
    world: World,
    ranks: Sequence[int] | None = None,
    options: Options | None = None,
    registry: Registry = REGISTRY,
    device: str = "cpu",
) -> DistributedExecutable:
    """Compiles the programs of those ranks that this process runs.

    Args:
        boxed: a program from `lay_out`.
        entry: the function.
        world: where the ranks are.
        ranks: the rank of the world at each place of the mesh; by default the first ones.
        options: how each rank's program is compiled.
        registry: the operators.
        device: "cpu", or "cuda" for a GPU of its own for every rank.

    Raises:
        PassError: the program is not annotated and boxed.
        WorldError: other ranks have another program.
    """
    mesh, submeshes = notes.read_mesh(boxed.operation), read_submeshes(boxed.operation)
    ranks = tuple(range(devices(mesh))) if ranks is None else tuple(ranks)
    world.agree("programs", f"ranks {ranks}, {boxed}")
    function = functions_of(boxed)[entry]
    inputs, outputs = signature_of(boxed, entry)
    layouts = _layouts(function, notes.ARGUMENTS, [p.desc for p in inputs], submeshes)
    results = _layouts(function, notes.RESULTS, outputs, submeshes)
    places = [p for p, r in enumerate(ranks) if r in world.here]
    programs = {p: _program(boxed, entry, p, registry) for p in places}
    shown = programs[places[0]] if places else _program(boxed, entry, 0, registry)
    if len(submeshes) == 1:
        world.agree("collectives", "\n".join(map(meeting, collectives_of(shown, registry))))

    near = gpus(world) if device == "cuda" else None

    def load(place: int) -> CpuExecutable | CudaExecutable:
        sites = [location_text(op.location) for op in collectives_of(programs[place], registry)]
        kernels = Collectives(world, mesh, ranks, place, sites, near)
        if near is not None:
            return compile_cuda(programs[place], entry, options, registry, near.device.number, kernels)
        return compile_module(programs[place], entry, options, registry, kernels)

    made = world.run([functools.partial(load, p) for p in places])
    ranked = {p: Program(programs[p], e) for p, e in zip(places, made, strict=True)}
    return DistributedExecutable(boxed, world, mesh, ranks, inputs, layouts, results, ranked)


def _layouts(
    function: ir.Operation, side: str, descs: Sequence[TensorDesc], submeshes: Submeshes
) -> list[PlacedLayout]:
    stated = notes.read_values(function, side, len(descs))
    places = [submeshes[name] for name in placements_of(function, side, len(descs))]
    given = zip(descs, stated, places, strict=True)
    return [PlacedLayout(d, broadcast(place.mesh) if nd is None else nd, place) for d, nd, place in given]


def _program(boxed: ir.Module, entry: str, place: int, registry: Registry) -> ir.Module:
    program = physical(boxed, place, registry)
    with program.context:
        keep_entry(program, entry)
    return program


@dataclass(frozen=True)
class Program:
    """The program of one rank, as text of operators and compiled."""

    module: ir.Module
    executable: CpuExecutable | CudaExecutable

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The results of a run, on its device."""
        return self.executable.run(bind(self.executable.inputs, arrays, {}))


@dataclass
class DistributedExecutable:
    """A program of many ranks. Call it with whole arrays, or `run` it on pieces.

    Attributes:
        boxed: the logical program, with layouts and boxing.
        world: where its ranks are.
        mesh: its mesh.
        ranks: the rank of the world at each place of the mesh.
        inputs: the arguments of the logical program.
        arguments: how they lie.
        results: how its results lie.
        programs: those that this process runs, by their place in the mesh.
    """

    boxed: ir.Module
    world: World
    mesh: Mesh
    ranks: tuple[int, ...]
    inputs: list[Parameter]
    arguments: list[PlacedLayout]
    results: list[PlacedLayout]
    programs: dict[int, Program]

    def ir(self, stage: str, place: int | None = None) -> str:
        """The program at a stage: `sbp` (layouts and boxing), `physical`, or one of the rank's compiled program.

        `place` says whose; by default the first that this process runs.

        Raises:
            ValueError: this process does not run that rank, or there is no such stage.
        """
        if stage == "sbp":
            return str(self.boxed)
        place = next(iter(self.programs), None) if place is None else place
        if place not in self.programs:
            raise ValueError(f"expected one of the ranks {list(self.programs)} that this process runs, got {place}")
        program = self.programs[place]
        return str(program.module) if stage == "physical" else program.executable.ir(stage)

    def pieces_of(self, number: int, array: Any) -> Pieces:
        """The pieces of a whole array that is given for argument `number`, by their places in its layout.

        Raises:
            ArgumentError: it is of another type or shape.
        """
        whole, layout = as_array(self.inputs[number], array), self.arguments[number]
        members = enumerate(layout.place.members)
        return {at: layout.piece(whole, layout.place.mesh, at) for at, m in members if m in self.programs}

    def cut(self, number: int, array: Any) -> Pieces:
        """What each program of this process takes of a whole array that is given for argument `number`.

        Raises:
            ArgumentError: it is of another type or shape.
        """
        layout, pieces = self.arguments[number], self.pieces_of(number, array)
        places = {p: layout.place.place(p) for p in self.programs}
        return {p: layout.nothing if at is None else pieces[at] for p, at in places.items()}

    def gather(self, layout: PlacedLayout, pieces: Pieces) -> Pieces:
        """By their places in a layout, the pieces that the programs of this process give."""
        return {at: pieces[m] for at, m in enumerate(layout.place.members) if m in pieces}

    def run(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        """The pieces of all results, from those of all arguments.

        Raises:
            RunError: a check of the data failed on a rank, or a collective did.
        """
        made = self.run_programs({p: [x[p] for x in pieces] for p in self.programs})
        return [{p: results[number] for p, results in made.items()} for number in range(len(self.results))]

    def run_programs(self, arguments: Mapping[int, Sequence[Any]]) -> dict[int, list[Any]]:
        """The results of each program of this process, from its arguments.

        Raises:
            RunError: a check of the data failed on a rank, or a collective did.
        """
        tasks = [functools.partial(program.run, arguments[p]) for p, program in self.programs.items()]
        return dict(zip(self.programs, self.world.run(tasks), strict=True))

    def whole(self, number: int, pieces: Pieces, root: int | None = None) -> Array | None:
        """Result `number` as a whole array: on every rank of the world, or on rank `root` alone, elsewhere None."""
        layout = self.results[number]
        ranks = [self.ranks[m] for m in layout.place.members]
        return collect(self.world, layout.place.mesh, ranks, layout, self.gather(layout, pieces), root)

    def __call__(self, *arrays: Any, **named: Any) -> list[Array]:
        """Runs the program on whole arrays, the same on every rank; its results are whole on every rank.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type or shape.
            RunError: a check of the data failed on a rank, or a collective did.
        """
        given = bind(self.inputs, arrays, named)
        pieces = self.run([self.cut(i, a) for i, a in enumerate(given)])
        whole = [self.whole(i, p) for i, p in enumerate(pieces)]
        return [a for a in whole if a is not None]


def collect(
    world: World, mesh: Mesh, ranks: Sequence[int], layout: Layout, pieces: Pieces, root: int | None = None
) -> Array | None:
    """The whole array of which this process has `pieces`: on every rank, or on rank `root` alone, elsewhere None."""
    receivers = tuple(range(world.size)) if root is None else (root,)
    first = world.here[0]
    if all(s.kind == "B" for s in layout.nd) and set(receivers) <= set(ranks):
        return on_host(world, pieces[ranks.index(first)]) if first in receivers else None
    after = Lying((len(receivers),), broadcast((1,)), receivers)
    made = move_pieces(world, layout, Lying(mesh, layout.nd, tuple(ranks)), after, pieces)
    return made[receivers.index(first)] if first in receivers else None


def on_host(world: World, piece: Array | DeviceArray) -> Array:
    """The elements of a piece, when a device has computed them."""
    if not isinstance(piece, DeviceArray):
        return piece
    with world.step(world.here[0], 0, "waiting for a GPU"):
        return piece.numpy()


def move_pieces(world: World, layout: Layout, before: Lying, after: Lying, pieces: Pieces) -> Pieces:
    """The pieces of this process of an array that goes from some ranks to others; to no partial sums.

    Raises:
        WorldError: other ranks want something else.
    """
    world.agree(f"{layout.desc} moved from {before} to {after}", "")
    move, everyone = Move(layout.shape, before, after), tuple(range(world.size))
    sources, targets = ({r: p for p, r in enumerate(side.at)} for side in (before, after))

    def take(rank: int) -> Array | None:
        piece = target = None
        if rank in sources:
            piece = _reduced(world, before, sources[rank], on_host(world, pieces[sources[rank]]))
        if rank in targets:
            shape = [n for _, n in after.region(layout.shape, targets[rank])]
            target = np.empty(shape, layout.desc.dtype.numpy)
        with world.step(rank, 0, "moving a tensor between ranks"):
            move.carry_out(world.transport(rank, everyone), rank, piece, target)
        return target

    made = world.run([functools.partial(take, r) for r in world.here])
    return {targets[r]: a for r, a in zip(world.here, made, strict=True) if a is not None}


def _reduced(world: World, before: Lying, place: int, piece: Array) -> Array:
    """The piece of one place, with what the mesh axes of partial sums and maxima have of it brought together."""
    for letter, kind in (("P", "sum"), ("M", "max")):
        axes = [k for k, s in enumerate(before.nd) if s.kind == letter]
        members = [before.at[p] for p in group(place, before.mesh, axes)]
        if len(members) > 1:
            total, transport = np.empty_like(piece, order="C"), world.transport(before.at[place], members)
            with world.step(before.at[place], 0, "bringing the parts of a tensor together"):
                carry_out("ccl_all_reduce", transport, {"reduce_type": kind}, [np.ascontiguousarray(piece)], [total])
            piece = total
    return piece
