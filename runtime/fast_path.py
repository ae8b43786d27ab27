"""The fast path: calls of compiled programs with arrays that need no conversion, as one short function.

A kernel over megabytes evicts the interpreter from the near caches, so the cost of a call is the memory that it
touches. Arrays that need a conversion or a copy are left to `CpuExecutable`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oneflow.runtime import native
from oneflow.runtime.protocol import FastPath
from oneflow.runtime.results import Memory, ResultFormat


def fast_path(
    inputs: Sequence[tuple[np.dtype, tuple[int | None, ...]]],
    formats: Sequence[ResultFormat],
    entry: tuple[int, int],
    called: Sequence[int],
    donated: Mapping[int, int],
    fail: Callable[[Any, int, Any], None],
) -> FastPath | None:
    """The fast path of a program; None for a program with dynamic sizes.

    Args:
        inputs: the dtypes and shapes of the arguments.
        formats: the formats of the results.
        entry: the address of the code, and the bytes of the workspace.
        called: the functions and contexts of external kernels.
        donated: the results that are arguments updated in place, with the numbers of these arguments.
        fail: raises the exception of a failed run, given the slots, the status and the failure words.
    """
    if any(None in shape for _, shape in inputs) or any(form.dynamic for form in formats):
        return None
    (address, workspace), count, last = entry, len(inputs), len(inputs) + len(formats)
    expected = [(slot, dtype, shape, dtype.alignment - 1) for slot, (dtype, shape) in enumerate(inputs)]
    result_slots = [
        (slot, tuple(n for n in form.shape if n is not None), form.dtype, donated.get(slot - count))
        for slot, form in enumerate(formats, count)
    ]
    slots, numbers = ctypes.c_int64 * (last + len(called)), ctypes.c_int64 * 3
    element: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
    run, plain = native.library().oneflow_rt_run, np.ndarray
    memory, address_of = Memory.from_address, ctypes.addressof

    def call(arrays: Sequence[Any], compared: Any = None) -> list[np.ndarray] | None:
        if len(arrays) != count:
            return None
        io = slots()
        for slot, dtype, shape, mask in expected:
            array = arrays[slot]
            if type(array) is not plain or array.dtype is not dtype or array.shape != shape:
                return None
            try:
                io[slot] = place = address_of(element(array))
            except (TypeError, ValueError, BufferError):
                # Read-only, empty, or not contiguous.
                return None
            if place & mask:
                return None
        if called:
            io[last:] = [*called]
        failure = numbers()
        status = run(address, io, workspace, failure)
        if status:
            fail(io, status, failure)
        return [
            plain(shape, dtype, memory(io[slot])) if argument is None else arrays[argument]
            for slot, shape, dtype, argument in result_slots
        ]

    return call
