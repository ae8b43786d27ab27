"""The rules of an operator from a C++ library, called through the framework."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.external import ExternalKernel
from oneflow.dialect.nd_sbp import Mesh, NdSignature
from oneflow.dialect.record import Call, OperatorError
from oneflow.dialect.sbp import Sbp, SbpSignature
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.runtime.user_ops import framework, marshal
from oneflow.runtime.user_ops.bounds_checks import is_checking_bounds
from oneflow.runtime.user_ops.operations import count_attribute
from oneflow.runtime.user_ops.sizes import common_desc, run_for_sizes


@dataclass
class Counts:
    """The number of tensors of an operand or result: `min_count` to `max_count` (None: any), or none if
    `optional`.
    """

    name: str
    min_count: int
    max_count: int | None
    optional: bool

    @property
    def is_variable(self) -> bool:
        """Whether the number of tensors differs between calls."""
        return self.optional or self.max_count != self.min_count

    @property
    def default_count(self) -> int:
        """The number of tensors if a call does not state it."""
        return 0 if self.optional else self.min_count

    def check(self, count: int, op: Call) -> int:
        """Returns `count` if the count is allowed.

        Raises:
            OperatorError: `count` is not allowed.
        """
        if not self.allows(count):
            raise op.error(f"expected {self} for {self.name}, got {count}")
        return count

    def allows(self, count: int) -> bool:
        """Whether `count` tensors are allowed."""
        max_count = count if self.max_count is None else self.max_count
        return (self.optional and count == 0) or self.min_count <= count <= max_count

    def __str__(self) -> str:
        count = str(self.min_count) if self.max_count == self.min_count else f"at least {self.min_count}"
        return f"none or {count}" if self.optional else count


class _Owner:
    """Owns a kernel state, which is destroyed with this object or at exit."""

    def __init__(self, handle: int) -> None:
        weakref.finalize(self, framework.library().oneflow_sdk_kernel_destroy, handle)


@dataclass
class LibraryRules:
    """The rules of one operator (`name` in its library), without gradients."""

    name: str
    inputs: list[Counts]
    outputs: list[Counts]

    def by_result(self, op: Call) -> dict[str, tuple[Any, ...]]:
        """The results of a call by name; None for results that are not inferred yet.

        Raises:
            OperatorError: the number of tensors of a result is not allowed.
        """
        rest, named = iter(op.results), {}
        for counts in self.outputs:
            count = op.attrs[count_attribute(counts.name)] if counts.is_variable else counts.min_count
            size = counts.check(int(count), op)
            named[counts.name] = tuple(next(rest, None) for _ in range(size))
        return named

    def encode(self, op: Call, device: int = marshal.CPU) -> framework.CallStruct:
        """A static call for the framework, without the attributes that count results."""
        counting = {count_attribute(c.name) for c in self.outputs if c.is_variable}
        attrs = [a for a in op.record.signature.attrs if a.name not in counting]
        return marshal.encode_call(self.name, op, attrs, self.by_result(op), device)

    def ask(self, function: str, op: Call, *args: Any) -> Any:
        """Calls a function of the framework on a static call.

        Raises:
            OperatorError: the function of the operator fails.
        """
        call = self.encode(op)
        return framework.ask(function, ctypes.byref(call), *args, failure=op.error)

    def types(self, op: Call) -> tuple[TensorDesc, ...]:
        """The result types, by the infer functions.

        Raises:
            OperatorError: a number of tensors is not allowed, or a function refuses the call.
        """
        for counts, operand in zip(self.inputs, op.inputs.values(), strict=True):
            counts.check(len(operand) if isinstance(operand, tuple) else int(operand is not None), op)
        call_without_results = Call(op.record, op.inputs, op.attrs)
        types = run_for_sizes(call_without_results, lambda call: self.ask("infer", call)["results"])
        results = [tuple(map(marshal.decode_desc, result)) for result in types]
        return tuple(common_desc(descs, op) for descs in zip(*results, strict=True))

    def no_gradient(self, op: Call) -> Sequence[str]:
        """The operands that the modify function exempts from differentiation."""
        call_without_results = Call(op.record, op.inputs, op.attrs)
        return list(run_for_sizes(call_without_results, lambda call: self.ask("infer", call)["no_grad"])[0])

    def sbp(self, op: Call) -> list[SbpSignature]:
        """The signatures of the SBP function.

        Raises:
            OperatorError: the function fails, or splits an axis that does not exist.
        """
        answers = run_for_sizes(op, lambda call: self.ask("sbp", call))
        first, *others = [[_signature(s, op) for s in answer] for answer in answers]
        return [s for s in first if all(s in other for other in others)]

    def nd_sbp_list(self, op: Call, mesh: Mesh, products: Sequence[NdSignature]) -> list[NdSignature]:
        """The signatures on a mesh that the operator lists itself.

        Raises:
            OperatorError: the function fails, or states no SBP for a tensor.
        """
        signatures = self.ask("nd_sbp_list", op, (ctypes.c_int64 * len(mesh))(*mesh), len(mesh))
        return [_nd_signature(tensors, op) for tensors in signatures]

    def nd_sbp_infer(self, op: Call, mesh: Mesh, products: Sequence[NdSignature]) -> list[NdSignature]:
        """The signatures on a mesh that the infer function returns for the operands of `products`.

        Raises:
            OperatorError: the function fails, or states no SBP for a tensor.
        """
        sizes, signatures = (ctypes.c_int64 * len(mesh))(*mesh), []
        for inputs in dict.fromkeys(p.inputs for p in products):
            hints = [x for nd in inputs for s in nd for x in (ord(s.kind), s.axis or 0)]
            encoded_hints = (ctypes.c_int64 * max(len(hints), 1))(*hints)
            signatures.append(_nd_signature(self.ask("nd_sbp_infer", op, sizes, len(mesh), encoded_hints), op))
        return signatures

    def complexity(self, op: Call) -> int:
        """The multiply-adds of a call.

        Raises:
            OperatorError: the function fails.
        """
        return int(self.ask("complexity", op))

    def kernel(self, op: Call) -> ExternalKernel:
        """The kernel that matches a call, with its own state.

        Raises:
            OperatorError: no kernel matches; the message lists each kernel and its failed condition.
        """
        return self._create(op, marshal.CPU)

    def device_kernel(self, op: Call) -> ExternalKernel | None:
        """The kernel that matches a call on a CUDA device; None if no kernel matches."""
        on_device = framework.ask("kernel_matches", ctypes.byref(self.encode(op, marshal.CUDA)), failure=op.error)
        return self._create(op, marshal.CUDA) if on_device else None

    def in_place(self, op: Call) -> list[tuple[int, int]]:
        """Pairs of a result and the operand whose memory it may take, as the CPU kernel proposes.

        A failing proposal is ignored here; the creation of the kernel reports it.
        """
        call = ctypes.byref(self.encode(op))
        try:
            pairs = framework.ask("kernel_in_place", call, failure=OperatorError)
            return [(result, operand) for result, operand in pairs]
        except OperatorError:
            return []

    def _create(self, op: Call, device: int) -> ExternalKernel:
        handle = ctypes.c_void_p()
        guarding = int(is_checking_bounds() and device == marshal.CPU)
        call = ctypes.byref(self.encode(op, device))
        framework.ask("kernel_create", call, guarding, ctypes.byref(handle), failure=op.error)
        assert handle.value is not None
        function = ctypes.cast(framework.library().oneflow_sdk_kernel_run, ctypes.c_void_p).value
        assert function is not None
        owner = _Owner(handle.value)
        return ExternalKernel(function, handle.value, framework.last_result, owner, device == marshal.CUDA)


def _nd_signature(tensors: Sequence[Sequence[Sequence[Any]]], op: Call) -> NdSignature:
    sbps = [tuple(Sbp(kind, axis if kind == "S" else None) for kind, axis in along) for along in tensors]
    count = len(op.operands)
    return NdSignature(tuple(sbps[:count]), tuple(sbps[count:]))


def _signature(entries: Sequence[Sequence[Any]], op: Call) -> SbpSignature:
    sbps = [Sbp(kind, axis if kind == "S" else None) for kind, axis in entries]
    count = len(op.operands)
    return SbpSignature(tuple(sbps[:count]), tuple(sbps[count:]))
