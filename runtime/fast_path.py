"""Calls of compiled programs with arrays that are just what they take: one function of few steps.

A kernel over megabytes leaves little of the interpreter in the near caches, and what a call touches comes from afar:
that takes ten times as long as in a loop over small arrays. Arrays that have to be looked at, copied or updated are
left to `CpuExecutable`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.runtime import native
from oneflow.runtime.protocol import FastPath
from oneflow.runtime.results import Memory, ResultFormat


def fast_path(
    inputs: Sequence[tuple[np.dtype, tuple[int | None, ...]]],
    forms: Sequence[ResultFormat],
    entry: tuple[int, int],
    called: Sequence[int],
    fail: Callable[[Any, int, Any], None],
) -> FastPath | None:
    """The fast path of a program; None where sizes are known at run time alone.

    Args:
        inputs: element types and sizes of its arguments.
        forms: what it gives.
        entry: the address of its code, and the bytes of its workspace.
        called: functions and contexts of kernels made elsewhere.
        fail: raises what went wrong, from the slots, the kind of failure and its numbers.
    """
    if any(None in shape for _, shape in inputs) or any(form.dynamic for form in forms):
        return None
    (address, workspace), count, last = entry, len(inputs), len(inputs) + len(forms)
    wanted = [(slot, dtype, shape, dtype.alignment - 1) for slot, (dtype, shape) in enumerate(inputs)]
    given = [(slot, form.shape, form.dtype) for slot, form in enumerate(forms, count)]
    slots, numbers, element = ctypes.c_int64 * (last + len(called)), ctypes.c_int64 * 3, ctypes.c_char.from_buffer
    run, plain, memory, at = native.library().oneflow_rt_run, np.ndarray, Memory.from_address, ctypes.addressof

    def call(arrays: Sequence[Any]) -> list[np.ndarray] | None:
        if len(arrays) != count:
            return None
        io = slots()
        for slot, dtype, shape, mask in wanted:
            array = arrays[slot]
            if type(array) is not plain or array.dtype is not dtype or array.shape != shape:
                return None
            try:
                io[slot] = place = at(element(array))
            except (TypeError, ValueError, BufferError):
                # Read-only, empty, or not contiguous.
                return None
            if place & mask:
                return None
        if called:
            io[last:] = called
        failure = numbers()
        status = run(address, io, workspace, failure)
        if status:
            fail(io, status, failure)
        return [plain(shape, dtype, memory(io[slot])) for slot, shape, dtype in given]

    return call
