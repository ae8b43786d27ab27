"""Warp-specialized f32 products for Hopper, in Gluon: a producer warp loads by TMA, the others multiply by FMA.

The consumer warps do without tensor cores. They use each number from shared memory 8 or 16 times, twice as often as
the plain kernel, and load 16 bytes at a time without bank conflicts. `codegen.matmul` writes the epilogue.
"""

from __future__ import annotations

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.matmul import OPERAND_AXES, TILE_AXES, Emission
from oneflow.lowering.triton.templates.hopper_matmul import HopperEmission, axis_order, transposition

#: Registers of a thread on average, besides half of its accumulators': the producer has few.
OTHER_REGISTERS = 64
#: Threads of a warp along rows and columns.
WARP_SHAPE = (4, 8)


class HopperF32Emission(HopperEmission):
    """Writes the kernel of an f32 product; the consumer warps share a tile."""

    def _partition_tile(self) -> None:
        rows, columns, warps = self.config.rows, self.config.columns, self.config.warps
        self.groups_per_tile, self.groups, self.rows, self.columns = 1, 1, rows, [columns]
        self.slice_columns, self.slices = columns, []
        average = rows * columns // (64 * warps) + OTHER_REGISTERS
        self.registers = 0, average
        self.max_programs = gpu_target().sms * (gpu_target().sm_registers // (32 * average * 2 * warps))

    @property
    def is_possible(self) -> bool:
        """Whether TMA can read both operands."""
        return None not in self.operands.values() and self.config.stages > 1 and not self.kernel.checks

    def _accumulator_layout(self, columns: int) -> str:
        """A thread loads 16 contiguous bytes of an operand at a time."""
        warps = 2, self.config.warps // 2
        operands = zip(self._present_operands(), "mn", strict=True)
        contiguous = [axis_order(descriptor)[-1] == side for (_, descriptor), side in operands]
        each = [
            4 if is_contiguous else 8 // lanes for is_contiguous, lanes in zip(contiguous, WARP_SHAPE, strict=True)
        ]
        return f"tl.BlockedLayout({each}, {list(WARP_SHAPE)}, {list(warps)}, [1, 0])"

    def _step_lines(self) -> list[str]:
        """A step; its buffers are released once they have been loaded.

        The fence orders these loads before the next TMA writes, which go through the asynchronous proxy.
        """
        layout = self._accumulator_layout(self.config.columns)
        operands = zip("ab", self._present_operands(), OPERAND_AXES, strict=True)
        loads = [
            f"{name} = {memory}.index(slot){transposition(descriptor, sides)}"
            f".load(tl.DotOperandLayout({number}, {layout}, 0))"
            for number, (name, (memory, descriptor), sides) in enumerate(operands)
        ]
        return [
            *self._wait_lines(),
            *loads,
            "acc0 = tl.dot_fma(a, b, acc0)",
            "fence_async_shared()",
            "mbarrier.arrive(empty.index(slot))",
            "count += 1",
        ]

    def _epilogue_lines(self) -> list[str]:
        self._select_part(0, self.config.columns)
        self.writer.open(TILE_AXES)
        for axis in "bmn":
            self.tile.place(self._axis(axis))
        self._epilogue_slice("acc0")
        return [str(line) for line in self.writer.scopes.pop().lines]

    _store = Emission._store
