"""The rules of an operator from a C++ library: its functions, asked through the framework."""

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
from oneflow.runtime.user_ops.guarded import is_guarding
from oneflow.runtime.user_ops.operations import count_attribute
from oneflow.runtime.user_ops.sizes import common_desc, run_for_sizes


@dataclass
class Counts:
    """How many tensors an operand or result takes: `least` to `most` (None: any number), or none if `optional`."""

    name: str
    least: int
    most: int | None
    optional: bool

    @property
    def is_open(self) -> bool:
        """Whether the number differs between calls."""
        return self.optional or self.most != self.least

    @property
    def fewest(self) -> int:
        """How many there are where nothing says so."""
        return 0 if self.optional else self.least

    def check(self, count: int, op: Call) -> int:
        """`count`.

        Raises:
            OperatorError: it is not a right number.
        """
        if not self.allows(count):
            raise op.error(f"expected {self} for {self.name}, got {count}")
        return count

    def allows(self, count: int) -> bool:
        """Whether `count` tensors are a right number."""
        most = count if self.most is None else self.most
        return (self.optional and count == 0) or self.least <= count <= most

    def __str__(self) -> str:
        number = str(self.least) if self.most == self.least else f"at least {self.least}"
        return f"none or {number}" if self.optional else number


class _Owner:
    """Destroys a kernel with itself, or before Python ends."""

    def __init__(self, handle: int) -> None:
        weakref.finalize(self, framework.library().oneflow_sdk_kernel_destroy, handle)


@dataclass
class LibraryRules:
    """The slots of one operator, which its library calls `name`, but for gradients."""

    name: str
    inputs: list[Counts]
    outputs: list[Counts]

    def by_result(self, op: Call) -> dict[str, tuple[Any, ...]]:
        """The results of a call by name; None for those that are not known yet.

        Raises:
            OperatorError: a result is asked for in a wrong number.
        """
        rest, named = iter(op.results), {}
        for counts in self.outputs:
            asked = op.attrs[count_attribute(counts.name)] if counts.is_open else counts.least
            size = counts.check(int(asked), op)
            named[counts.name] = tuple(next(rest, None) for _ in range(size))
        return named

    def encode(self, op: Call, device: int = marshal.CPU) -> framework.CallStruct:
        """A static call for the framework, which knows nothing of attributes that count results."""
        counting = {count_attribute(c.name) for c in self.outputs if c.is_open}
        attrs = [a for a in op.record.signature.attrs if a.name not in counting]
        return marshal.encode_call(self.name, op, attrs, self.by_result(op), device)

    def ask(self, function: str, op: Call, *args: Any) -> Any:
        """What the framework says of a static call.

        Raises:
            OperatorError: the operator's function fails.
        """
        call = self.encode(op)
        return framework.ask(function, ctypes.byref(call), *args, failure=op.error)

    def types(self, op: Call) -> tuple[TensorDesc, ...]:
        """The results by the infer functions.

        Raises:
            OperatorError: a count is wrong, or a function refuses the call.
        """
        for counts, given in zip(self.inputs, op.inputs.values(), strict=True):
            counts.check(len(given) if isinstance(given, tuple) else int(given is not None), op)
        bare = Call(op.record, op.inputs, op.attrs)
        found = run_for_sizes(bare, lambda call: self.ask("infer", call)["results"])
        results = [tuple(map(marshal.decode_desc, result)) for result in found]
        return tuple(common_desc(descs, op) for descs in zip(*results, strict=True))

    def no_gradient(self, op: Call) -> Sequence[str]:
        """The operands that the modify function exempts from differentiation."""
        bare = Call(op.record, op.inputs, op.attrs)
        return list(run_for_sizes(bare, lambda call: self.ask("infer", call)["no_grad"])[0])

    def sbp(self, op: Call) -> list[SbpSignature]:
        """The signatures of the SBP function.

        Raises:
            OperatorError: it fails, or splits an axis that is not there.
        """
        found = [[_signature(s, op) for s in one] for one in run_for_sizes(op, lambda call: self.ask("sbp", call))]
        return [s for s in found[0] if all(s in other for other in found)]

    def nd_sbp_list(self, op: Call, mesh: Mesh, products: Sequence[NdSignature]) -> list[NdSignature]:
        """The signatures on a mesh that the operator lists itself.

        Raises:
            OperatorError: the function fails, or says nothing of a tensor.
        """
        found = self.ask("nd_sbp_list", op, (ctypes.c_int64 * len(mesh))(*mesh), len(mesh))
        return [_nd_signature(tensors, op) for tensors in found]

    def nd_sbp_infer(self, op: Call, mesh: Mesh, products: Sequence[NdSignature]) -> list[NdSignature]:
        """The signatures on a mesh that the infer function gives for the operands of `products`.

        Raises:
            OperatorError: the function fails, or says nothing of a tensor.
        """
        sizes, found = (ctypes.c_int64 * len(mesh))(*mesh), []
        for inputs in dict.fromkeys(p.inputs for p in products):
            hints = [x for nd in inputs for s in nd for x in (ord(s.kind), s.axis or 0)]
            given = (ctypes.c_int64 * max(len(hints), 1))(*hints)
            found.append(_nd_signature(self.ask("nd_sbp_infer", op, sizes, len(mesh), given), op))
        return found

    def complexity(self, op: Call) -> int:
        """The multiply-adds of a call.

        Raises:
            OperatorError: the function fails.
        """
        return int(self.ask("complexity", op))

    def kernel(self, op: Call) -> ExternalKernel:
        """The kernel that matches a call, with a state of its own.

        Raises:
            OperatorError: none matches; the text lists each and what it failed.
        """
        return self._create(op, marshal.CPU)

    def device_kernel(self, op: Call) -> ExternalKernel | None:
        """The kernel that matches a call on a CUDA device; None where there is none."""
        on_device = framework.ask("kernel_matches", ctypes.byref(self.encode(op, marshal.CUDA)), failure=op.error)
        return self._create(op, marshal.CUDA) if on_device else None

    def in_place(self, op: Call) -> list[tuple[int, int]]:
        """Which results, by number, share the memory of which operands, as the kernel for the CPU proposes.

        A proposal that fails is none here: making the kernel says what is wrong.
        """
        call = ctypes.byref(self.encode(op))
        try:
            return [(made, given) for made, given in framework.ask("kernel_in_place", call, failure=OperatorError)]
        except OperatorError:
            return []

    def _create(self, op: Call, device: int) -> ExternalKernel:
        handle = ctypes.c_void_p()
        guarding = int(is_guarding() and device == marshal.CPU)
        call = ctypes.byref(self.encode(op, device))
        framework.ask("kernel_create", call, guarding, ctypes.byref(handle), failure=op.error)
        assert handle.value is not None
        function = ctypes.cast(framework.library().oneflow_sdk_kernel_run, ctypes.c_void_p).value
        assert function is not None
        owner = _Owner(handle.value)
        return ExternalKernel(function, handle.value, framework.last_result, owner, device == marshal.CUDA)


def _nd_signature(tensors: Sequence[Sequence[Sequence[Any]]], op: Call) -> NdSignature:
    every = [tuple(Sbp(kind, axis if kind == "S" else None) for kind, axis in along) for along in tensors]
    count = len(op.operands)
    return NdSignature(tuple(every[:count]), tuple(every[count:]))


def _signature(entries: Sequence[Sequence[Any]], op: Call) -> SbpSignature:
    every = [Sbp(kind, axis if kind == "S" else None) for kind, axis in entries]
    count = len(op.operands)
    return SbpSignature(tuple(every[:count]), tuple(every[count:]))
