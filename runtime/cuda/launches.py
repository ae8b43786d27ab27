"""Launches of kernels in a row, prepared once, which the native library gives to the driver one after the other.

    row = Launches([(function, programs, parameters.address), ..])
    row.launch(stream)

A loop in Python would take 0.3 us more for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

from oneflow.runtime import native
from oneflow.runtime.cuda import driver


class LaunchConfig(ctypes.Structure):
    """The driver's structure of a launch."""

    _fields_: ClassVar = [
        ("blocks", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class Launches:
    """Launches of functions, each in so many blocks, with the arguments that pointers at an address lead to.

    Arguments are read when they are given to a stream.
    """

    def __init__(self, launches: Sequence[tuple[driver.Function, int, int]]) -> None:
        self._functions, count = [function for function, *_ in launches], len(launches)
        made = [LaunchConfig((n, 1, 1), (f.threads, 1, 1), f.shared, None, None, 0) for f, n, _ in launches]
        self._configs = (LaunchConfig * count)(*made)
        pairs = zip(map(ctypes.addressof, self._configs), launches, strict=True)
        pointers = [p for config, (f, _, parameters) in pairs for p in (config, int(f.handle), parameters)]
        self._pointers, self._status = (ctypes.c_void_p * len(pointers))(*pointers), ctypes.c_int32()
        self._given = self._pointers, count, ctypes.byref(self._status)
        self._stream: Any = None

    def launch(self, stream: Any) -> None:
        """Gives them to a stream.

        Raises:
            CudaError: the driver refuses one; those before it were given.
        """
        if stream is not self._stream:
            self._turn_to(stream)
        done = native.library().oneflow_rt_launch_all(driver.launcher(), *self._given)
        if done < len(self._functions):
            raise driver.refusal(f"cuLaunchKernelEx of {self._functions[done].name}", self._status.value)

    def _turn_to(self, stream: Any) -> None:
        handle = int(stream)
        for config in self._configs:
            config.stream = handle
        self._stream = stream
