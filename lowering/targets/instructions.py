"""GPU instructions of tensor cores (mma, wgmma, tcgen05) and TMA (blocks, shared-memory swizzle), on every GPU.

Values are from the PTX ISA (https://docs.nvidia.com/cuda/parallel-thread-execution).
"""

from __future__ import annotations

from dataclasses import dataclass

#: The threads of a warp, the warps of a warp group, and the most warps of a program.
WARP, WARP_GROUP, MAX_WARPS = 32, 4, 32
#: The most registers of a thread, and the granularity of register counts.
MAX_THREAD_REGISTERS, REGISTER_STEP = 255, 8
#: The shared memory of a program that has not asked for more.
DEFAULT_SHARED_BYTES = 48 << 10
#: The bytes that a thread loads or stores at once, to which kernels assume that every tensor is aligned.
VECTOR_BYTES = 16
#: The shortest side of an operand of `tl.dot`: the block of an instruction of tensor cores.
MIN_DOT_SIDE = 16


@dataclass(frozen=True)
class TensorCoreShape:
    """The block of a matrix product that one instruction of tensor cores multiplies.

    Attributes:
        instruction: the name in PTX.
        rows, max_columns: of the result.
        depth_bytes: bytes of a row of the left operand: the depth is 16 elements of 16 bits, 8 of 32, 32 of 8.
        warps: warps that issue the instruction together.
        reads_shared: whether operands are read from shared memory, without registers between.
        float8_depth: depth after which a sum of products of 8-bit floats is added to an f32 accumulator, since the
            accumulators of the instruction have fewer bits than f32; 0 where they have the bits of f32.
        min_registers: the fewest registers of a thread of a warp group that releases registers to other warp
            groups (`setmaxnreg`); 0 where there is no such instruction.
    """

    instruction: str
    rows: int
    max_columns: int
    depth_bytes: int
    warps: int
    reads_shared: bool = False
    float8_depth: int = 0
    min_registers: int = 0


MMA_TURING = TensorCoreShape("mma.m16n8k8", rows=16, max_columns=8, depth_bytes=16, warps=1)
MMA = TensorCoreShape("mma.m16n8k16", rows=16, max_columns=8, depth_bytes=32, warps=1)
WGMMA = TensorCoreShape(
    "wgmma", rows=64, max_columns=256, depth_bytes=32, warps=WARP_GROUP, reads_shared=True, float8_depth=128,
    min_registers=24,
)  # fmt: skip
TCGEN05 = TensorCoreShape(
    "tcgen05.mma", rows=128, max_columns=256, depth_bytes=32, warps=1, reads_shared=True, min_registers=24
)


@dataclass(frozen=True)
class TensorMemoryAccelerator:
    """The limits of a tensor descriptor.

    Attributes:
        alignment_bytes: strides, and the bytes of a row of a block, are multiples of this.
        swizzle_bytes: bytes of a row of a block in shared memory whose reads have no bank conflicts.
        max_block_side: the longest side of a block.
        max_rank: the most dimensions.
    """

    alignment_bytes: int
    swizzle_bytes: int
    max_block_side: int
    max_rank: int


TMA = TensorMemoryAccelerator(alignment_bytes=16, swizzle_bytes=128, max_block_side=256, max_rank=5)
