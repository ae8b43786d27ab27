"""Programs of several ranks: `compile_program(module, entry, placement)` returns an executable of global arrays.

The passes assign layouts to a logical program. Then each rank that this process runs compiles its physical program.
Collectives are external kernels that the compiled code calls.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.lazy import lazy
from oneflow.dialect.locks import Lock
from oneflow.dialect.nd_sbp import NdSbp, broadcast
from oneflow.dialect.oneflow import create_context, exclusive
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc, from_mlir
from oneflow.lowering.kernels.donated_arguments import donated_arguments
from oneflow.lowering.linalg.checks import location_text
from oneflow.lowering.targets.selection import gpu_target
from oneflow.passes.inline import functions_of, keep_entry
from oneflow.passes.pipeline import Pipeline
from oneflow.passes.sbp import annotations as notes
from oneflow.passes.sbp.collectives import collective_text, collectives_of
from oneflow.passes.sbp.interconnects import NVLINK, interconnect, using_interconnect
from oneflow.passes.sbp.submeshes import WHOLE, Submesh, placements_of, read_submeshes
from oneflow.passes.to_physical import physical
from oneflow.runtime.arguments import Parameter, as_array, bind
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.collectives.nccl import gpus
from oneflow.runtime.collectives.transport import Array
from oneflow.runtime.executable import Options, compile_module
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.global_array import GlobalArray, Placement
from oneflow.runtime.program_source import signature_of
from oneflow.runtime.shards import MeshLayout, Shards, on_host

if TYPE_CHECKING:
    from oneflow.runtime.cuda.executable import CudaExecutable
    from oneflow.runtime.executable import CpuExecutable
if TYPE_CHECKING:
    from oneflow.runtime.cuda import executable as cuda
else:
    cuda = lazy("oneflow.runtime.cuda.executable")

#: The passes from a program with some annotations to a program in which every operator has a layout.
PASSES = (
    "oneflow-infer-types,oneflow-canonicalize,cse,oneflow-infer-sbp{{{options}}},oneflow-insert-boxing,"
    "oneflow-join-boxing"
)


def compile_program(
    module: ir.Module, entry: str, placement: Placement, parts: Mapping[str, Placement], strategy: str
) -> DistributedExecutable:
    """Compiles a function of an annotated module for the ranks of a placement; see `runtime.backends.RanksBackend`.

    Raises:
        PassError: annotations are inconsistent, or shapes are not static.
        WorldError: the job has too few ranks, or other ranks have another program.
    """
    return compile_distributed(lay_out(module, strategy, device=placement.type), entry, placement, parts)


def lay_out(
    module: ir.Module, strategy: str = "greedy", registry: Registry = REGISTRY, device: str = "cpu"
) -> ir.Module:
    """A copy of a program with a mesh in which every operator has a layout and boxing is inserted.

    Costs follow from the chosen interconnect; by default a GPU has NVLink, and computes as fast as the tensor cores
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
class PlacedLayout(MeshLayout):
    """The layout of an argument or result on a placement, which is a part of the mesh of the program."""

    part: Submesh
    placement: Placement

    @property
    def nothing(self) -> Array:
        """The empty shard of a rank outside the placement."""
        return np.empty((0,), self.desc.dtype.numpy)

    def select(self, shards: Shards) -> Shards:
        """The shards of the ranks of the program, by their mesh indices in the placement."""
        return {at: shards[m] for at, m in enumerate(self.part.members) if m in shards}


def compile_distributed(
    boxed: ir.Module,
    entry: str,
    placement: Placement,
    parts: Mapping[str, Placement] | None = None,
    options: Options | None = None,
    registry: Registry = REGISTRY,
) -> DistributedExecutable:
    """Compiles the programs of the ranks that this process runs.

    Args:
        boxed: a program from `lay_out`.
        entry: the name of the function.
        placement: the ranks of the mesh; each rank of a placement on "cuda" has one GPU.
        parts: the placements that the program names; by default made of the names in the program.
        options: the options for compiling the program of each rank.
        registry: the operators.

    Raises:
        PassError: the program is not annotated and boxed.
        WorldError: ranks have different programs.
    """
    submeshes, world, ranks = read_submeshes(boxed.operation), placement.world, placement.members
    world.check_agreement("programs", f"ranks {ranks}, {boxed}")
    placements = {WHOLE: placement, **(parts or {})}
    placed = {n: (s, placements.get(n) or placement.part(s.ranks)) for n, s in submeshes.items()}
    inputs, outputs = signature_of(boxed, entry)
    function = functions_of(boxed)[entry]
    arguments = _layouts(function, notes.ARGUMENTS, [p.desc for p in inputs], placed)
    results = _layouts(function, notes.RESULTS, outputs, placed)
    programs = {p: _program(boxed, entry, p, registry) for p in placement.local_indices}
    if len(submeshes) == 1:
        representative = next(iter(programs.values()), None) or _program(boxed, entry, 0, registry)
        world.check_agreement(
            "collectives", "\n".join(map(collective_text, collectives_of(representative, registry)))
        )
    load = _loader(placement, entry, options, registry)
    executables = world.run([functools.partial(load, p, module) for p, module in programs.items()])
    donated = frozenset(donated_arguments(function))
    ranked = {p: Program(programs[p], e, bool(donated)) for p, e in zip(programs, executables, strict=True)}
    return DistributedExecutable(boxed, placement, inputs, arguments, results, donated, ranked)


