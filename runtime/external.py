"""The external kernels of a compiled program, created when the program is loaded and kept as long as it lives."""

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
    """An external kernel and the call for which it was created."""

    call: Call
    kernel: ExternalKernel


def make_externals(
    texts: Sequence[str],
    registry: Registry,
    context: ir.Context,
    locations: Callable[[], Sequence[str]],
    collectives: Collectives | None = None,
    device: str = "cpu",
) -> list[External]:
    """The kernels of a program, by the `oneflow.external` attributes of its declarations.

    On the `device` "cuda", operators with a device kernel get it. `collectives` creates the kernels of collectives;
    only a program of one rank among several needs it.

    Raises:
        OperatorError: there is no kernel for a call; the message names the source location, one of `locations()`.
    """
    externals: list[External] = []
    with context, ir.Location.unknown():
        for text in texts:
            try:
                externals.append(_make(read_external(text, registry), collectives, device))
            except OperatorError as error:
                raise OperatorError(f"{error}{locations()[len(externals)]}") from None
    return externals


def _make(call: Call, collectives: Collectives | None, device: str) -> External:
    record = call.record
    if record.kernel is not None:
        return External(call, (_device_kernel(call) if device == "cuda" else None) or record.kernel(call))
    if collectives is None:
        raise call.error(f"expected to run between {call.members} ranks (oneflow-run --nproc), got one process")
    return External(call, collectives.kernel(call))


def _device_kernel(call: Call) -> ExternalKernel | None:
    """The kernel on device memory; None if there is none. A Triton kernel is compiled as a part of the program."""
    if call.record.launch is not None:
        return ExternalKernel(0, 0, str, None, on_device=True)
    return None if call.record.device_kernel is None else call.record.device_kernel(call)
