"""Programs on a CUDA device: `compile_cuda(module, entry)` returns an executable that is called with arrays.

The plan of the `triton` stage is recorded once for each set of sizes (`script`). The steps of the recorded script run
on the current stream, from the second run on as CUDA graphs (`steps`).
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.external import Launch
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.targets.instructions import VECTOR_BYTES
from oneflow.lowering.targets.selection import gpu_target, gpu_target_on, using_gpu
from oneflow.lowering.triton.launch.program import Program, read_program
from oneflow.runtime import cache
from oneflow.runtime.arguments import ArgumentError, Parameter, as_array, bind
from oneflow.runtime.collectives.kernel import Collectives
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray, Memory, from_other, is_on_device
from oneflow.runtime.cuda.autotune import tune
from oneflow.runtime.cuda.compile_workers import CompileWorkers
from oneflow.runtime.cuda.direct_execution import DirectExecution
from oneflow.runtime.cuda.host import HostProgram
from oneflow.runtime.cuda.kernel_cache import compile_for_arch, compile_kernel, find_program, warming_up
from oneflow.runtime.cuda.replay_cache import CachedArguments, ReplayCache, cacheable_arguments
from oneflow.runtime.cuda.script import DataDependentPlan, record
from oneflow.runtime.cuda.steps import Kernel, Steps
from oneflow.runtime.cuda.stream import Stream, current
from oneflow.runtime.executable import Options
from oneflow.runtime.external import make_externals
from oneflow.runtime.failures import KernelError, out_of_bounds_error
from oneflow.runtime.footprint import Footprint
from oneflow.runtime.program_source import ProgramSource, signature_of
from oneflow.runtime.spans import overlapping_pairs

#: The alignment in bytes that kernels assume of every pointer.
ALIGNMENT = VECTOR_BYTES
#: The environment variable that turns CUDA graphs off if it is 0.
USE_GRAPHS = "ONEFLOW_CUDA_GRAPHS"


def compile_cuda(
    module: ir.Module, entry: str = "main", options: Options | None = None, registry: Registry = REGISTRY,
    device: int = 0, collectives: Collectives | None = None,
) -> CudaExecutable:  # fmt: skip
    """Compiles function `entry` of a module of operators for a device.

    An argument with the attribute `oneflow.donated` may be overwritten by the result that it names. `collectives`
    makes the kernels of the collectives of a program of one rank.

    Raises:
        CompileError: Triton is missing or refuses a kernel.
        CudaError: the device does not exist.
        PassError: a pass failed.
        ValueError: the module has no such function.
    """
    options, device_handle = options or Options(), driver.device(device)
    inputs, outputs = signature_of(module, entry)
    target = gpu_target_on(device_handle.target)
    source = GpuProgramSource.of(module, entry, registry, gpu=target)

    def make() -> Program:
        with warming_up(workers, source.text.count("\n"), options.cached):
            return read_program(source.lower("triton"))

    key = cache.key_of("cuda", repr(target), source.text, entry, source.fingerprint(module)) if options.cached else ""
    with CompileWorkers(device_handle.arch) as workers:
        program = find_program(key, make) if options.cached else make()
        program = replace(program, sites=source.sites("gpu-linalg", program.sites))
        return CudaExecutable(source, inputs, outputs, program, device_handle, options.cached, collectives, workers)


@dataclass
class GpuProgramSource(ProgramSource):
    """The source of a program, lowered for a GPU."""

    gpu: GpuTarget = field(default_factory=gpu_target)

    def _lower(self, stage: str, text: str) -> ir.Module:
        with using_gpu(self.gpu):
            return super()._lower(stage, text)


class CudaExecutable:
    """A program on a device, called with arrays by position or by name; the results are a list of arrays.

    Host arrays are copied to the device. If every argument is on the host, the results are copied to the host.
    Otherwise the results are `CudaArray`s, and the call returns before they are computed: a failed check is raised
    when a result is read, or by the next call. Several threads may call an executable; their calls run one after the
    other.

    Attributes:
        limits: of launches on the device.
        last_run: the replay cache of the last run, if it has one.
        on_device: the external kernels that take device memory, by index.
        host_kernels: the kernels of the program that run on the host, by name.
        failure_words: host memory in which kernels note failed checks, three words for each check.
    """

    array: ClassVar[type] = CudaArray
    is_remote: ClassVar[bool] = True
    is_size_specialized: ClassVar[bool] = False
    fast_path: ClassVar[None] = None

    def __init__(self, source: ProgramSource, inputs: list[Parameter], outputs: list[TensorDesc], program: Program,
                 device: driver.Device, cached: bool = True,
                 collectives: Collectives | None = None, workers: CompileWorkers | None = None) -> None:  # fmt: skip
        program, binaries = compile_for_arch(program, device.arch, cached, workers)
        self._source, self.inputs, self.outputs, self.program = source, inputs, outputs, program
        self.device, self._cached, self.limits = device, cached, gpu_target_on(device.target).kernels.launches
        device.use()
        self.kernels = {name: Kernel(program.sources[name], binary) for name, binary in binaries.items()}
        self.scratch = {name: binary.scratch for name, binary in binaries.items()}
        self.constants = [CudaArray.of(np.asarray(c), device) for c in program.constants]
        if self.constants:
            current(device).synchronize()
        self._externals = make_externals(
            program.externals, source.registry, source.context, source.call_locations, collectives, device="cuda"
        )
        self.on_device = {i: e.kernel for i, e in enumerate(self._externals) if e.kernel.on_device}
        self._collective_scope = nullcontext if collectives is None else collectives.launch_scope
        self.host_kernels = {h.name: HostProgram(h, program.sites) for h in program.hosts}
        for note in self.notes:
            warnings.warn(note, RuntimeWarning, stacklevel=3)
        self.failure_words = driver.allocate_host_words(3 * len(program.sites)) if program.sites else None
        self.failure_address = 0 if self.failure_words is None else ctypes.addressof(self.failure_words)
        self._graphs = os.environ.get(USE_GRAPHS, "1") != "0"
        self._steps_by_sizes: dict[tuple[tuple[int, ...], ...], Steps | None] = {}
        self._scalars: dict[int, tuple[np.ndarray, bytes, CudaArray]] = {}
        self._signature = [(p.desc.shape, p.desc.dtype) for p in inputs]
        self._is_dynamic = not all(p.desc.is_static for p in inputs)
        self._dynamic = [tuple(i for i, s in enumerate(p.desc.shape or ()) if s is None) for p in inputs]
        self._no_sizes = ((),) * len(inputs)
        self._constant_addresses = [c.address for c in self.constants]
        self.last_run: ReplayCache | None = None
        self._last_cacheable: CachedArguments = {}
        self._lock = threading.Lock()

    def __del__(self, at_exit: Any = driver.AT_EXIT) -> None:
        if getattr(self, "failure_words", None) is not None:
            try:
                with driver.current_context(self.device.context):
                    driver.synchronize_context()
                    driver.free_host_words(self.failure_words)
            except at_exit:
                return

    @property
    def memory(self) -> Footprint:
        """The memory footprint of a run in bytes: arguments, results and workspace."""
        scripts = [s.script for s in self._steps_by_sizes.values() if s is not None]
        inside = {i for s in scripts for i, r in enumerate(s.results) if r.argument is not None}
        return Footprint.of([p.desc for p in self.inputs], self.outputs, inside, self.peak_bytes)

    @property
    def peak_bytes(self) -> int:
        """The peak bytes of workspace of all runs so far, without results."""
        return max(
            [self.program.workspace, *(s.script.workspace for s in self._steps_by_sizes.values() if s is not None)]
        )

    @property
    def notes(self) -> list[str]:
        """For each kernel that runs on the host the reason."""
        return [h.message for h in self.program.hosts]

    def ir(self, stage: str) -> str:
        """The program at a stage; `triton` is the plan and the source of each kernel, with the operations it came
        from.
        """
        located = self._source.located(stage)
        if stage != "triton":
            return str(located)
        with located.context, ir.Location.unknown():
            return self.program.with_origins(read_program(located)).text

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Runs the program.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type, rank, size or device.
            KernelError: a kernel of a user's operator failed.
            OutOfBoundsError: an index in the data is out of bounds.
            SizeError: sizes known only at run time do not match.
            OutOfMemoryError: the device has too little memory.
        """
        arguments = bind(self.inputs, arrays, named)
        host = not any(is_on_device(value) for value in arguments)
        results = self.run(arguments)
        return [r.numpy() for r in results] if host else results

    def run(self, arrays: Sequence[Any]) -> list[CudaArray]:
        """Starts the program on arguments in order and returns the results, which are computed later."""
        stream = current(self.device)
        with self._lock, stream.lock:
            self.device.use()
            self.check()
            results = self._replay(arrays, stream, None)
            if results is None:
                results = self._start(arrays, self._arguments(enumerate(arrays), stream), stream)
            return results

    def replay(self, arrays: Sequence[Any], compared: Any = None) -> list[CudaArray] | None:
        """As `run`, by the replay cache; None if the cache does not hold for these arguments.

        `compared` are arguments that the caller has compared with the arguments of the last run.
        """
        stream = current(self.device)
        with self._lock, stream.lock:
            if self.last_run is None:
                return None
            self.device.use()
            self.check()
            return self._replay(arrays, stream, compared)

    def _replay(self, arrays: Sequence[Any], stream: Stream, compared: Any) -> list[CudaArray] | None:
        cache = self.last_run
        if cache is None:
            return None
        compared = compared if compared is not None and compared.cache is cache else None
        arguments = cache.arguments(arrays, stream, self._arguments, compared)
        if arguments is None:
            self.last_run = None
            return None
        results = self._results(cache.steps, arguments, stream)
        cache.steps.run(cache.addresses(arguments, results), stream.handle)
        return results

    def _arguments(self, indexed: Iterable[tuple[int, Any]], stream: Stream) -> list[CudaArray]:
        """Arguments with their indices as arrays on the device. An array of the expected type on the stream is passed
        as it is.
        """
        arrays = []
        for index, value in indexed:
            shape, dtype = self._signature[index]
            plain = type(value) is CudaArray and value.stream is stream and value.address % ALIGNMENT == 0
            same = plain and value.shape == shape and value.dtype is dtype
            arrays.append(value if same else self._argument(index, value, stream))
        return arrays

    def _argument(self, index: int, value: Any, stream: Stream) -> CudaArray:
        known = self._scalars.get(index)
        if known is not None and known[0] is value and known[2].stream is stream and value.tobytes() == known[1]:
            return known[2]
        parameter = self.inputs[index]
        if not is_on_device(value):
            host = as_array(parameter, value)
            return CudaArray.of(host, self.device) if host.ndim else self._scalar(index, host, stream)
        try:
            array = from_other(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"argument {parameter.name!r}: {error}") from None
        _check(parameter, array, self.device)
        array.use_on(stream)
        # Kernels load 16 bytes at a time.
        return array if array.address % ALIGNMENT == 0 else array.copy()

    def _scalar(self, index: int, array: np.ndarray, stream: Stream) -> CudaArray:
        """A host scalar as an array on the device, which is reused while the value is the same."""
        known, data = self._scalars.get(index), array.tobytes()
        if known is None or known[1] != data or known[2].stream is not stream:
            known = array, data, CudaArray.of(array, self.device)
        self._scalars[index] = array, *known[1:]
        return known[2]

    def _start(self, arrays: Sequence[Any], arguments: list[CudaArray], stream: Stream) -> list[CudaArray]:
        steps = self._steps(arguments)
        if steps is None:
            return DirectExecution(self, arguments, stream).run()
        separate = self._copy_overlapping_donations(arguments, steps) if steps.donated_arguments else arguments
        results = self._results(steps, separate, stream)
        workspace = stream.workspace(steps.script.workspace)
        addresses = [
            0,
            self.failure_address,
            workspace,
            *[a.address for a in separate],
            *[r.address for r in results],
        ]
        addresses += self._constant_addresses
        if self.program.candidates:
            self._tune(steps, addresses, stream)
            return self._start(arrays, separate, stream)
        steps.run(addresses, stream.handle)
        if steps.use_graphs and separate is arguments and not self._is_dynamic:
            self._update_replay_cache(steps, addresses, arrays, arguments, stream)
        return results

    def _update_replay_cache(
        self, steps: Steps, addresses: Sequence[int], arrays: Sequence[Any], arguments: Sequence[CudaArray],
        stream: Stream,
    ) -> None:  # fmt: skip
        """Keeps the replay cache for arguments that were the same objects in the last two runs."""
        last, self._last_cacheable = self._last_cacheable, cacheable_arguments(arrays, arguments, stream)
        cached = {n: same for n, same in self._last_cacheable.items() if last.get(n) is same}
        replays = cached and steps.donated_arguments <= cached.keys()
        self.last_run = ReplayCache(steps, addresses, cached, arrays, stream) if replays else None

    def _results(self, steps: Steps, arguments: Sequence[CudaArray], stream: Stream) -> list[CudaArray]:
        """The result arrays, in their own memory or in the memory of donated arguments."""
        check = None if self.failure_words is None else self.check
        for array in map(arguments.__getitem__, steps.donated_arguments):
            array.check = check
        results: list[Any] = [None if n is None else arguments[n] for n in steps.donated_by_result]
        spares = steps.result_pools_on(stream)
        for index, size, shape in steps.own_results:
            memory = Memory(size, stream, spares[index], is_recyclable=True)
            results[index] = CudaArray(memory, memory.address, shape, self.outputs[index].dtype, stream, check)
        return results

    def _tune(self, steps: Steps, addresses: Sequence[int], stream: Stream) -> None:
        """Chooses the fastest candidate of each kernel, for this and all later runs."""
        bases = [addresses[i] for i in steps.region_order]
        tuned = tune(self.program, steps.script, bases, self.device, stream.handle, self._cached)
        self.program = replace(self.program, sources={**self.program.sources, **tuned}, candidates={})
        for name, source in tuned.items():
            binary = compile_kernel(source, self.device.arch, self._cached)
            self.kernels[name], self.scratch[name] = Kernel(source, binary), binary.scratch
        self._steps_by_sizes.clear()

    def _steps(self, arguments: Sequence[CudaArray]) -> Steps | None:
        """The steps for the sizes of the arguments; None if the plan is data-dependent."""
        sizes = self._sizes(arguments) if self._is_dynamic else self._no_sizes
        if sizes not in self._steps_by_sizes:
            try:
                script = record(self.program, sizes, self.scratch, self.on_device, self.limits)
                for index, result in enumerate(script.results):
                    result.shape = self.result_shape(index, result.shape)
                counts = len(self.inputs), len(self.outputs)
                known = self.kernels, self.device.context, counts, self.call_external
                graphs = self.limits.min_graph_commands, self._graphs
                recorded = {n for n, kernel in self.on_device.items() if kernel.recorded}
                self._steps_by_sizes[sizes] = Steps(script, *known, *graphs, recorded, self._collective_scope)
            except DataDependentPlan:
                self._steps_by_sizes[sizes] = None
        return self._steps_by_sizes[sizes]

    def _sizes(self, arguments: Sequence[CudaArray]) -> tuple[tuple[int, ...], ...]:
        """The dynamic sizes of the arguments."""
        return tuple(tuple(a.shape[i] for i in axes) for a, axes in zip(arguments, self._dynamic, strict=True))

    def result_shape(self, index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a result, given that in the plan, where complex numbers are pairs along a last axis."""
        return shape[:-1] if self.outputs[index].dtype.is_complex else shape

    def _copy_overlapping_donations(self, arguments: list[CudaArray], steps: Steps) -> list[CudaArray]:
        """The arguments; donated ones that overlap kept scalars or other arguments are copied."""
        addresses = [a.address for a in arguments]
        if addresses == steps.disjoint_addresses:
            return arguments
        kept = {a.address for _, _, a in self._scalars.values()}
        clash = {n for n in steps.donated_arguments if addresses[n] in kept}
        pairs = overlapping_pairs([(0, a.address, a.address + a.nbytes) for a in arguments])
        clash |= {
            one if other in steps.donated_arguments else other
            for one, other in pairs
            if {one, other} & steps.donated_arguments
        }
        if clash:
            return [a.copy() if n in clash else a for n, a in enumerate(arguments)]
        steps.disjoint_addresses = addresses
        return arguments

    def call_external(self, index: int, addresses: Sequence[int], stream: Any = None) -> None:
        """Calls an external kernel on the memory of operands and results: host memory, or device memory on a stream.

        Raises:
            KernelError: the kernel fails.
        """
        external = self._externals[index]
        handle = None if stream is None else int(stream)
        memory = (ctypes.c_void_p * len(addresses))(*addresses)
        if Launch(external.kernel.function)(external.kernel.context, memory, handle) != 0:
            raise KernelError(f"{external.call.error(external.kernel.error())}{self._source.call_locations()[index]}")

    def reads(self, index: int) -> bool:
        """Whether the program reads the elements of argument `index`, not its type alone."""
        return self._source.reads[index]

    def check(self) -> None:
        """Raises the first failed check that kernels have noted, and clears all.

        Raises:
            OutOfBoundsError: a check of an index failed.
        """
        if self.failure_words is None or not any(self.failure_words[::3]):
            return
        site = next(i for i, failed in enumerate(self.failure_words[::3]) if failed)
        _, got, wanted = self.failure_words[3 * site : 3 * site + 3]
        ctypes.memset(self.failure_address, 0, ctypes.sizeof(self.failure_words))
        raise out_of_bounds_error(self.program.sites[site], got, wanted)


def _check(parameter: Parameter, array: CudaArray, device: driver.Device) -> None:
    wanted = parameter.desc.shape or ()
    if array.device is not device:
        raise ArgumentError(f"argument {parameter.name!r}: expected an array on {device}, got one on {array.device}")
    if array.dtype != parameter.desc.dtype:
        raise ArgumentError(
            f"argument {parameter.name!r}: expected dtype {parameter.desc.dtype.name}, got {array.dtype.name}"
        )
    fits = len(wanted) == len(array.shape) and all(w in (None, s) for w, s in zip(wanted, array.shape, strict=True))
    if not fits:
        raise ArgumentError(
            f"argument {parameter.name!r}: expected {parameter.desc}, got an array of shape {array.shape}"
        )
