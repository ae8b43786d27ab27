"""Products of f32 on Hopper, in Gluon: one warp reads operands, the others multiply with plain arithmetic.

Warps of plain kernels read blocks from memory themselves and use each number that they find in shared memory 4 or 8
times. Here a number is used 8 or 16 times, and threads of a warp find theirs in different banks, by 16 bytes at once.
Lines that `contract` writes finish sums.
"""

from __future__ import annotations

from oneflow.lowering.targets.choice import gpu_target
from oneflow.lowering.triton.codegen.matmul import OPERAND_AXES, TILE_AXES, Emission
from oneflow.lowering.triton.templates.hopper_matmul import HopperEmission, order, turned

#: Registers of a thread on average, beside half of those of its part of the sum: warps that read have few.
OTHERS = 64
#: Threads of a warp along rows and columns.
WARP = (4, 8)


class SingleEmission(HopperEmission):
    """One source in Gluon; all warps but the one that reads have a tile together."""

    def _share_out(self) -> None:
        rows, columns, warps = self.config.rows, self.config.columns, self.config.warps
        self.beside, self.groups, self.rows, self.columns, self.part, self.parts = 1, 1, rows, [columns], columns, []
        average = rows * columns // (64 * warps) + OTHERS
        self.registers = 0, average
        self.most = gpu_target().sms * (gpu_target().sm_registers // (32 * average * 2 * warps))

    @property
    def is_possible(self) -> bool:
        """Whether operands are read by descriptors."""
        return None not in self.operands.values() and self.config.stages > 1 and not self.kernel.checks

    def _threads(self, columns: int) -> str:
        """Numbers of an operand that lie beside each other along its rows or columns are found at once."""
        warps = 2, self.config.warps // 2
        along = [order(d)[-1] == side for d, side in zip(self.operands.values(), "mn", strict=True)]
        each = [4 if beside else 8 // lanes for beside, lanes in zip(along, WARP, strict=True)]
        return f"tl.BlockedLayout({each}, {list(WARP)}, {list(warps)}, [1, 0])"

    def _step_lines(self) -> list[str]:
        """A step: its blocks are given back once they have been read.

        Without the fence loads may be on their way still when the next blocks come, which are written past them.
        """
        layout = self._threads(self.config.columns)
        loads = [
            f"{name} = {memory}.index(slot){turned(d, sides)}.load(tl.DotOperandLayout({number}, {layout}, 0))"
            for number, (name, (memory, d), sides) in enumerate(
                zip("ab", self.operands.items(), OPERAND_AXES, strict=True)
            )
        ]
        return [
            *self._await_lines(),
            *loads,
            "acc0 = tl.dot_fma(a, b, acc0)",
            "fence_async_shared()",
            "mbarrier.arrive(empty.index(slot))",
            "count += 1",
        ]

    def _finish_lines(self) -> list[str]:
        self._look_at_part(0, self.config.columns)
        self.writer.open(TILE_AXES)
        for axis in "bmn":
            self.tile.place(self._axis(axis))
        self._epilogue_slice("acc0")
        return self.writer.scopes.pop().lines

    _store = Emission._store
