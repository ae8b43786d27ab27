"""External kernels, which compiled programs call: the `kernel` slot of a record."""

from __future__ import annotations

import ctypes
import math
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect.numpy_builder import describe_array
from oneflow.dialect.record import Call, distribute, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc

#: The C function of a kernel: (context, memory of all operands and results in order, stream) -> 0, or 1 on failure.
Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


@dataclass(frozen=True)
class ExternalKernel:
    """A kernel made for one call whose operands and results are static.

    `function` is the address of a `Launch` function, `context` its first argument; `error()` is the text of the
    thread's last failure. `owner` keeps the context alive. A kernel `on_device` accepts memory of a device and
    enqueues its work on the stream; after the results it receives `workspace` bytes of scratch memory. A kernel that
    may be `recorded` does nothing else than giving work to the stream, so that the work may be repeated without the
    kernel.
    """

    function: int
    context: int
    error: Callable[[], str]
    owner: object
    on_device: bool = False
    workspace: int = 0
    recorded: bool = False


class _Failure(threading.local):
    """The exception of a kernel in Python in this thread."""

    text = ""


_failure = _Failure()


def python_kernel(
    run: Callable[[Any, Any], None], on_device: bool = False, workspace: int = 0, recorded: bool = False
) -> ExternalKernel:
    """A kernel that is a function of Python: of the memory of all operands and results in order, and the stream."""

    def called(context: int, buffers: Any, stream: Any) -> int:
        try:
            run(buffers, stream)
        except BaseException as error:  # none may leave a C function
            _failure.text = "".join(traceback.format_exception_only(error)).strip()
            return 1
        return 0

    launch = Launch(called)
    address = ctypes.cast(launch, ctypes.c_void_p).value
    assert address is not None
    return ExternalKernel(address, 0, lambda: _failure.text, launch, on_device, workspace, recorded)


def as_array(address: int | None, desc: TensorDesc) -> np.ndarray:
    """The memory of a static tensor as an array."""
    dtype, shape = desc.dtype.numpy, tuple(d or 0 for d in desc.shape or ())
    count = math.prod(shape) * dtype.itemsize
    if not count or not address:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * count).from_address(address)
    array: np.ndarray = np.frombuffer(memory, dtype).reshape(shape)
    return array


def map_operands(inputs: Mapping[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Operands by name with `convert` applied to every tensor, with groups and missing operands."""
    return {
        k: tuple(map(convert, x)) if isinstance(x, tuple) else None if x is None else convert(x)
        for k, x in inputs.items()
    }


def run_kernel(op: Call) -> tuple[np.ndarray, ...]:
    """The results of a call whose operands are NumPy arrays, by the operator's kernel.

    Raises:
        OperatorError: the operator does not allow the call, no kernel matches it, or the kernel fails.
    """
    record = op.record
    assert record.kernel is not None, record.name
    inputs = map_operands(op.inputs, lambda x: np.asarray(x, order="C"))
    call = Call(record, map_operands(inputs, describe_array), op.attrs)
    descs = infer(record, call)
    call.outputs = distribute(record.signature.outputs, descs, None)
    results = tuple(np.empty([d or 0 for d in desc.shape or ()], desc.dtype.numpy) for desc in descs)
    launch(record.kernel(call), [*flatten(inputs.values()), *results], call)
    return results


def launch(kernel: ExternalKernel, arrays: list[np.ndarray], op: Call) -> None:
    """Runs a kernel on contiguous arrays of all operands and results.

    Raises:
        OperatorError: the kernel fails.
    """
    buffers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    if Launch(kernel.function)(kernel.context, buffers, None) != 0:
        raise op.error(kernel.error())
