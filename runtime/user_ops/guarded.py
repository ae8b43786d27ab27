"""Debug mode: kernels of users run on copies of their memory, with guards on either side of each.

What they write out of bounds, or to operands, is an error, and what they leave of results. Kernels of libraries are
guarded by the SDK, those in C here.
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

#: The number of bytes of a guard, whose values are random: no constant that a kernel writes is taken for them.
GUARD = 1 << 22
#: Tensors begin at multiples of this.
ALIGNMENT = 64

_guarding = os.environ.get("ONEFLOW_DEBUG", "0") not in ("", "0")


def guard_kernels(on: bool) -> None:
    """Whether kernels of users run on buffers with guards, which find writes out of bounds."""
    global _guarding
    _guarding = on


def is_guarding() -> bool:
    """Whether kernels that are made now are guarded."""
    return _guarding


def guarded_kernel(call: Callable[[Any], None], op: Call) -> ExternalKernel:
    """A kernel whose function `call`, of pointers to all operands and results, runs on guarded copies."""
    names = [n for table in (op.inputs, op.outputs) for n, desc in named_tensors(table) if desc is not None]
    return python_kernel(lambda buffers, stream: _run(call, op, names, buffers))


def _run(call: Callable[[Any], None], op: Call, names: Sequence[str], buffers: Any) -> None:
    descs = [*op.operands, *op.results]
    arrays = [as_array(buffers[i], desc).reshape(-1).view(np.uint8) for i, desc in enumerate(descs)]
    sizes = [GUARD + -(-a.size // ALIGNMENT) * ALIGNMENT for a in arrays]
    begins = list(itertools.accumulate(sizes, initial=GUARD))
    memory = np.tile(_guard(), -(-begins[-1] // GUARD))[: begins[-1]]
    count = len(op.operands)
    for array, begin in zip(arrays[:count], begins, strict=False):
        memory[begin : begin + array.size] = array
    call((ctypes.c_void_p * len(arrays))(*(memory.ctypes.data + b for b in begins[:-1])))
    _check_guards(memory, [(b, b + a.size) for a, b in zip(arrays, begins, strict=False)], names)
    for number, (array, begin) in enumerate(zip(arrays, begins, strict=False)):
        written = memory[begin : begin + array.size]
        if number >= count:
            _check_written(written, begin, names[number])
            array[...] = written
        elif not np.array_equal(array, written):
            raise ValueError(f"its kernel wrote its input {names[number]}; give what is written as an output")


def _check_guards(memory: np.ndarray, places: Sequence[tuple[int, int]], names: Sequence[str]) -> None:
    last = 0
    for begin, end in [*places, (memory.size, 0)]:
        damaged = np.flatnonzero(memory[last:begin] != _pattern(last, begin))
        if damaged.size:
            raise ValueError(f"its kernel wrote out of bounds: {_place(last + int(damaged[0]), places, names)}")
        last = end


def _check_written(result: np.ndarray, begin: int, name: str) -> None:
    """Refuses results of which words are as they were: a kernel that writes them would do so once in 2 ** 64."""
    size = result.size // 8 * 8
    kept = result[:size].view(np.uint64) == _pattern(begin, begin + size).view(np.uint64)
    if kept.any():
        first = 8 * int(np.argmax(kept))
        raise ValueError(f"its kernel did not write all of {name}: not {8 * int(kept.sum())} of its {result.size} "
                         f"bytes, the first of them at byte {first}")  # fmt: skip


@functools.cache
def _guard() -> np.ndarray:
    """The bytes of a guard."""
    return np.random.default_rng(0).integers(0, 256, GUARD, np.uint8)


def _pattern(begin: int, end: int) -> np.ndarray:
    """What memory of guards and results is before a kernel runs."""
    return np.resize(np.roll(_guard(), -(begin % GUARD)), end - begin)


def _place(at: int, places: Sequence[tuple[int, int]], names: Sequence[str]) -> str:
    """Where a byte lies, told by the nearest tensor."""
    found = [(b - at, f"{b - at} bytes before the begin of {n}, which has {e - b} bytes") if at < b else
             (at - e, f"{at - e} bytes after the end of {n}, which has {e - b} bytes")
             for (b, e), n in zip(places, names, strict=True)]  # fmt: skip
    return min(found)[1]
