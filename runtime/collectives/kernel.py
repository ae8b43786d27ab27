"""Collectives as kernels that a compiled program calls between its own, like those of users' libraries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from oneflow.dialect.external import ExternalKernel, as_array, python_kernel
from oneflow.dialect.nd_sbp import Mesh, group
from oneflow.dialect.record import Call
from oneflow.runtime.collectives.nccl import Gpus, NcclTransport
from oneflow.runtime.collectives.operations import carry_out, packing_bytes
from oneflow.runtime.collectives.transport import Array, Transport, World


@dataclass
class Collectives:
    """Makes the kernels of one rank's program, in program order.

    Attributes:
        world: all ranks.
        mesh: the mesh of the program.
        ranks: the rank of the world at each place of the mesh.
        place: where in the mesh this program stands.
        sites: where in the program each collective is, in order.
        gpus: the ways between devices, where the program runs on those.
    """

    world: World
    mesh: Mesh
    ranks: Sequence[int]
    place: int
    sites: Sequence[str]
    gpus: Gpus | None = None
    _made: int = field(default=0, init=False)

    def kernel(self, op: Call) -> ExternalKernel:
        """The kernel of the program's next collective, on static descriptions."""
        axes, stated = list(op.attrs["mesh_axes"]), list(op.attrs["ranks"])
        members = [self.ranks[m] for m in stated or group(self.place, self.mesh, axes)]
        number = self._made
        self._made += 1
        among = f"between ranks {members}" if stated else f"along mesh axes {axes}"
        text = f"step {number}, oneflow.{op.record.name} {among} ({self.sites[number]})"
        transport = (self.gpus or self.world).transport(self.ranks[self.place], members)
        return _Kernel(op, transport, self.world, self.ranks[self.place], number, text).external()

    def launch_scope(self) -> AbstractContextManager[None]:
        """What all collectives of the program are started in at once, by a device that has them recorded."""
        count = len(self.sites)
        text = f"steps 0 to {count - 1} at once, of a program with {count} collectives ({self.sites[-1]})"
        return self.world.step(self.ranks[self.place], count - 1, text, count)


@dataclass
class _Kernel:
    """One rank's part in one collective of a program."""

    op: Call
    transport: Transport
    world: World
    rank: int
    number: int
    text: str
    room: int = 0
    seen: tuple[tuple[int, ...], list[Array]] = ((), [])

    def external(self) -> ExternalKernel:
        """What the program calls."""
        if not isinstance(self.transport, NcclTransport):
            return python_kernel(self._run)
        sides = self.op.operands, self.op.results
        packed = packing_bytes(self.op.record.name, self.transport, self.op.attrs, *sides)
        self.room = packed or 0
        return python_kernel(self._run, True, self.room, packed is not None)

    def _run(self, buffers: Sequence[int], stream: int) -> None:
        """Carries the collective out."""
        count, arrays = len(self.op.operands), self._arrays(buffers)
        room = buffers[len(arrays)] if self.room else 0
        with self.world.step(self.rank, self.number, self.text), self.transport.on(stream, room):
            carry_out(self.op.record.name, self.transport, self.op.attrs, arrays[:count], arrays[count:])

    def _arrays(self, buffers: Sequence[int]) -> list[Array]:
        """The operands and results; runs on the same memory, as those of a training step are, share them."""
        descs = (*self.op.operands, *self.op.results)
        addresses = tuple(buffers[i] for i in range(len(descs)))
        if addresses != self.seen[0]:
            self.seen = addresses, list(map(as_array, addresses, descs))
        return self.seen[1]
