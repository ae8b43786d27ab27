"""CUDA graphs, built node by node from the commands of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.runtime.cuda import driver


@dataclass
class CudaGraph:
    """A CUDA graph. A launch of the whole graph costs one call of the driver.

    A node is added after the nodes that it depends on. `instantiate` follows the last node. Afterwards the `update_`
    methods change the parameters of nodes for later launches.
    """

    context: Any
    handle: Any = field(default_factory=lambda: driver.call("cuGraphCreate", 0))
    executable: Any = None
    capture_stream: Any = None

    def launch_node(self, launch: Any, after: Sequence[Any]) -> Any:
        """Adds a kernel launch; `launch` comes from `kernel_node_params`."""
        return driver.call("cuGraphAddKernelNode", self.handle, list(after), len(after), launch)

    def copy_node(self, target: int, source: int, size: int, after: Sequence[Any]) -> Any:
        """Adds a copy of `size` bytes on the device."""
        params = driver.memcpy_params(target, source, size)
        return driver.call("cuGraphAddMemcpyNode", self.handle, list(after), len(after), params, self.context)

    def fill_node(self, target: int, pattern: bytes, count: int, pitch: int, after: Sequence[Any]) -> Any:
        """Adds a fill: `count` times a pattern of 1, 2 or 4 bytes, `pitch` bytes apart."""
        params = _fill_params(target, pattern, count, pitch)
        return driver.call("cuGraphAddMemsetNode", self.handle, list(after), len(after), params, self.context)

    def captured_node(self, enqueue: Callable[[Any], None], after: Sequence[Any]) -> Any:
        """Adds work that `enqueue` enqueues on a stream, captured as a child graph of high priority.

        The node cannot be updated.
        """
        if self.capture_stream is None:
            self.capture_stream = driver.make_high_priority_stream()
        mode = driver._cuda().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        driver.call("cuStreamBeginCapture", self.capture_stream, mode)
        try:
            enqueue(self.capture_stream)
        finally:
            params = driver.call("cuStreamEndCapture", self.capture_stream)
        node = driver.call("cuGraphAddChildGraphNode", self.handle, list(after), len(after), params)
        driver.call("cuGraphDestroy", params)
        return node

    def instantiate(self) -> None:
        """Makes the graph executable."""
        flag_names = driver._cuda().CUgraphInstantiate_flags
        is_urgent = self.capture_stream is not None
        flags = int(flag_names.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) if is_urgent else 0
        self.executable = driver.call("cuGraphInstantiate", self.handle, flags)

    def update_launch(self, node: Any, launch: Any) -> None:
        """Updates a launch node to the parameters that are in its memory now."""
        driver.update_launch(self.executable, node, launch)

    def update_copy(self, node: Any, target: int, source: int, size: int) -> None:
        """Updates the memory of a copy node."""
        params = driver.memcpy_params(target, source, size)
        driver.call("cuGraphExecMemcpyNodeSetParams", self.executable, node, params, self.context)

    def update_fill(self, node: Any, target: int, pattern: bytes, count: int, pitch: int) -> None:
        """Updates the memory of a fill node."""
        params = _fill_params(target, pattern, count, pitch)
        driver.call("cuGraphExecMemsetNodeSetParams", self.executable, node, params, self.context)

    def launch(self, stream: Any) -> None:
        """Launches the graph on a stream."""
        driver.launch_graph(self.executable, stream)

    def __del__(self, driver: Any = driver, at_exit: Any = driver.AT_EXIT) -> None:
        try:
            with driver.current_context(self.context):
                self._destroy(driver.call)
        except at_exit:
            return

    def _destroy(self, call: Any) -> None:
        if self.executable is not None:
            call("cuGraphExecDestroy", self.executable)
        call("cuGraphDestroy", self.handle)
        if self.capture_stream is not None:
            call("cuStreamDestroy", self.capture_stream)


def kernel_node_params(function: driver.Function, programs: int, parameters: int) -> Any:
    """The node parameters of a launch; `parameters` is the address of the array of pointers to arguments."""
    params = driver._cuda().CUDA_KERNEL_NODE_PARAMS()
    params.func, params.kernelParams, params.sharedMemBytes = function.handle, parameters, function.shared
    params.gridDimX, params.gridDimY, params.gridDimZ = programs, 1, 1
    params.blockDimX, params.blockDimY, params.blockDimZ = function.threads, 1, 1
    return params


def _fill_params(target: int, pattern: bytes, count: int, pitch: int) -> Any:
    params = driver._cuda().CUDA_MEMSET_NODE_PARAMS()
    dense = pitch == len(pattern)
    params.dst, params.value, params.elementSize = target, int.from_bytes(pattern, "little"), len(pattern)
    params.pitch, params.width, params.height = pitch, *((count, 1) if dense else (1, count))
    return params
