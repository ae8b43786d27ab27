"""Batches of kernel launches, prepared once; the native library makes all launches of a batch in one call.

    batch = LaunchBatch([(function, programs, parameters.address), ..])
    batch.launch(stream)

A loop in Python would add the cost of a foreign call to each launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

from oneflow.runtime import native
from oneflow.runtime.cuda import driver


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig` of the driver."""

    _fields_: ClassVar = [
        ("blocks", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class LaunchBatch:
    """Launches as (function, number of blocks, address of the array of pointers to arguments).

    The arguments are read when the batch is launched.
    """

    def __init__(self, launches: Sequence[tuple[driver.Function, int, int]]) -> None:
        self._functions, count = [function for function, *_ in launches], len(launches)
        configs = [LaunchConfig((n, 1, 1), (f.threads, 1, 1), f.shared, None, None, 0) for f, n, _ in launches]
        self._configs = (LaunchConfig * count)(*configs)
        pairs = zip(map(ctypes.addressof, self._configs), launches, strict=True)
        pointers = [p for config, (f, _, parameters) in pairs for p in (config, int(f.handle), parameters)]
        self._pointers, self._status = (ctypes.c_void_p * len(pointers))(*pointers), ctypes.c_int32()
        self._arguments = self._pointers, count, ctypes.byref(self._status)
        self._launch_all = native.library().oneflow_rt_launch_all
        self._stream: Any = None

    def launch(self, stream: Any) -> None:
        """Launches all kernels on a stream.

        Raises:
            CudaError: the driver refuses a launch; the launches before it have been made.
        """
        if stream is not self._stream:
            self._set_stream(stream)
        launched = self._launch_all(driver.launcher(), *self._arguments)
        if launched < len(self._functions):
            raise driver.error_of_status(f"cuLaunchKernelEx of {self._functions[launched].name}", self._status.value)

    def _set_stream(self, stream: Any) -> None:
        handle = int(stream)
        for config in self._configs:
            config.stream = handle
        self._stream = stream
