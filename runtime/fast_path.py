"""The fast path: calls of compiled programs with arrays that need no conversion, as one short function.

A kernel over megabytes evicts the interpreter from the near caches, so the cost of a call is the memory that it
touches. Arrays that need a conversion or a copy are left to `CpuExecutable`. `native/calls.cpp` has the fast path as
an extension module of Python, which is optional.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from oneflow.runtime import native
from oneflow.runtime.protocol import FastPath
from oneflow.runtime.results import Memory, ResultFormat

#: The dtype and the shape of an argument or a result, and the index of the argument that a result is, or -1.
Type: TypeAlias = tuple[np.dtype, tuple[int, ...], int]
#: The version of the extension module.
VERSION = 1


@functools.cache
def extension() -> Any:
    """The extension module, in which a call costs a tenth; None where the installation found no headers of Python, or
    found headers of a NumPy that does not fit the NumPy of the process.

    Raises:
        NativeLibraryError: the module is of another version.
    """
    try:
        module = importlib.import_module("oneflow.runtime._calls")
    except ImportError:
        return None
    if module.VERSION != VERSION:
        raise native.NativeLibraryError(
            f"expected version {VERSION} of {module.__file__}, got {module.VERSION}; install oneflow-mlir again"
        )
    return module


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
        donated: the results that are arguments updated in place, with the indices of these arguments.
        fail: raises the exception of a failed run, given the slots, the status and the failure words.
    """
    if any(None in shape for _, shape in inputs) or any(form.dynamic for form in formats):
        return None
    types = [(dtype, tuple(n for n in shape if n is not None), -1) for dtype, shape in inputs]
    results = [
        (form.dtype, tuple(n for n in form.shape if n is not None), donated.get(index, -1))
        for index, form in enumerate(formats)
    ]
    module = extension()
    if module is None:
        return python_call(types, results, entry, called, fail)
    library = native.library()
    functions = (_address(library.oneflow_rt_run), _address(library.oneflow_rt_free))
    program: FastPath = module.program(
        tuple(types), tuple(results), tuple(called), (entry[0], *functions, entry[1]), fail
    )
    return program


def _address(function: Any) -> int:
    """The address of a function of the native library."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def python_call(
    inputs: Sequence[Type],
    results: Sequence[Type],
    entry: tuple[int, int],
    called: Sequence[int],
    fail: Callable[[Any, int, Any], None],
) -> FastPath:
    """The fast path without the extension module."""
    (address, workspace), count, last = entry, len(inputs), len(inputs) + len(results)
    expected = [(slot, dtype, shape, dtype.alignment - 1) for slot, (dtype, shape, _) in enumerate(inputs)]
    result_slots = [(slot, *result) for slot, result in enumerate(results, count)]
    slots, failure_words = ctypes.c_int64 * (last + len(called)), ctypes.c_int64 * 3
    element: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
    run, plain = native.library().oneflow_rt_run, np.ndarray
    memory, address_of = Memory.from_address, ctypes.addressof

    def call(arrays: Sequence[Any], compared: Any = None) -> list[np.ndarray] | None:
        arrays = tuple(arrays)  # keeps the arrays, while another thread may change a list
        if len(arrays) != count:
            return None
        io = slots()
        for slot, dtype, shape, mask in expected:
            array = arrays[slot]
            if type(array) is not plain or array.dtype is not dtype or array.shape != shape:
                return None
            try:
                io[slot] = pointer = address_of(element(array))
            except (TypeError, ValueError, BufferError):
                # Read-only, empty, or not contiguous.
                return None
            if pointer & mask:
                return None
        if called:
            io[last:] = [*called]
        failure = failure_words()
        status = run(address, io, workspace, failure)
        if status:
            fail(io, status, failure)
        return [
            plain(shape, dtype, memory(io[slot])) if argument < 0 else arrays[argument]
            for slot, dtype, shape, argument in result_slots
        ]

    return call
