"""Programs of many ranks: `compile_distributed(module, ..)` returns an executable for whole tensors or their pieces.

The passes assign layouts to a logical program. Then each rank that this process runs compiles its physical program.
Collectives are external kernels that the compiled code calls.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.nd_sbp import Mesh, NdSbp, broadcast, devices, group, local_region, local_shape
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.linalg.checks import location_text
from oneflow.lowering.targets.choice import gpu_target
from oneflow.passes.inline import functions_of, keep_entry
from oneflow.passes.pipeline import Pipeline
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.collectives import collective_text, collectives_of
from oneflow.passes.sbp.interconnects import NVLINK, interconnect, using_interconnect
from oneflow.passes.sbp.submeshes import Submesh, Submeshes, placements_of, read_submeshes
from oneflow.passes.to_physical import physical
from oneflow.runtime.arguments import Parameter, as_array, bind
from oneflow.runtime.collectives import mpi
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.collectives.nccl import gpus
from oneflow.runtime.collectives.operations import run_collective
from oneflow.runtime.collectives.resharding import Resharding, Sharding
from oneflow.runtime.collectives.threads import ThreadWorld
from oneflow.runtime.collectives.transport import Array, World, WorldError
from oneflow.runtime.device_array import DeviceArray
from oneflow.runtime.executable import CpuExecutable, Options, compile_module, signature_of

if TYPE_CHECKING:
    from oneflow.runtime.cuda.executable import CudaExecutable

if TYPE_CHECKING:
    from oneflow.runtime.cuda import executable as cuda
else:
    cuda = lazy("oneflow.runtime.cuda.executable")
#: The passes from a program with some annotations to a program in which every operator has a layout.
PASSES = (
    "oneflow-infer-types,oneflow-canonicalize,cse,oneflow-infer-sbp{{{options}}},oneflow-insert-boxing,"
    "oneflow-join-boxing"
)
#: The pieces (shards) of one tensor, on the host or a GPU, by the mesh index of each rank that this process runs.
Pieces = dict[int, Any]


def world_of(size: int, ranks: Sequence[int] | None = None) -> World:
    """The world of a program of `size` ranks: the MPI job of this process, or threads of this process.

    Args:
        size: the number of ranks of the program.
        ranks: their ranks in the world; by default the first ones.

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


def lay_out(
    module: ir.Module, strategy: str = "greedy", registry: Registry = REGISTRY, device: str = "cpu"
) -> ir.Module:
    """A copy of a program with a mesh in which every operator has a layout and boxing is inserted.

    Costs are those of the chosen interconnect; by default a GPU has NVLink, and computes as fast as the tensor cores
    of the target.

    Raises:
        PassError: annotations are inconsistent, or shapes are not static.
    """
    options, links = f"strategy={strategy}", interconnect()
    if device != "cpu":
        options += f" compute={gpu_target().tensor_fma_per_second / 1e9}"
        links = interconnect(NVLINK)
    with module.context, ir.Location.unknown(), using_interconnect(links):
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True, assume_verified=True))
        Pipeline.parse(f"builtin.module({PASSES.format(options=options)})", module.context).run(copy, registry)
    return copy


