"""Bounds checks of users' kernels (debug mode): a kernel runs on copies of its memory with red zones on either side.

A kernel that writes out of bounds or to an operand, or that does not write all of a result, is an error. The module
checks kernels in C; the SDK checks kernels of libraries.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect.external import ExternalKernel, as_array, python_kernel
from oneflow.dialect.record import Call
from oneflow.runtime.user_ops.tensors import named_tensors

#: The number of bytes of a red zone, whose values are random: no constant that a kernel writes equals these values by
#: accident.
RED_ZONE = 1 << 22
#: Tensors begin at multiples of this.
ALIGNMENT = 64

_is_checking = os.environ.get("ONEFLOW_DEBUG", "0") not in ("", "0")


def check_bounds(on: bool) -> None:
    """Turns the checks of kernels that are made from here on on or off."""
    global _is_checking
    _is_checking = on


def is_checking_bounds() -> bool:
    """Whether kernels that are made now are checked."""
    return _is_checking


def bounds_checked_kernel(call: Callable[[Any], None], op: Call) -> ExternalKernel:
    """A kernel whose function `call`, of pointers to all operands and results, runs on copies with red zones."""
    names = [n for table in (op.inputs, op.outputs) for n, desc in named_tensors(table) if desc is not None]
    return python_kernel(lambda buffers, stream: _run(call, op, names, buffers))


def _run(call: Callable[[Any], None], op: Call, names: Sequence[str], buffers: Any) -> None:
    descs = [*op.operands, *op.results]
    arrays = [as_array(buffers[i], desc).reshape(-1).view(np.uint8) for i, desc in enumerate(descs)]
    sizes = [RED_ZONE + -(-a.size // ALIGNMENT) * ALIGNMENT for a in arrays]
    begins = list(itertools.accumulate(sizes, initial=RED_ZONE))
    memory = np.tile(_red_zone(), -(-begins[-1] // RED_ZONE))[: begins[-1]]
    count = len(op.operands)
    for array, begin in zip(arrays[:count], begins, strict=False):
        memory[begin : begin + array.size] = array
    call((ctypes.c_void_p * len(arrays))(*(memory.ctypes.data + b for b in begins[:-1])))
    _check_red_zones(memory, [(b, b + a.size) for a, b in zip(arrays, begins, strict=False)], names)
    for index, (array, begin) in enumerate(zip(arrays, begins, strict=False)):
        written = memory[begin : begin + array.size]
        if index >= count:
            _check_written(written, begin, names[index])
            array[...] = written
        elif not np.array_equal(array, written):
            raise ValueError(f"its kernel wrote its input {names[index]}; declare the written tensor as an output")


def _check_red_zones(memory: np.ndarray, ranges: Sequence[tuple[int, int]], names: Sequence[str]) -> None:
    last = 0
    for begin, end in [*ranges, (memory.size, 0)]:
        damaged = np.flatnonzero(memory[last:begin] != _pattern(last, begin))
        if damaged.size:
            raise ValueError(
                f"its kernel wrote out of bounds: {_describe_offset(last + int(damaged[0]), ranges, names)}"
            )
        last = end


def _check_written(result: np.ndarray, begin: int, name: str) -> None:
    """Refuses results with unchanged words: a kernel that writes all words leaves a word unchanged once in 2 **
    64.
    """
    size = result.size // 8 * 8
    kept = result[:size].view(np.uint64) == _pattern(begin, begin + size).view(np.uint64)
    if kept.any():
        first = 8 * int(np.argmax(kept))
        raise ValueError(f"its kernel did not write all of {name}: not {8 * int(kept.sum())} of its {result.size} "
                         f"bytes, the first of them at byte {first}")  # fmt: skip


@functools.cache
def _red_zone() -> np.ndarray:
    """The bytes of a red zone."""
    return np.random.default_rng(0).integers(0, 256, RED_ZONE, np.uint8)


def _pattern(begin: int, end: int) -> np.ndarray:
    """The bytes of red zones and results before a kernel runs."""
    return np.resize(np.roll(_red_zone(), -(begin % RED_ZONE)), end - begin)


def _describe_offset(at: int, ranges: Sequence[tuple[int, int]], names: Sequence[str]) -> str:
    """The position of a byte, relative to the nearest tensor."""
    distances = [(b - at, f"{b - at} bytes before the start of {n}, which has {e - b} bytes") if at < b else
             (at - e, f"{at - e} bytes after the end of {n}, which has {e - b} bytes")
             for (b, e), n in zip(ranges, names, strict=True)]  # fmt: skip
    return min(distances)[1]