def _loader(
    placement: Placement, entry: str, options: Options | None, registry: Registry
) -> Callable[[int, ir.Module], CpuExecutable | CudaExecutable]:
    """A function that compiles the program of the rank at a mesh index for its device."""
    world, gpu_group = placement.world, gpus(placement.world) if placement.type == "cuda" else None

    def load(mesh_index: int, program: ir.Module) -> CpuExecutable | CudaExecutable:
        sites = [text for op in collectives_of(program, registry) for text in _sites(op)]
        kernels = Collectives(world, placement.mesh, placement.members, mesh_index, sites, gpu_group)
        if gpu_group is not None:
            return cuda.compile_cuda(program, entry, options, registry, gpu_group.device.ordinal, kernels)
        return compile_module(program, entry, options, registry, kernels)

    return load


def _sites(op: ir.Operation) -> list[str]:
    """The locations of the collectives that one becomes: of complex numbers one for each part."""
    descs = [from_mlir(v.type) for v in op.operands]
    is_complex = any(d is not None and d.dtype.is_complex for d in descs)
    return [location_text(op.location)] * (2 if is_complex else 1)


def _layouts(
    function: ir.Operation, side: str, descs: Sequence[TensorDesc], placed: Mapping[str, tuple[Submesh, Placement]]
) -> list[PlacedLayout]:
    stated = notes.read_values(function, side, len(descs))
    parts = [placed[name] for name in placements_of(function, side, len(descs))]
    rows = zip(descs, stated, parts, strict=True)
    return [PlacedLayout(d, broadcast(part[0].mesh) if nd is None else nd, *part) for d, nd, part in rows]


#: The contexts of the programs of ranks, by mesh index, for the context of the logical programs. A context has
#: megabytes, a program of one operator has kilobytes.
_contexts: weakref.WeakKeyDictionary[ir.Context, dict[int, ir.Context]] = weakref.WeakKeyDictionary()
_contexts_lock = Lock()


def _context(logical: ir.Context, mesh_index: int, registry: Registry) -> ir.Context:
    """The context of the programs of a rank: threads compile the programs of ranks at once, each in its context."""
    with _contexts_lock.held():
        by_rank = _contexts.setdefault(logical, {})
        if mesh_index not in by_rank:
            by_rank[mesh_index] = create_context(registry, operators=())
        return by_rank[mesh_index]


def _program(boxed: ir.Module, entry: str, mesh_index: int, registry: Registry) -> ir.Module:
    """The program of one rank, in the context of the rank."""
    text = str(physical(boxed, mesh_index, registry).operation.get_asm(enable_debug_info=True))
    context = _context(boxed.context, mesh_index, registry)
    with exclusive(context):
        program = read_module(text, context, registry=registry, verify=False)
        with context:
            keep_entry(program, entry)
    return program


