"""The CUDA graphs of `host_cuda`: nodes run in an order that differs from the order of insertion, as far as edges
allow.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

SUCCESS: tuple[Any, ...] = (0,)


class HostGraphs:
    """The functions of graphs of a driver that has `_arguments`, `_run`, `_move` and `_set`.

    `log` are the names of functions called.
    """

    #: Handles are unique in the process: objects of an earlier driver may be freed later.
    numbers = itertools.count(100)

    def __init__(self) -> None:
        self.graphs: dict[int, list[Any]] = {}
        self.log: list[str] = []

    def _arguments(self, function: int, parameters: int) -> list[Any]:
        raise NotImplementedError

    def _run(self, function: int, programs: int, arguments: Sequence[Any]) -> None:
        raise NotImplementedError

    def _move(self, target: int, source: int, size: int, *device_addresses: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def _set(self, target: int, value: int, size: int, count: int, pitch: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def cuGraphCreate(self, flags: int) -> tuple[int, int]:  # noqa: N802
        number = next(self.numbers)
        self.graphs[number] = []
        return 0, number

    def _add(self, graph: int, after: Sequence[int], count: int, params: Any) -> tuple[int, int]:
        assert len(after) == count
        self.graphs[graph].append([list(after), self._copied_params(params)])
        return 0, len(self.graphs[graph]) - 1

    def cuGraphAddKernelNode(self, graph: int, after: Any, count: int, params: Any) -> Any:  # noqa: N802
        return self._add(graph, after, count, params)

    def cuGraphAddMemcpyNode(self, graph: int, after: Any, count: int, params: Any, _: Any) -> Any:  # noqa: N802
        return self._add(graph, after, count, params)

    def cuGraphAddMemsetNode(self, graph: int, after: Any, count: int, params: Any, _: Any) -> Any:  # noqa: N802
        return self._add(graph, after, count, params)

    def cuGraphAddChildGraphNode(self, graph: int, after: Any, count: int, child: int) -> Any:  # noqa: N802
        ((_, recorded),) = self.graphs[child]
        return self._add(graph, after, count, recorded)

    def _copied_params(self, params: Any) -> Any:
        """A copy of the parameters of a node, as the driver makes one."""
        copied = copy.copy(params)
        if hasattr(params, "kernelParams"):
            copied.values = self._arguments(params.func, params.kernelParams)
        return copied

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[int, int]:  # noqa: N802
        number = next(self.numbers)
        self.graphs[number] = [list(node) for node in self.graphs[graph]]
        return 0, number

    def _change(self, program: int, node: int, params: Any, *_: Any) -> tuple[Any, ...]:
        self.log.append("change")
        self.graphs[program][node][1] = self._copied_params(params)
        return SUCCESS

    cuGraphExecKernelNodeSetParams = cuGraphExecMemcpyNodeSetParams = cuGraphExecMemsetNodeSetParams = _change  # noqa: N815

    def cuGraphLaunch(self, program: int, handle: int) -> tuple[Any, ...]:  # noqa: N802
        self.log.append("graph")
        waiting = dict(enumerate(self.graphs[program]))
        while waiting:
            ready = max(n for n, (after, _) in waiting.items() if not set(after) & waiting.keys())
            self._do(waiting.pop(ready)[1])
        return SUCCESS

    def _do(self, params: Any) -> None:
        if isinstance(params, list):
            for act in params:
                assert act() == SUCCESS
        elif hasattr(params, "kernelParams"):
            self._run(params.func, params.gridDimX, params.values)
        elif hasattr(params, "WidthInBytes"):
            moved = params.dstDevice, params.srcDevice, params.WidthInBytes, params.dstDevice
            assert self._move(*moved) == SUCCESS
        else:
            count = params.width * params.height
            assert self._set(params.dst, params.value, params.elementSize, count, params.pitch) == SUCCESS
