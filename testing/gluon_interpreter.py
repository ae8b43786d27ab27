"""Interprets Gluon kernels on NumPy memory; specialized warps are threads.

Barriers block as on a device, and a wait that never ends raises. Shared memory holds NaN before it is written, and
blocks beyond the end of a tensor hold 0. Asynchronous copies of a thread execute when the thread waits for these
copies. TMA copies and products execute at once, and layouts are ignored, so faults of asynchronous execution are not
found.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

from oneflow.runtime.user_ops.device_functions import KINDS, POINTEES, instruction, libdevice

#: Functions of elements.
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "abs ceil exp exp2 floor log log2 sqrt".split()},
    "erf": scipy.special.erf, "rsqrt": libdevice("rsqrt"), "sqrt_rn": np.sqrt, "div_rn": np.divide,
    "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
#: The seconds after which a wait for a barrier fails.
TIMEOUT_SECONDS = 60.0


class Block(np.ndarray):
    """A tensor in registers."""

    def to(self, kind: Any, bitcast: bool = False) -> Block:
        """The elements in another type, or the bits of the elements."""
        return block(self.view(kind) if bitcast else self.astype(kind))

    def permute(self, *order: int) -> Block:
        """The axes in another order."""
        return self.transpose(order)


def block(values: Any) -> Block:
    """An array as a tensor in registers."""
    return np.asarray(values).view(Block)


class Shared:
    """Shared memory, or a part of shared memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.type = array, array.dtype, SimpleNamespace(shape=array.shape)

    def index(self, number: int) -> Shared:
        return Shared(self.array[number])

    def reshape(self, shape: Sequence[int]) -> Shared:
        return Shared(self.array.reshape(shape))

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.array.transpose(order))

    def load(self, layout: Any) -> Block:
        return block(self.array.copy())

    def store(self, value: np.ndarray) -> None:
        self.array[...] = value


class Barrier:
    """An mbarrier: a phase completes after all arrivals, when all expected bytes have arrived."""

    def __init__(self, timeout: float = TIMEOUT_SECONDS) -> None:
        self.count = self.pending = self.bytes = self.phase = 0
        self.timeout = timeout
        self.changed = threading.Condition()

    def init(self, count: int) -> None:
        self.count = self.pending = count

    def wait(self, phase: int, pred: bool = True) -> None:
        with self.changed:
            if pred and not self.changed.wait_for(lambda: self.phase & 1 != phase, self.timeout):
                raise TimeoutError("expected a barrier to complete its phase")

    def arrive(self, count: int = 1, pred: bool = True, size: int = 0) -> None:
        with self.changed:
            self.pending -= count if pred else 0
            self.bytes += size
            if self.pending == 0 and self.bytes == 0:
                self.phase, self.pending = self.phase + 1, self.count
                self.changed.notify_all()


class Barriers(list[Barrier]):
    """An array of barriers."""

    def index(self, number: int) -> Barrier:  # type: ignore[override]
        return self[number]


