"""Interpreted kernels in Gluon: barriers and blocks of tensors; attention is in `test_hopper_attention`."""

import threading

import numpy as np
import pytest

from oneflow.lowering.triton.templates.warp_specialization import IMPORTS
from oneflow.testing.gluon_interpreter import Barrier, interpret_gluon

HEAD = (
    IMPORTS
    + """

@gluon.jit
def barrier():
    bar = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout()).index(0)
    mbarrier.init(bar, count=1)
    return bar


@gluon.jit
def read(all_rows, rows, bar):
    mbarrier.expect(bar, 2 * 4 * 8 - {missing})
    load_block(all_rows, [gl.program_id(0) * 4, 0], bar, rows)


@gluon.jit
def double(rows, bar, target):
    mbarrier.wait(bar, 0)
    lines = gl.arange(0, 4, gl.SliceLayout(1, None))[:, None]
    lanes = gl.arange(0, 8, gl.SliceLayout(0, None))[None, :]
    line = gl.program_id(0) * 4 + lines
    gl.store(target + line * 8 + lanes, rows.load(None) * 2, line < 6)


@gluon.jit
def kernel(p0, p1):
    bar = barrier()
    all_rows = tma.make_tensor_descriptor(p0, [6, 8], [8, 1], [4, 8], None)
    rows = gl.allocate_shared_memory(gl.float16, [4, 8], None)
    gl.warp_specialize([(double, (rows, bar, p1)), (read, (all_rows, rows, bar))], [1], [24])
"""
)


def run(missing, timeout=60.0):
    source, target = np.arange(48, dtype=np.float16), np.full(48, -1, np.float16)
    addresses = [a.ctypes.data for a in (source, target)]
    interpret_gluon(HEAD.replace("{missing}", str(missing)), "kernel", ["*fp16", "*fp16"], addresses, 2, timeout)
    return source, target


def test_warps_wait_for_copies_and_blocks_end_where_tensors_do():
    source, target = run(missing=0)
    np.testing.assert_array_equal(target, source * 2)


@pytest.mark.parametrize("missing", [16, -16])
def test_waits_without_arrival_time_out(missing):
    """Waits for fewer or more bytes than are copied."""
    with pytest.raises(TimeoutError, match="expected a barrier to complete its phase"):
        run(missing, timeout=0.2)


def test_phases_follow_each_other():
    bar = Barrier()
    bar.init(2)
    bar.wait(1)
    for phase in range(3):
        late = threading.Timer(0.05, bar.arrive)
        bar.arrive()
        late.start()
        bar.wait(phase & 1)
        late.join()
    assert bar.phase == 3