@dataclass(frozen=True)
class Layout:
    """The type and the layout of a tensor on a mesh."""

    desc: TensorDesc
    nd: NdSbp

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, which is static."""
        return tuple(d or 0 for d in self.desc.shape or ())

    def piece(self, array: Array, mesh: Mesh, place: int) -> Array:
        """The piece of a whole array at a mesh index. Of a partial sum the first rank of a group has all, the others
        zeros.
        """
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
    """The layout of an argument or result, on a part of the mesh of the program."""

    place: Submesh

    @property
    def nothing(self) -> Array:
        """The empty piece of a rank outside the placement."""
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
    """Compiles the programs of the ranks that this process runs.

    Args:
        boxed: a program from `lay_out`.
        entry: the name of the function.
        world: the world of the ranks.
        ranks: the rank of the world at each index of the mesh; by default the first ones.
        options: the options for compiling the program of each rank.
        registry: the operators.
        device: "cpu", or "cuda" for one GPU for each rank.

    Raises:
        PassError: the program is not annotated and boxed.
        WorldError: ranks have different programs.
    """
    mesh, submeshes = notes.read_mesh(boxed.operation), read_submeshes(boxed.operation)
    ranks = tuple(range(devices(mesh))) if ranks is None else tuple(ranks)
    world.check_agreement("programs", f"ranks {ranks}, {boxed}")
    function = functions_of(boxed)[entry]
    inputs, outputs = signature_of(boxed, entry)
    layouts = _layouts(function, notes.ARGUMENTS, [p.desc for p in inputs], submeshes)
    results = _layouts(function, notes.RESULTS, outputs, submeshes)
    places = [p for p, r in enumerate(ranks) if r in world.local_ranks]
    programs = {p: _program(boxed, entry, p, registry) for p in places}
    representative = programs[places[0]] if places else _program(boxed, entry, 0, registry)
    if len(submeshes) == 1:
        world.check_agreement(
            "collectives", "\n".join(map(collective_text, collectives_of(representative, registry)))
        )

    gpu_group = gpus(world) if device == "cuda" else None

    def load(place: int) -> CpuExecutable | CudaExecutable:
        sites = [text for op in collectives_of(programs[place], registry) for text in _sites(op)]
        kernels = Collectives(world, mesh, ranks, place, sites, gpu_group)
        if gpu_group is not None:
            return cuda.compile_cuda(programs[place], entry, options, registry, gpu_group.device.number, kernels)
        return compile_module(programs[place], entry, options, registry, kernels)

    executables = world.run([functools.partial(load, p) for p in places])
    ranked = {p: Program(programs[p], e) for p, e in zip(places, executables, strict=True)}
    return DistributedExecutable(boxed, world, mesh, ranks, inputs, layouts, results, ranked)


def _sites(op: ir.Operation) -> list[str]:
    """The locations of the collectives that one becomes: of complex numbers one for each part."""
    descs = [from_mlir(v.type) for v in op.operands]
    is_complex = any(d is not None and d.dtype.is_complex for d in descs)
    return [location_text(op.location)] * (2 if is_complex else 1)


def _layouts(
    function: ir.Operation, side: str, descs: Sequence[TensorDesc], submeshes: Submeshes
) -> list[PlacedLayout]:
    stated = notes.read_values(function, side, len(descs))
    places = [submeshes[name] for name in placements_of(function, side, len(descs))]
    rows = zip(descs, stated, places, strict=True)
    return [PlacedLayout(d, broadcast(place.mesh) if nd is None else nd, place) for d, nd, place in rows]


def _program(boxed: ir.Module, entry: str, place: int, registry: Registry) -> ir.Module:
    """The program of one rank, in a context of its own: threads compile the programs of ranks at once."""
    text = str(physical(boxed, place, registry).operation.get_asm(enable_debug_info=True))
    program = read_module(text, create_context(registry, operators=()), registry=registry, verify=False)
    with program.context:
        keep_entry(program, entry)
    return program


@dataclass(frozen=True)
class Program:
    """The program of one rank, as a module of operators and compiled."""

    module: ir.Module
    executable: CpuExecutable | CudaExecutable

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs the program; the results stay on its device."""
        return self.executable.run(bind(self.executable.inputs, arrays, {}))