@dataclass
class Pointer:
    """The address of elements of a type, or several."""

    address: int
    kind: Any
    offset: Any = 0

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.address, self.kind, self.offset + offset)

    def memory(self, count: int) -> np.ndarray:
        """The elements from the address on."""
        size = np.dtype(self.kind).itemsize
        return np.frombuffer((ctypes.c_uint8 * (count * size)).from_address(self.address), self.kind)

    def selected(self, inside: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements up to the last address, the offsets in these elements, and which offsets exist."""
        offsets, inside = np.broadcast_arrays(self.offset, inside)
        valid_offsets = offsets[inside]
        return self.memory(int(valid_offsets.max(initial=-1)) + 1), valid_offsets, inside

    def load(self, inside: Any = True, other: float = 0.0) -> Block:
        memory, offsets, inside = self.selected(inside)
        values = np.full(inside.shape, other, self.kind)
        values[inside] = memory[offsets]
        return block(values)

    def store(self, value: np.ndarray, inside: Any = True) -> None:
        memory, offsets, inside = self.selected(inside)
        memory[offsets] = value[inside]


#: The bytes that a row of a block begins at multiples of.
COPY = 16


@dataclass
class Descriptor:
    """Blocks of a tensor in memory."""

    pointer: Pointer
    shape: Sequence[int]
    strides: Sequence[int]
    block: Sequence[int]
    array: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        last = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        memory = self.pointer.memory(self.pointer.offset + last + 1)[self.pointer.offset :]
        self.array = np.lib.stride_tricks.as_strided(memory, self.shape, [s * memory.itemsize for s in self.strides])

    def part(self, at: Sequence[int]) -> tuple[slice, ...]:
        """The position of a block in the tensor: a block must begin at whole copies, else the hardware stops."""
        assert all(first >= 0 for first in at) and at[-1] * self.array.itemsize % COPY == 0
        return tuple(slice(first, first + size) for first, size in zip(at, self.block, strict=True))

    def load(self, at: Sequence[int], bar: Barrier, target: Shared) -> None:
        values = self.array[self.part(at)]
        padded = np.zeros(self.block, values.dtype)
        padded[tuple(map(slice, values.shape))] = values
        target.array[...] = padded.reshape(target.array.shape)
        bar.arrive(0, size=-padded.nbytes)

    def store(self, at: Sequence[int], source: Shared) -> None:
        target = self.array[self.part(at)]
        target[...] = source.array.reshape(self.block)[tuple(map(slice, target.shape))]


@dataclass
class Copies:
    """Asynchronous copies to shared memory: copies of the open group, and of committed groups."""

    open: list[Callable[[], None]] = field(default_factory=list)
    groups: list[list[Callable[[], None]]] = field(default_factory=list)

    def begin(self, target: Shared, pointer: Pointer, mask: Any = True) -> None:
        self.open.append(lambda: target.store(pointer.load(mask)))

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        while len(self.groups) > pending:
            for copy in self.groups.pop(0):
                copy()


class Libdevice:
    """libdevice on tensors."""

    def __getattr__(self, name: str) -> Callable[..., Block]:
        return lambda *given: block(libdevice(name)(*given))


def extreme(passing: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """A maximum or minimum: NaN propagates with `propagate_nan`, otherwise the number wins."""
    return lambda a, b, propagate_nan=None: block((passing if propagate_nan else other)(a, b))


def reduced(values: np.ndarray, axis: int, combine: Callable[..., Any]) -> Block:
    """The values along an axis of a power of two combined, halves with each other."""
    while values.shape[axis] > 1:
        values = combine(*(block(half) for half in np.split(values, 2, axis)))
    return block(values.squeeze(axis))


def multiply(
    a: Any, b: Shared, acc: Block, use_acc: bool = True, precision: str = "tf32", is_async: bool = False
) -> Block:
    """A product of blocks of floats, added to `acc` if `use_acc`; f32 is not rounded to tf32."""
    left = a.array if isinstance(a, Shared) else np.asarray(a)
    product = left.astype(np.float32) @ b.array.astype(np.float32)
    return block(acc + product if use_acc else product)


def allocate(timeout: float, kind: Any, shape: Sequence[int], layout: Any) -> Any:
    """Barriers, whose waits end after `timeout` seconds with an error, or uninitialized shared memory."""
    if kind is np.int64:
        return Barriers(Barrier(timeout) for _ in range(shape[0]))
    return Shared(np.full(shape, np.nan, kind))


def specialize(calls: Sequence[tuple[Callable[..., None], tuple[Any, ...]]], warps: Any, registers: Any) -> None:
    """Runs the functions of warp specialization as threads.

    Raises:
        TimeoutError: a function waits for a barrier in vain.
    """

    def run(call: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
        with np.errstate(all="ignore"):
            call[0](*call[1])

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(run, calls))


def language(program: int, programs: int, timeout: float) -> dict[str, Any]:
    """The names that the text of a kernel uses, for one of so many programs; waits take at most `timeout` seconds."""
    layout = lambda *given, **named: given  # noqa: E731
    gl = SimpleNamespace(
        constexpr=lambda value: value, static_range=range, convert_layout=lambda x, layout: x,
        program_id=lambda axis: program, num_programs=lambda axis: programs, cdiv=lambda a, b: -(-a // b),
        NVMMADistributedLayout=layout, DotOperandLayout=layout, SliceLayout=layout, BlockedLayout=layout,
        SwizzledSharedLayout=layout, reduce=reduced, dot_fma=lambda a, b, acc: block(acc + a @ b),
        NVMMASharedLayout=type("Layout", (), {"__new__": layout, "get_default_for": layout}),
        where=lambda c, a, b: block(np.where(c, a, b)) if np.ndim(c) else (a if c else b),
        maximum=extreme(np.maximum, np.fmax), minimum=extreme(np.minimum, np.fmin),
        max=lambda x, axis: block(np.fmax.reduce(x, axis)), sum=lambda x, axis: block(x.sum(axis)),
        inline_asm_elementwise=lambda text, constraints, operands, *how: block(instruction(text)(*operands)),
        broadcast_to=lambda x, shape: block(np.broadcast_to(x, shape)),
        zeros=lambda shape, kind, layout: block(np.zeros(shape, kind)),
        full=lambda shape, value, kind, layout=None: block(np.full(shape, value, kind)),
        arange=lambda first, end, layout=None: block(np.arange(first, end)),
        load=lambda pointer, *given: pointer.load(*given), store=lambda pointer, *given: pointer.store(*given),
        multiple_of=lambda x, number: x, split=lambda x: (x[..., 0], x[..., 1]),
        allocate_shared_memory=functools.partial(allocate, timeout), warp_specialize=specialize,
        **KINDS, **ELEMENTWISE,
    )  # fmt: skip
    tma = SimpleNamespace(
        make_tensor_descriptor=lambda *given: Descriptor(*given[:4]),
        async_load=Descriptor.load, async_store=Descriptor.store,
        store_wait=lambda pending: None,
    )  # fmt: skip
    copies = Copies()
    ahead = SimpleNamespace(
        async_load=copies.begin, commit_group=copies.commit, wait_group=copies.wait,
    )  # fmt: skip
    bars = SimpleNamespace(
        MBarrierLayout=layout, init=Barrier.init, wait=Barrier.wait, arrive=Barrier.arrive,
        expect=lambda bar, size: bar.arrive(size=size),
    )  # fmt: skip
    return {
        "gluon": SimpleNamespace(jit=lambda function: function), "gl": gl, "tl": gl, "tma": tma, "mbarrier": bars,
        "async_copy": ahead,
        "triton": SimpleNamespace(language=SimpleNamespace(PropagateNan=SimpleNamespace(ALL=True))),
        "fence_async_shared": lambda: None, "warpgroup_mma": multiply, "libdevice": Libdevice(),
        "warpgroup_mma_wait": lambda pending, deps: deps if len(deps) > 1 else deps[0],
    }  # fmt: skip


def interpret_gluon(
    text: str, name: str, kinds: Sequence[str], addresses: Sequence[int], programs: int,
    timeout: float = TIMEOUT_SECONDS,
) -> None:  # fmt: skip
    """Runs the kernel `name` of a text on addresses of elements of types like `*bf16`, every program in order.

    Raises:
        TimeoutError: a wait for a barrier takes more than `timeout` seconds.
    """
    assert math.prod(map(len, kinds)) > 0 and all(kind.startswith("*") for kind in kinds)
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    code = compile(tree, f"<gluon {name}>", "exec")
    pointers = [Pointer(a, KINDS[POINTEES[k[1:]]]) for a, k in zip(addresses, kinds, strict=True)]
    for number in range(programs):
        names = language(number, programs, timeout)
        exec(code, names)
        names[name](*pointers)
