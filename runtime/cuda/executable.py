"""Programs on a CUDA device: `compile_cuda(module, entry)` gives an executable to call with arrays.

The plan of the `triton` stage runs as it is: its `run` is the `_Run` of one call. Kernels are compiled side by side
before the first call. Imports `driver`, `dump`, `array` and the runtime's arguments.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.dtypes import BY_MLIR
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.lowering.triton.program import Program, read_program
from oneflow.lowering.triton.source import Source
from oneflow.runtime.arguments import ArgumentError, Parameter, as_array, bind
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import DeviceArray, on_device
from oneflow.runtime.cuda.compiler import Binary
from oneflow.runtime.cuda.dump import compile_all
from oneflow.runtime.executable import PositionError, SizeError, program_source, signature_of

#: Triton passes two more pointers than a kernel declares: scratch memory, which these kernels do not use.
SCRATCH = 2
#: What kernels are told of every pointer.
ALIGNMENT = 16


def compile_cuda(
    module: ir.Module, entry: str = "main", registry: Registry = REGISTRY, device: int = 0
) -> CudaExecutable:
    """Compiles function `entry` of a module of operators for a device.

    Raises:
        CompileError: Triton is missing or refuses a kernel.
        CudaError: there is no such device.
        PassError: a pass could not do its work.
        ValueError: the module has no such function.
    """
    inputs, outputs = signature_of(module, entry)
    source = program_source(module, entry, registry)
    return CudaExecutable(source, inputs, outputs, read_program(source.lower("triton")), device)


class _Kernel:
    """A kernel on the device with memory for its arguments."""

    def __init__(self, source: Source, binary: Binary) -> None:
        self.source = source
        self.function = driver.load(binary.cubin, binary.name, binary.warps, binary.shared)
        self.names = [n for n, _ in source.parameters]
        self.floats = {i: {"fp32": "<fxxxx", "fp64": "<d"}[k] for i, (_, k) in enumerate(source.parameters)
                       if k in ("fp32", "fp64")}  # fmt: skip
        self.programs = int(source.grid) if source.grid.isdigit() else None
        self.parameters = driver.Parameters(len(self.names) + SCRATCH)

    def launch(self, arguments: Sequence[int], stream: Any) -> None:
        """Launches the kernel; the driver reads the arguments before it returns."""
        programs = self.programs
        if programs is None:
            programs = self.source.programs(dict(zip(self.names, arguments, strict=True)))
        slots = self.parameters.slots
        for number, value in enumerate(arguments):
            packed = self.floats.get(number)
            slots[number] = value if packed is None else struct.unpack("<q", struct.pack(packed, value))[0]
        if programs:
            self.function.launch(programs, self.parameters.address, stream)


class CudaExecutable:
    """A program on a device. Call it with arrays, by position or by name; results are a list of arrays.

    Arrays on the host are copied in, and results out if every argument was on the host; otherwise results are
    `DeviceArray`s. One call runs at a time.
    """

    def __init__(self, source: Any, inputs: list[Parameter], outputs: list[TensorDesc], program: Program,
                 device: int) -> None:  # fmt: skip
        self._source, self.inputs, self.outputs, self.program = source, inputs, outputs, program
        self.device = driver.device(device)
        self.stream = driver.make_stream()
        binaries = compile_all(program, self.device.arch)
        self.kernels = {name: _Kernel(program.sources[name], binary) for name, binary in binaries.items()}
        self.workspace = driver.allocate(program.workspace, self.stream)
        self.constants = [self.upload(c) for c in program.constants]
        self.failures = driver.allocate(24 * max(len(program.sites), 1), self.stream)
        self._plan, self._lock = program.function(), threading.Lock()

    @property
    def peak_bytes(self) -> int:
        """The bytes of the workspace; results and buffers of unknown size come on top."""
        return self.program.workspace

    def ir(self, stage: str) -> str:
        """The program at a stage; `triton` is the plan and the source of each kernel."""
        return self.program.text if stage == "triton" else str(self._source.lower(stage))

    def upload(self, array: np.ndarray) -> int:
        """A copy of an array on the device."""
        address = driver.allocate(array.nbytes, self.stream)
        if array.size:
            driver.copy_in(address, array.ctypes.data, array.nbytes, self.stream)
        return address

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Runs the program.

        Raises:
            ArgumentError: an argument is missing, unknown, or of another type, rank or size.
            PositionError: a position in the data is out of range.
            SizeError: sizes known only now do not fit.
        """
        given = bind(self.inputs, arrays, named)
        with self._lock:
            self.device.use()
            run = _Run(self)
            try:
                arguments = [x for p, value in zip(self.inputs, given, strict=True) for x in run.argument(p, value)]
                self._plan(run, *arguments)
                run.check()
            finally:
                run.finish()
        return [r.numpy() if run.host else r for r in run.taken()]