@dataclass
class DistributedExecutable:
    """A program of many ranks, called with whole arrays, or run on pieces by `run`.

    Attributes:
        boxed: the logical program, with layouts and boxing.
        world: the world of the ranks.
        mesh: the mesh of the program.
        ranks: the rank of the world at each index of the mesh.
        inputs: the arguments of the logical program.
        arguments: the layouts of the arguments.
        results: the layouts of the results.
        programs: the programs that this process runs, by mesh index.
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
        """The program at a stage: `sbp` (layouts and boxing), `physical`, or a stage of the compiled program of a
        rank.

        `place` is the mesh index of the rank; by default the first that this process runs.

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
        """The pieces of a whole array for argument `number`, by their mesh indices in its layout.

        Raises:
            ArgumentError: the array is of another type or shape.
        """
        full_array, layout = as_array(self.inputs[number], array), self.arguments[number]
        members = enumerate(layout.place.members)
        return {at: layout.piece(full_array, layout.place.mesh, at) for at, m in members if m in self.programs}

    def split_argument(self, number: int, array: Any) -> Pieces:
        """The piece that each program of this process takes of a whole array for argument `number`.

        Raises:
            ArgumentError: the array is of another type or shape.
        """
        layout, pieces = self.arguments[number], self.pieces_of(number, array)
        places = {p: layout.place.place(p) for p in self.programs}
        return {p: layout.nothing if at is None else pieces[at] for p, at in places.items()}

    def gather(self, layout: PlacedLayout, pieces: Pieces) -> Pieces:
        """The pieces that the programs of this process return, by their mesh indices in a layout."""
        return {at: pieces[m] for at, m in enumerate(layout.place.members) if m in pieces}

    def run(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        """Runs the programs on the pieces of all arguments; returns the pieces of all results.

        Raises:
            RunError: a check of the data failed on a rank, or a collective did.
        """
        made = self.run_programs({p: [x[p] for x in pieces] for p in self.programs})
        return [{p: results[number] for p, results in made.items()} for number in range(len(self.results))]

    def run_programs(self, arguments: Mapping[int, Sequence[Any]]) -> dict[int, list[Any]]:
        """Runs each program of this process on its arguments; returns its results.

        Raises:
            RunError: a check of the data failed on a rank, or a collective did.
        """
        tasks = [functools.partial(program.run, arguments[p]) for p, program in self.programs.items()]
        return dict(zip(self.programs, self.world.run(tasks), strict=True))

    def assemble(self, number: int, pieces: Pieces, root: int | None = None) -> Array | None:
        """Result `number` as a whole array: on all ranks of the world, or on rank `root` alone (None on the
        others).
        """
        layout = self.results[number]
        ranks = [self.ranks[m] for m in layout.place.members]
        return collect(self.world, layout.place.mesh, ranks, layout, self.gather(layout, pieces), root)

    def __call__(self, *arrays: Any, **named: Any) -> list[Array]:
        """Runs the program on whole arrays, the same on all ranks; the results are whole arrays on all ranks.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type or shape.
            RunError: a check of the data failed on a rank, or a collective did.
        """
        arguments = bind(self.inputs, arrays, named)
        pieces = self.run([self.split_argument(i, a) for i, a in enumerate(arguments)])
        results = [self.assemble(i, p) for i, p in enumerate(pieces)]
        return [a for a in results if a is not None]


def collect(
    world: World, mesh: Mesh, ranks: Sequence[int], layout: Layout, pieces: Pieces, root: int | None = None
) -> Array | None:
    """Gathers a whole array from `pieces`: on all ranks, or on rank `root` alone (None on the others)."""
    receivers = tuple(range(world.size)) if root is None else (root,)
    first = world.local_ranks[0]
    if all(s.kind == "B" for s in layout.nd) and set(receivers) <= set(ranks):
        return on_host(world, pieces[ranks.index(first)]) if first in receivers else None
    after = Sharding((len(receivers),), broadcast((1,)), receivers)
    moved = move_pieces(world, layout, Sharding(mesh, layout.nd, tuple(ranks)), after, pieces)
    return moved[receivers.index(first)] if first in receivers else None


def on_host(world: World, piece: Array | DeviceArray) -> Array:
    """A piece as a host array, after a device has computed it."""
    if not isinstance(piece, DeviceArray):
        return piece
    with world.step(world.local_ranks[0], 0, "waiting for a GPU"):
        return piece.numpy()


def move_pieces(world: World, layout: Layout, before: Sharding, after: Sharding, pieces: Pieces) -> Pieces:
    """Reshards an array from `before` to `after`, which has no partial sums; returns the pieces of this process.

    Raises:
        WorldError: other ranks make another call.
    """
    world.check_agreement(f"{layout.desc} moved from {before} to {after}", "")
    move, everyone = Resharding(layout.shape, before, after), tuple(range(world.size))
    sources, targets = ({r: p for p, r in enumerate(side.at)} for side in (before, after))

    def take(rank: int) -> Array | None:
        piece = target = None
        if rank in sources:
            piece = _reduced(world, before, sources[rank], on_host(world, pieces[sources[rank]]))
        if rank in targets:
            shape = [n for _, n in after.region(layout.shape, targets[rank])]
            target = np.empty(shape, layout.desc.dtype.numpy)
        with world.step(rank, 0, "moving a tensor between ranks"):
            move.run(world.transport(rank, everyone), rank, piece, target)
        return target

    moved = world.run([functools.partial(take, r) for r in world.local_ranks])
    return {targets[r]: a for r, a in zip(world.local_ranks, moved, strict=True) if a is not None}


def _reduced(world: World, before: Sharding, place: int, piece: Array) -> Array:
    """The piece at a mesh index, all-reduced along the mesh axes of partial sums and maxima."""
    for letter, kind in (("P", "sum"), ("M", "max")):
        axes = [k for k, s in enumerate(before.nd) if s.kind == letter]
        members = [before.at[p] for p in group(place, before.mesh, axes)]
        if len(members) > 1:
            total, transport = np.empty_like(piece, order="C"), world.transport(before.at[place], members)
            with world.step(before.at[place], 0, "bringing the parts of a tensor together"):
                run_collective(
                    "ccl_all_reduce", transport, {"reduce_type": kind}, [np.ascontiguousarray(piece)], [total]
                )
            piece = total
    return piece