@dataclass(frozen=True)
class Program:
    """The program of one rank, as a module of operators and compiled; `donates` says that it updates arguments."""

    module: ir.Module
    executable: CpuExecutable | CudaExecutable
    donates: bool

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Runs the program on all arguments in order; the results stay on its device."""
        results = None if self.donates or self.executable.fast_path is None else self.executable.fast_path(arrays)
        return self.executable.run(arrays) if results is None else results


@dataclass
class DistributedExecutable:
    """A program of several ranks, as an `Executable` of global arrays.

    Attributes:
        boxed: the logical program, with layouts and boxing.
        placement: the ranks of the mesh of the program.
        inputs: the arguments of the logical program.
        arguments: the layouts of the arguments.
        results: the layouts of the results.
        donated: the indices of the arguments that are updated in place.
        programs: the programs that this process runs, by mesh index.
    """

    array: ClassVar[type] = GlobalArray
    is_remote: ClassVar[bool] = False
    is_size_specialized: ClassVar[bool] = False
    fast_path: ClassVar[None] = None
    last_run: ClassVar[None] = None

    boxed: ir.Module
    placement: Placement
    inputs: list[Parameter]
    arguments: list[PlacedLayout]
    results: list[PlacedLayout]
    donated: frozenset[int]
    programs: dict[int, Program]

    def ir(self, stage: str, rank: int | None = None) -> str:
        """The program at a stage: `sbp` (layouts and boxing), `physical`, or a stage of the compiled program of a
        rank.

        `rank` is the rank's index in the mesh; by default the first that this process runs.

        Raises:
            ValueError: this process does not run that rank, or there is no such stage.
        """
        if stage == "sbp":
            return str(self.boxed)
        rank = next(iter(self.programs), None) if rank is None else rank
        if rank not in self.programs:
            raise ValueError(f"expected one of the ranks {list(self.programs)} that this process runs, got {rank}")
        program = self.programs[rank]
        return str(program.module) if stage == "physical" else program.executable.ir(stage)

    @functools.cached_property
    def outputs(self) -> list[TensorDesc]:
        """The types of the whole results."""
        return [layout.desc for layout in self.results]

    @property
    def memory(self) -> Footprint:
        """The memory in bytes of a run on the first rank of this process.

        Raises:
            ValueError: this process runs no rank of the placement.
        """
        if not self.programs:
            raise ValueError(f"expected a rank of {self.placement} in this process")
        return next(iter(self.programs.values())).executable.memory

    def reads(self, index: int) -> bool:
        """True: ranks agree on the layout of every argument."""
        return True

    def replay(self, arrays: Sequence[Any], compared: Any = None) -> list[GlobalArray]:
        """As `run`: every run checks the layouts of its arguments."""
        return self.run(arrays)

    def __call__(self, *arrays: Any, **named: Any) -> list[Array]:
        """Runs the program on whole arrays, the same on all ranks; the results are whole arrays on all ranks.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type or shape.
            RunError: a check of the data failed on a rank, or a collective did.
        """
        return [result.numpy() for result in self.run(bind(self.inputs, arrays, named))]

    def run(self, arrays: Sequence[Any]) -> list[GlobalArray]:
        """The results as global arrays, of arguments that are global arrays or whole on every rank.

        A result that has the shards of an argument, updated in place, is this argument.

        Raises:
            ArgumentError: an argument is of another type or shape.
            RunError: a check of the data failed on a rank, or a collective did.
        """
        placed = [
            x if type(x) is GlobalArray and x.placement is on and x.layout.nd is nd else self.laid_out(index, x)
            for index, (x, (on, nd)) in enumerate(zip(arrays, self._fitting, strict=True))
        ]
        arguments = {
            p: [none if at is None else x.shards[at] for x, (at, none) in zip(placed, takes, strict=True)]
            for p, takes in self._shards_of_programs.items()
        }
        tasks = [functools.partial(program.run, arguments[p]) for p, program in self.programs.items()]
        results = dict(zip(self.programs, self.placement.world.run(tasks), strict=True))
        updated = self._updated_arguments(arguments, results)
        return [self._result(i, results) if n is None else placed[n] for i, n in enumerate(updated)]

    def laid_out(self, index: int, array: Any) -> GlobalArray:
        """An array as argument `index`, with the placement and layout that the program needs.

        Shards of an argument that is updated in place are copies, since ranks of this process may have the same
        shard. The placement and layout objects of an argument that fits are kept, so that the next one is compared by
        identity.

        Raises:
            ArgumentError: the array is of another type or shape.
        """
        layout, (placement, nd) = self.arguments[index], self._fitting[index]
        if not isinstance(array, GlobalArray):
            whole = as_array(self.inputs[index], on_host(self.placement.world, array))
            members = enumerate(layout.part.members)
            shards = {at: layout.shard(whole, placement.mesh, at) for at, m in members if m in self.programs}
            if index in self.donated:
                shards = {at: np.array(shard, order="C") for at, shard in shards.items()}
            return GlobalArray(placement, layout, shards)
        placed = array.to(placement, nd)
        if placed is array:
            self._fitting[index] = array.placement, array.nd
        return placed

    def _updated_arguments(
        self, arguments: Mapping[int, Sequence[Any]], results: Mapping[int, Sequence[Any]]
    ) -> list[int | None]:
        """For each result the index of the argument that it is, with the same shards and layout; None if new."""
        if not results:
            return [None] * len(self.results)
        first, (by_argument, by_result) = next(iter(results)), self._layout_ids
        indices = {id(shard): index for index, shard in enumerate(arguments[first])}

        def argument_of(result: int) -> int | None:
            index = indices.get(id(results[first][result]))
            if index is None or by_argument[index] != by_result[result]:
                return None
            return index if all(results[p][result] is arguments[p][index] for p in results) else None

        return list(map(argument_of, range(len(self.results))))

    def _result(self, index: int, results: Mapping[int, Sequence[Any]]) -> GlobalArray:
        layout = self.results[index]
        return GlobalArray(layout.placement, layout, layout.select({p: made[index] for p, made in results.items()}))

    @functools.cached_property
    def _fitting(self) -> list[tuple[Placement, NdSbp]]:
        """The placement and layout of each argument, as the objects of the last argument that fitted."""
        return [(at.placement, at.nd) for at in self.arguments]

    @functools.cached_property
    def _layout_ids(self) -> list[list[int]]:
        """An id for each argument and for each result; equal ids mean equal layouts."""
        known: dict[tuple[Placement, NdSbp], int] = {}
        return [
            [known.setdefault((at.placement, at.nd), len(known)) for at in side]
            for side in (self.arguments, self.results)
        ]

    @functools.cached_property
    def _shards_of_programs(self) -> dict[int, list[tuple[int | None, Any]]]:
        """For each program of this process, the shard of each argument, and the value in place of a missing one."""
        return {p: [(at.part.index_of(p), at.nothing) for at in self.arguments] for p in self.programs}