class _Run:
    """The plan's side of one call."""

    def __init__(self, executable: CudaExecutable) -> None:
        self.executable, self.stream = executable, executable.stream
        self.workspace, self.failure = executable.workspace, executable.failures
        self.sites = executable.program.sites
        self.kept: list[int] = []
        self.alive: list[np.ndarray] = []
        self.results: dict[int, DeviceArray] = {}
        self.host = True
        if self.sites:
            driver.fill(self.failure, b"\0", 24 * len(self.sites), self.stream)

    def argument(self, parameter: Parameter, value: Any) -> list[int]:
        """The address of an argument and the sizes that the plan asks for."""
        address = on_device(value)
        if address is None:
            array = as_array(parameter, value)
            self.alive.append(array)
            address, shape = self.executable.upload(array), array.shape
            self.kept.append(address)
        else:
            if self.host:
                driver.wait()
            self.host, shape = False, tuple(value.__cuda_array_interface__["shape"])
            _check_shape(parameter, shape)
            address = self._aligned(address, math.prod(shape) * parameter.desc.dtype.numpy.itemsize)
        wanted = parameter.desc.shape or ()
        return [address, *(s for s, w in zip(shape, wanted, strict=True) if w is None)]

    def _aligned(self, address: int, size: int) -> int:
        """The address, or that of a copy where kernels, which read 16 bytes at a time, could not read from it."""
        if address % ALIGNMENT == 0:
            return address
        made = self.temporary(size)
        self.copy(made, address, size)
        return made

    def temporary(self, size: int) -> int:
        """Memory until `release`."""
        address = driver.allocate(size, self.stream)
        self.kept.append(address)
        return address

    def release(self, address: int) -> None:
        """Gives a temporary back."""
        self.kept.remove(address)
        driver.free(address, self.stream)

    def result(self, number: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result."""
        kind = self.executable.outputs[number].dtype
        self.results[number] = DeviceArray(driver.allocate(size, self.stream), shape, kind, self.stream)
        return self.results[number].address

    def shape(self, number: int, shape: tuple[int, ...]) -> None:
        """The sizes of a result, seen as it is returned."""
        self.results[number].shape = shape

    def constant(self, number: int) -> int:
        """Where a constant lies."""
        return self.executable.constants[number]

    def copy(self, target: int, source: int, size: int) -> None:
        """Memory to memory."""
        if size:
            driver.copy(target, source, size, self.stream)

    def fill(self, address: int, count: int, value: float, element: str) -> None:
        """`count` elements of one value."""
        kind = np.dtype(np.int8) if element == "i8" else BY_MLIR[element].numpy
        driver.fill(address, np.array(value).astype(kind).tobytes(), count, self.stream)

    def read(self, address: int, offset: int, element: str) -> Any:
        """An element on the host, which waits for it."""
        made = np.empty(1, np.int8 if element == "i8" else BY_MLIR[element].numpy)
        driver.copy_out(made.ctypes.data, address + offset * made.itemsize, made.itemsize, self.stream)
        driver.synchronize(self.stream)
        return made[0].item()

    def launch(self, name: str, *arguments: int) -> None:
        """Launches a kernel."""
        if name in self.executable.kernels:
            self.executable.kernels[name].launch(arguments, self.stream)

    def check_size(self, got: int, wanted: int, site: int) -> None:
        """Sizes that have to be equal."""
        if got != wanted:
            raise SizeError(f"{self.sites[site]}: expected {wanted}, got {got}")

    def check_index(self, got: int, wanted: int, site: int) -> int:
        """A position that has to lie in a tensor."""
        if not 0 <= got < wanted:
            raise PositionError(f"{self.sites[site]}: expected a position in [0, {wanted}), got {got}")
        return got

    def check(self) -> None:
        """Raises the first failure that kernels recorded."""
        if not self.sites:
            return
        found = np.zeros(3 * len(self.sites), np.int64)
        driver.copy_out(found.ctypes.data, self.failure, found.nbytes, self.stream)
        driver.synchronize(self.stream)
        for site, (failed, got, wanted) in enumerate(found.reshape(-1, 3).tolist()):
            if failed:
                self.check_index(got, wanted, site)

    def finish(self) -> None:
        """Frees what the call allocated but its results."""
        for address in self.kept:
            driver.free(address, self.stream)
        if self.alive:
            driver.synchronize(self.stream)

    def taken(self) -> list[DeviceArray]:
        """The results in order."""
        return [self.results[i] for i in range(len(self.executable.outputs))]


def _check_shape(parameter: Parameter, shape: tuple[int, ...]) -> None:
    wanted = parameter.desc.shape or ()
    fits = len(wanted) == len(shape) and all(w in (None, s) for w, s in zip(wanted, shape, strict=True))
    if not fits:
        raise ArgumentError(f"argument {parameter.name!r}: expected {parameter.desc}, got an array of shape {shape}")
