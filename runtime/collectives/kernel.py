"""Collectives as external kernels, which a compiled program calls like kernels of user libraries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from oneflow.dialect.external import ExternalKernel, as_array, python_kernel
from oneflow.dialect.nd_sbp import Mesh, group
from oneflow.dialect.record import Call
from oneflow.runtime.collectives.nccl import Gpus, NcclTransport
from oneflow.runtime.collectives.operations import packing_bytes, run_collective
from oneflow.runtime.collectives.transport import Array, Transport, World


@dataclass
class Collectives:
    """Makes the kernels of one rank's program, in program order.

    Attributes:
        world: all ranks.
        mesh: the mesh of the program.
        ranks: the rank of the world at each index of the mesh.
        mesh_index: the index of this program in the mesh.
        sites: the source location of each collective, in order.
        gpus: the transports between GPUs, if the program runs on GPUs.
    """

    world: World
    mesh: Mesh
    ranks: Sequence[int]
    mesh_index: int
    sites: Sequence[str]
    gpus: Gpus | None = None
    _count: int = field(default=0, init=False)

    def kernel(self, op: Call) -> ExternalKernel:
        """The kernel of the next collective of the program; types are static."""
        axes, stated = list(op.attrs["mesh_axes"]), list(op.attrs["ranks"])
        members = [self.ranks[m] for m in stated or group(self.mesh_index, self.mesh, axes)]
        index = self._count
        self._count += 1
        among = f"between ranks {members}" if stated else f"along mesh axes {axes}"
        text = f"step {index}, oneflow.{op.record.name} {among} ({self.sites[index]})"
        transport = (self.gpus or self.world).transport(self.ranks[self.mesh_index], members)
        return _Kernel(op, transport, self.world, self.ranks[self.mesh_index], index, text).external()

    def launch_scope(self) -> AbstractContextManager[None]:
        """The step in which a device launches graphs that contain all collectives of the program."""
        count = len(self.sites)
        text = f"steps 0 to {count - 1} at once, of a program with {count} collectives ({self.sites[-1]})"
        return self.world.step(self.ranks[self.mesh_index], count - 1, text, count)


@dataclass
class _Kernel:
    """The part of one rank in one collective of a program."""

    op: Call
    transport: Transport
    world: World
    rank: int
    index: int
    text: str
    workspace: int = 0
    viewed: tuple[tuple[int, ...], list[Array]] = ((), [])

    def external(self) -> ExternalKernel:
        """The external kernel that the program calls."""
        if not isinstance(self.transport, NcclTransport):
            return python_kernel(self._run)
        sides = self.op.operands, self.op.results
        packed = packing_bytes(self.op.record.name, self.transport, self.op.attrs, *sides)
        self.workspace = packed or 0
        return python_kernel(self._run, True, self.workspace, packed is not None)

    def _run(self, buffers: Sequence[int], stream: int) -> None:
        """Runs the collective."""
        count, arrays = len(self.op.operands), self._arrays(buffers)
        workspace = buffers[len(arrays)] if self.workspace else 0
        with self.world.step(self.rank, self.index, self.text), self.transport.on_stream(stream, workspace):
            run_collective(self.op.record.name, self.transport, self.op.attrs, arrays[:count], arrays[count:])

    def _arrays(self, buffers: Sequence[int]) -> list[Array]:
        """The operands and results as arrays; reused while the addresses are the same, as in a training loop."""
        descs = (*self.op.operands, *self.op.results)
        addresses = tuple(buffers[i] for i in range(len(descs)))
        if addresses != self.viewed[0]:
            self.viewed = addresses, list(map(as_array, addresses, descs))
        return self.viewed[1]
