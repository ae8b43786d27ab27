"""Reductions over columns in chunks: values against NumPy in the interpreter, and the shapes of blocks."""

import numpy as np
import pytest
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.selection import gpu_target
from oneflow.testing.triton_interpreter import interpret_program

F = flow.nn.functional


def columns(rows, count=70):
    """Columns with infinities, NaN and equal elements; the last chunk has a mask."""
    x = np.random.default_rng(rows).standard_normal((rows, count)).astype(np.float32) * 4
    x[:, 0], x[5:, 1], x[:, 2] = -np.inf, -np.inf, x[0, 2]
    x[rows // 2, 3], x[rows - 1, 4], x[rows // 2, 5], x[3, 5] = np.nan, np.inf, x[:, 5].max() + 1, np.nan
    x[[1, rows - 1], 6], x[[2, rows - 2], 7], x[0, 8] = 99, np.inf, 1e30
    return x


def program(function, *shape):
    found = program_of(function, [shape], flow.float32)
    assert "for r_at" in found.text and "[None, :]" in found.text
    return found


@pytest.mark.parametrize("rows", [300, 512])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_columns(name, rows):
    """Each lane has a separate maximum; sums are relative to this maximum until the column's maximum is known."""
    function = {"softmax": lambda x: F.softmax(x, 0), "log_softmax": lambda x: F.log_softmax(x, 0)}[name]
    x = columns(rows)
    (got,) = interpret_program(program(function, *x.shape), x)
    with np.errstate(all="ignore"):
        shifted = x.astype(np.float64) - x.max(0)
        want = shifted - np.log(np.exp(shifted).sum(0))
    np.testing.assert_allclose(got, np.exp(want) if name == "softmax" else want, 1e-5, 1e-6)
    assert np.isnan(want[:, [0, 3, 4, 5, 7]]).all() and np.isfinite(want[:, [2, 6, 8]]).all()


def test_sums_of_other_exponentials():
    """The exponents are other values than the operand of the maximum."""

    def function(x):
        return flow.exp(0.5 * x - x.amax(0, keepdim=True)).sum(0)

    x = np.ascontiguousarray(columns(300)[:, 9:])
    (got,) = interpret_program(program(function, *x.shape), x)
    np.testing.assert_allclose(got, np.exp(0.5 * x.astype(np.float64) - x.max(0)).sum(0), 1e-4)


@pytest.mark.parametrize("rows", [300, 512])
@pytest.mark.parametrize(("name", "reference"), [("argmax", np.argmax), ("argmin", np.argmin)])
def test_positions_in_columns(name, reference, rows):
    """The first of equal elements, and of NaN, in positions of 32 bits."""
    x = columns(rows)
    found = program(lambda x: getattr(flow, name)(x, 0), *x.shape)
    assert ".to(tl.int32)" in found.text
    np.testing.assert_array_equal(interpret_program(found, x)[0], reference(x, 0))


@pytest.mark.parametrize(("count", "block"), [(16384, 64), (8192, 64), (4096, 32), (1024, 16), (16, 16)])
def test_few_columns_have_larger_blocks(count, block):
    """An SM has as many loads in flight with one program as with several programs."""
    (source,) = program_of(lambda x: flow.argmax(x, 0), [(4096, count)], flow.float32).sources.values()
    programs = -(-count // block)
    per_sm = -(-programs // gpu_target().sms)
    assert source.grid.static == programs and source.warps == 16 // per_sm
    assert f"tl.arange(0, {512 * source.warps // block})[None, :]" in source.text
