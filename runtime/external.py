"""Kernels made elsewhere that a compiled program calls: made when the program is loaded, kept as long as it lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oneflow.dialect._mlir import ir
from oneflow.dialect.external import ExternalKernel
from oneflow.dialect.record import Call, OperatorError, Registry
from oneflow.lowering.linalg.external import read_external
from oneflow.runtime.collectives.kernel import Collectives


@dataclass(frozen=True)
class External:
    """A kernel and the call it was made for."""

    call: Call
    kernel: ExternalKernel


def make_externals(
    texts: Sequence[str],
    registry: Registry,
    context: ir.Context,
    places: Callable[[], Sequence[str]],
    collectives: Collectives | None = None,
    device: str = "cpu",
) -> list[External]:
    """The kernels of a program, by the `oneflow.external` attributes of its declarations.

    On the `device` "cuda" they take memory of the device where the operator has such a kernel. Collectives are made
    by `collectives`, which a program of one rank among several needs.

    Raises:
        OperatorError: no kernel can be made for a call; its place in the program, one of `places()`, is named.
    """
    made: list[External] = []
    with context, ir.Location.unknown():
        for text in texts:
            try:
                made.append(_make(read_external(text, registry), collectives, device))
            except OperatorError as error:
                raise OperatorError(f"{error}{places()[len(made)]}") from None
    return made


def _make(call: Call, collectives: Collectives | None, device: str) -> External:
    record = call.record
    if record.kernel is not None:
        return External(call, (_of_device(call) if device == "cuda" else None) or record.kernel(call))
    if collectives is None:
        raise call.error(f"expected to run between {call.members} ranks (oneflow-run --nproc), got one process")
    return External(call, collectives.kernel(call))


def _of_device(call: Call) -> ExternalKernel | None:
    """The kernel for memory of the device; None where there is none. One in Triton is part of the program."""
    if call.record.launch is not None:
        return ExternalKernel(0, 0, str, None, on_device=True)
    return None if call.record.device_kernel is None else call.record.device_kernel(call)
