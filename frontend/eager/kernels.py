"""Kernels of eager mode: operators compiled one by one, once for each set of attributes and operand types.

    compile_call(call, results, device).run(arrays)

On a device, where compiling takes longer than on the host, calls that differ in sizes alone share a kernel
(`DynamicSizeKernels`). An operator on global tensors is a program of their ranks, which chooses the layouts of its
results by cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import func, ir
from oneflow.dialect.builder import Value
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.locks import Lock
from oneflow.dialect.nd_sbp import NdSbp
from oneflow.dialect.record import REGISTRY, Call, OperatorError, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend.core.arrays import Data, is_on_ranks, ranks_of
from oneflow.frontend.core.compilation import compile_for
from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.layouts import ProgramPlacements, annotate
from oneflow.frontend.eager.views import ViewCopy
from oneflow.lowering.kernels.donated_arguments import donate_arguments
from oneflow.passes.base import PassError
from oneflow.runtime.global_array import Placement
from oneflow.runtime.protocol import Executable

#: The name of the function around the operator; a mathematical function of the same name would clash.
ENTRY = "operator_call"
#: The number of calls with the same sizes after which a kernel for all sizes is replaced by a kernel for these sizes.
CALLS_BEFORE_OWN_KERNEL = 8
_lock = Lock()
_interned: dict[TensorDesc, TensorDesc] = {}


def intern(desc: TensorDesc) -> TensorDesc:
    """The one object for equal descriptions, so that these can be compared by identity."""
    return _interned.setdefault(desc, desc)


@functools.lru_cache(maxsize=4096)
def desc_of(shape: tuple[int, ...], dtype: np.dtype) -> TensorDesc:
    """The interned type of an array of NumPy.

    Raises:
        TypeError: the element type is not supported.
    """
    return intern(TensorDesc(shape, dtypes.from_numpy(dtype)))


@dataclass(frozen=True)
class Ranks:
    """The ranks on which a call on global tensors runs; `layouts` has the layouts of its operands, None for a tensor
    that is whole on every rank.
    """

    placement: Placement
    layouts: tuple[NdSbp | None, ...]

    @classmethod
    def of(cls, arrays: Sequence[Data]) -> Ranks | None:
        """The ranks of global arrays; None where no array is global.

        Raises:
            ValueError: the arrays have several placements.
        """
        placements = list(dict.fromkeys(a.placement for a in arrays if is_on_ranks(a)))
        if len(placements) > 1:
            raise ValueError(
                f"expected all tensors on one placement, got {placements[0]} and {placements[1]}; "
                "move one with x.to_global(..)"
            )
        layouts = tuple(ranks_of(a)[1] for a in arrays)
        return cls(placements[0], layouts) if placements else None


class Kernel:
    """A compiled call: `op` is the call on descriptions, `results` are the types of its results.

    Attributes:
        calls_left: the number of calls after which a kernel for these sizes replaces a kernel for all sizes; 0 means
            never.
        num_programs: the number of programs of ranks.
        plans: how gradients of the call are computed, by what is asked (see `gradient_plans.py`); None for operators
            of users, results with sizes of their data, and global tensors, whose gradients follow rules each time.
    """

    __slots__ = (
        "__weakref__",
        "calls_left",
        "executable",
        "fast_path",
        "is_on_host",
        "is_static",
        "num_programs",
        "op",
        "plans",
        "reads",
        "results",
        "run",
    )

    def __init__(
        self,
        op: Call,
        results: Sequence[TensorDesc],
        executable: Executable | ViewCopy,
        calls_left: int = 0,
        num_programs: int = 1,
    ) -> None:
        self.op, self.calls_left, self.num_programs = op, calls_left, num_programs
        self.executable: Any = executable
        self.run: Callable[[Sequence[Any]], list[Any]] = executable.run
        self.reads, self.fast_path = executable.reads, executable.fast_path
        self.is_on_host = executable.array is np.ndarray
        self.results = tuple(map(intern, results))
        self.is_static = all(d.is_static for d in results)
        is_of_user = any(record is op.record for record in REGISTRY.additions())
        self.plans: dict[Any, Any] | None = {} if self.is_static and not is_of_user else None


def compile_call(
    op: Call, results: Sequence[TensorDesc], device_or_ranks: Device | Ranks, in_place_operand: int | None = None
) -> Kernel:
    """Compiles a call on descriptions for a device, or for the ranks of its operands.

    The first result may take the memory of the operand with the index `in_place_operand`.

    Raises:
        PassError: the operator cannot be lowered.
    """
    descs = flatten(op.inputs.values())
    with _lock.held(), _context(_additions()) as context, ir.Location.unknown():
        with dialect.exclusive(context):
            module = ir.Module.create()
            entry = func.FuncOp(ENTRY, ([d.to_mlir() for d in descs], []), ip=ir.InsertionPoint(module.body))
            _fill(entry, op, results)
            if in_place_operand is not None:
                donate_arguments(entry.operation, [(in_place_operand, 0)])
        if isinstance(device_or_ranks, Ranks):
            placements = ProgramPlacements(device_or_ranks.placement)
            arguments = [(device_or_ranks.placement, nd) for nd in device_or_ranks.layouts]
            annotate(entry.operation, placements, arguments, [(None, None)] * len(results))
            executable, count = compile_for(placements, module, ENTRY), len(device_or_ranks.placement.local_indices)
            kernel = Kernel(op, results, executable, num_programs=count)
            kernel.plans = None
            return kernel
        return Kernel(op, results, compile_for(device_or_ranks, module, ENTRY))


class DynamicSizeKernels:
    """Kernels with dynamic sizes, for all sizes of operators on devices, by the properties of calls other than sizes.

    The first sizes get their own kernel, so that a program of one set of sizes has no other kernels. Kernels are not
    shared for sizes of 0 and 1, since a dimension of size 1 broadcasts.
    """

    def __init__(self) -> None:
        self._first_calls: set[Any] = set()
        self._executables: dict[Any, Executable | None] = {}

    def find(self, op: Call, device: Device, in_place_operand: int | None) -> Executable | None:
        """The executable for all sizes of a call; None for the first sizes, and where an operator needs its sizes."""
        dynamic = Call(op.record, {k: _with_dynamic_sizes(x) for k, x in op.inputs.items()}, op.attrs)
        key = (str(device), op.record.name, in_place_operand, repr(op.attrs), *dynamic.inputs.values())
        if key not in self._first_calls:
            self._first_calls.add(key)
            return None
        if key not in self._executables:
            self._executables[key] = _compile_for_all_sizes(dynamic, device, in_place_operand)
        return self._executables[key]


def _with_dynamic_sizes(operand: Any) -> Any:
    """The type of an operand with dynamic sizes, except sizes of 0 and 1."""
    if isinstance(operand, TensorDesc):
        return TensorDesc(tuple(size if size in (0, 1) else None for size in operand.static_shape), operand.dtype)
    return tuple(map(_with_dynamic_sizes, operand)) if isinstance(operand, tuple) else operand


def _compile_for_all_sizes(op: Call, device: Device, in_place_operand: int | None) -> Executable | None:
    """The executable of a call with dynamic sizes; None where the operator needs its sizes."""
    try:
        executable: Executable = compile_call(op, infer(op.record, op), device, in_place_operand).executable
    except (OperatorError, PassError):
        return None
    return None if executable.is_size_specialized else executable


def _fill(entry: func.FuncOp, op: Call, results: Sequence[TensorDesc]) -> None:
    """Writes the body of the function: the operation, and the return of its results."""
    block = entry.add_entry_block()
    builder = IRBuilder(ip=ir.InsertionPoint(block))
    descs = flatten(op.inputs.values())
    values = iter([Value(builder, a, d) for a, d in zip(block.arguments, descs, strict=True)])
    inputs = {name: _take_values(results_emitted, values) for name, results_emitted in op.inputs.items()}
    results_emitted = builder.emit(Call(op.record, inputs, op.attrs), results)
    func.ReturnOp([v.handle for v in results_emitted], ip=builder.ip)
    types = [v.handle.type for v in results_emitted]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([d.to_mlir() for d in descs], types))


def _take_values(value: Any, values: Any) -> Any:
    """As many values as an operand slot has."""
    if isinstance(value, tuple):
        return tuple(next(values) for _ in value)
    return None if value is None else next(values)


def _additions() -> tuple[tuple[str, str, str], ...]:
    """The operators of users."""
    return tuple((record.name, record.where, str(record.signature)) for record in REGISTRY.additions())


@functools.lru_cache(maxsize=1)
def _context(additions: tuple[tuple[str, str, str], ...]) -> ir.Context:
    """The MLIR context of all calls while the operators of users stay the same."""
    return dialect.create_context(operators=())


def describe_result(array: Data, desc: TensorDesc) -> TensorDesc:
    """The type of a result: `desc`, with the sizes of the array if `desc` is dynamic."""
    return desc if desc.is_static else intern(TensorDesc(tuple(array.shape), desc.dtype))
