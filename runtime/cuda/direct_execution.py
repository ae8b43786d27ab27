"""Direct execution of data-dependent plans: a plan that reads from the device runs each command at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray, Memory
from oneflow.runtime.cuda.script import Command, Recorder, Result, memory_dtype
from oneflow.runtime.cuda.steps import make_step
from oneflow.runtime.cuda.stream import Stream


class DirectExecution(Recorder):
    """The `run` argument of a plan that enqueues each command on a stream; addresses are addresses of the device."""

    def __init__(self, executable: Any, arguments: Sequence[CudaArray], stream: Stream) -> None:
        super().__init__(executable.program, executable.scratch, executable.on_device, executable.limits)
        self.executable, self.arguments, self.stream = executable, arguments, stream
        self.temporaries: dict[int, Memory] = {}
        self.result_arrays: dict[int, CudaArray] = {}

    def run(self) -> list[CudaArray]:
        """Runs the plan and returns the results."""
        values = []
        for array, dynamic in zip(self.arguments, self.executable._dynamic, strict=True):
            values += [array.address, *(array.shape[axis] for axis in dynamic)]
        self.program.function()(self, *values)
        for index, array in self.result_arrays.items():
            array.shape = self.executable.result_shape(index, self.results[index].shape)
        return [self.result_arrays[i] for i in range(len(self.executable.outputs))]

    def region_address(self, kind: str, index: int = 0) -> int:
        """The address of a region."""
        if kind == "workspace":
            return self.stream.workspace(self.program.workspace)
        return int(self.executable.failure_address if kind == "failure" else self.executable.constants[index].address)

    def temporary(self, size: int) -> int:
        """Memory until `release`, or until the plan has run."""
        memory = Memory(size, self.stream)
        self.temporaries[memory.address] = memory
        return memory.address

    def release(self, address: int) -> None:
        """Frees a temporary."""
        del self.temporaries[address]

    def result(self, index: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result."""
        self.results[index] = Result(size, shape)
        memory = Memory(size, self.stream)
        kind, check = self.executable.outputs[index].dtype, self.executable.check
        self.result_arrays[index] = CudaArray(memory, memory.address, shape, kind, self.stream, check)
        return memory.address

    def donated(self, index: int, argument: int, size: int, shape: tuple[int, ...]) -> int:
        """Memory of a result. Donation is not used here: the result gets its own memory."""
        return self.result(index, size, shape)

    def read(self, address: int, offset: int, element: str) -> Any:
        """An element, copied to the host; waits for the stream."""
        copied = np.empty(1, memory_dtype(element))
        driver.copy_to_host(
            copied.ctypes.data,
            address + offset * copied.itemsize,
            copied.itemsize,
            self.stream.handle,
        )
        driver.synchronize(self.stream.handle)
        self.executable.check()
        return copied[0].item()

    def host(self, index: int, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> None:
        """Runs an external kernel. If the kernel runs on the host, operands are copied to the host and results back.

        Raises:
            KernelError: the kernel fails.
        """
        if index in self.on_device:
            super().host(index, inputs, results)
            return
        arrays = self._fetch(inputs, results)
        self.executable.call_external(index, [a.ctypes.data for a in arrays])
        self._store(arrays[len(inputs) :], results)

    def on_host(self, name: str, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """A host kernel of the program, on host copies of its operands, which are (address, shape) or numbers.

        Raises:
            OutOfBoundsError: an index in the data is out of bounds.
        """
        kernel = self.executable.host_kernels[name]
        tensors = [value for value in inputs if isinstance(value, tuple)]
        sizes = kernel.sizes(inputs, results)
        regions = [(address, size) for (address, _), size in zip((*tensors, *results), sizes, strict=True)]
        arrays = self._fetch(regions[: len(tensors)], regions[len(tensors) :])
        copies = iter([a.ctypes.data for a in arrays])
        value = [(next(copies), x[1]) if isinstance(x, tuple) else x for x in (*inputs, *results)]
        kernel.run(value[: len(inputs)], value[len(inputs) :])
        self._store(arrays[len(tensors) :], regions[len(tensors) :])

    def _fetch(self, inputs: Sequence[tuple[int, int]], results: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """Host copies of the inputs (address, bytes), and uninitialized buffers for the results."""
        arrays = [np.empty(max(size, 1), np.uint8) for _, size in (*inputs, *results)]
        for array, (address, size) in zip(arrays, inputs, strict=False):
            driver.copy_to_host(array.ctypes.data, address, size, self.stream.handle)
        driver.synchronize(self.stream.handle)
        self.executable.check()
        return arrays

    def _store(self, arrays: Sequence[np.ndarray], results: Sequence[tuple[int, int]]) -> None:
        for array, (address, size) in zip(arrays, results, strict=True):
            driver.copy_to_device(address, array.ctypes.data, size, self.stream.handle)

    def add(self, command: Command) -> None:
        """Enqueues a command on the stream."""
        step = make_step(command, self.executable.kernels, self.executable.call_external)
        step.resolve([0])
        step.launch(self.stream.handle)

    def _scratch(self, size: int) -> int:
        """Scratch memory. Freeing is ordered on the stream, so the memory outlives the launch."""
        return self.temporary(size)
