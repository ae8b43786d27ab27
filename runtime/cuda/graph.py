"""Graphs of the driver: work on a device put together once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.runtime.cuda import driver


@dataclass
class Graph:
    """Work put together once, to be launched again and again at the cost of one call.

    Nodes are added after those they wait for; when all are there, `finish`. What a node works on can be changed
    afterwards, for launches that follow.
    """

    context: Any
    handle: Any = field(default_factory=lambda: driver.call("cuGraphCreate", 0))
    program: Any = None
    recorder: Any = None

    def launch_node(self, launch: Any, after: Sequence[Any]) -> Any:
        """A launch, as `launch_params` gives it."""
        return driver.call("cuGraphAddKernelNode", self.handle, list(after), len(after), launch)

    def copy_node(self, target: int, source: int, size: int, after: Sequence[Any]) -> Any:
        """A copy on the device."""
        made = driver.copy_params(target, source, size)
        return driver.call("cuGraphAddMemcpyNode", self.handle, list(after), len(after), made, self.context)

    def fill_node(self, target: int, pattern: bytes, count: int, pitch: int, after: Sequence[Any]) -> Any:
        """A pattern of 1, 2 or 4 bytes, `pitch` bytes apart."""
        made = _fill_params(target, pattern, count, pitch)
        return driver.call("cuGraphAddMemsetNode", self.handle, list(after), len(after), made, self.context)

    def recorded_node(self, give: Callable[[Any], None], after: Sequence[Any]) -> Any:
        """What `give` gives to a stream, to be done ahead of other nodes that are ready; it cannot be changed."""
        if self.recorder is None:
            self.recorder = driver.make_urgent_stream()
        mode = driver._cuda().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        driver.call("cuStreamBeginCapture", self.recorder, mode)
        try:
            give(self.recorder)
        finally:
            made = driver.call("cuStreamEndCapture", self.recorder)
        node = driver.call("cuGraphAddChildGraphNode", self.handle, list(after), len(after), made)
        driver.call("cuGraphDestroy", made)
        return node

    def finish(self) -> None:
        """Makes it ready to launch."""
        kinds = driver._cuda().CUgraphInstantiate_flags
        is_urgent = self.recorder is not None
        flags = int(kinds.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) if is_urgent else 0
        self.program = driver.call("cuGraphInstantiate", self.handle, flags)

    def change_launch(self, node: Any, launch: Any) -> None:
        """Has a launch take the parameters that are in its memory now."""
        driver.change_launch(self.program, node, launch)

    def change_copy(self, node: Any, target: int, source: int, size: int) -> None:
        """Has a copy work on other memory."""
        made = driver.copy_params(target, source, size)
        driver.call("cuGraphExecMemcpyNodeSetParams", self.program, node, made, self.context)

    def change_fill(self, node: Any, target: int, pattern: bytes, count: int, pitch: int) -> None:
        """Has a fill work on other memory."""
        made = _fill_params(target, pattern, count, pitch)
        driver.call("cuGraphExecMemsetNodeSetParams", self.program, node, made, self.context)

    def launch(self, stream: Any) -> None:
        """Runs it."""
        driver.launch_graph(self.program, stream)

    def __del__(self, driver: Any = driver) -> None:
        try:
            with driver.within(self.context):
                self._destroy(driver.call)
        except (driver.CudaError, TypeError, AttributeError):
            return

    def _destroy(self, call: Any) -> None:
        if self.program is not None:
            call("cuGraphExecDestroy", self.program)
        call("cuGraphDestroy", self.handle)
        if self.recorder is not None:
            call("cuStreamDestroy", self.recorder)


def launch_params(function: driver.Function, programs: int, parameters: int) -> Any:
    """A launch as nodes take it; see `Function.prepare`."""
    made = driver._cuda().CUDA_KERNEL_NODE_PARAMS()
    made.func, made.kernelParams, made.sharedMemBytes = function.handle, parameters, function.shared
    made.gridDimX, made.gridDimY, made.gridDimZ = programs, 1, 1
    made.blockDimX, made.blockDimY, made.blockDimZ = function.threads, 1, 1
    return made


def _fill_params(target: int, pattern: bytes, count: int, pitch: int) -> Any:
    made = driver._cuda().CUDA_MEMSET_NODE_PARAMS()
    dense = pitch == len(pattern)
    made.dst, made.value, made.elementSize = target, int.from_bytes(pattern, "little"), len(pattern)
    made.pitch, made.width, made.height = pitch, *((count, 1) if dense else (1, count))
    return made
