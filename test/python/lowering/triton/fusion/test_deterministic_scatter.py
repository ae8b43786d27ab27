"""Parallel writes to positions that may be equal: the last writer wins; an invalid position stops all writes."""

from typing import Any

import numpy as np
import pytest
from lowered import lower

import oneflow as flow
from oneflow.frontend.core.dispatch import dispatch
from oneflow.runtime.failures import OutOfBoundsError
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.triton_interpreter import interpret_program

RNG = np.random.default_rng(5)
KINDS = {"i64": np.int64, "i32": np.int32, "f32": np.float32, "f16": np.float16, "i1": np.bool_}
#: Sizes of the tensor and of the positions, the number of axes of a position, and the element type.
CASES = [
    ((40, 5), (30,), 1, "f32"), ((7, 300), (50,), 1, "f16"), ((5, 6, 3), (9, 4), 2, "i64"), ((4, 9), (60,), 2, "i1"),
    ((3,), (33,), 1, "i32"), ((6, 2), (17,), 1, "f32"),
]  # fmt: skip


def program_of(shape, at, depth, kind, donated="", dynamic=False):
    lead = ("?",) if dynamic else at
    sizes = (*shape, kind), (*lead, depth, "i64"), (*lead, *shape[depth:], kind)
    types = ", ".join(f"tensor<{'x'.join(map(str, s))}>" for s in sizes)
    x, i, v = types.split(", ")
    return lower(f"""func.func @main(%x: {x}{donated}, %i: {i}, %v: {v}) -> {x} {{
      %0 = "oneflow.tensor_scatter_nd_update"(%x, %v, %i) : ({x}, {v}, {i}) -> {x}
      return %0 : {x}
    }}""")


def arrays_of(shape, at, depth, kind):
    x = (RNG.standard_normal(shape) * 100).astype(KINDS[kind])
    positions = np.stack([RNG.integers(0, n, at) for n in shape[:depth]], -1)
    values: Any = (RNG.standard_normal((*at, *shape[depth:])) * 100).astype(KINDS[kind])
    return x, positions, values


def updated(x, positions, values):
    out = x.copy()
    for at in np.ndindex(positions.shape[:-1]):
        out[tuple(positions[at])] = values[at]
    return out


@pytest.mark.parametrize("donated", ["", " {oneflow.donated = 0 : i64}"], ids=["copied", "in place"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_last_writer_wins(case, donated):
    arrays = arrays_of(*case)
    program = program_of(*[*case, donated])
    (got,) = interpret_program(program, *arrays)
    np.testing.assert_array_equal(got, updated(*arrays))
    assert "tl.atomic_max" in program.text and "for at" not in program.text


def test_a_dynamic_number_of_positions():
    program = program_of((6, 3), (None,), 1, "f32", dynamic=True)
    for count in (0, 1, 29):
        arrays = arrays_of((6, 3), (count,), 1, "f32")
        np.testing.assert_array_equal(interpret_program(program, *arrays)[0], updated(*arrays))
    assert "tl.atomic_max" in program.text and "for at" not in program.text


def test_few_positions_are_written_in_order():
    arrays = arrays_of((6, 3), (4,), 1, "f32")
    program = program_of((6, 3), (4,), 1, "f32")
    np.testing.assert_array_equal(interpret_program(program, *arrays)[0], updated(*arrays))
    assert "tl.atomic_max" not in program.text


@pytest.mark.parametrize(("steps", "has_last_writers"), [(32, False), (1 << 12, True)])
def test_few_of_very_many_positions_are_written_in_order(steps, has_last_writers):
    """The last writers of all positions would take twice the memory of the tensor."""
    program = program_of((1 << 15, 1 << 15), (steps,), 2, "f16", " {oneflow.donated = 0 : i64}")
    assert ("run.fill(" in program.plan and "1073741825" in program.plan) == has_last_writers


ONE = [((40, 5), (), 2, "f32"), ((40, 5), (1,), 2, "i1"), ((4, 3), (), 1, "i64"), ((9,), (1, 1), 1, "f16")]


@pytest.mark.parametrize("donated", ["", " {oneflow.donated = 0 : i64}"], ids=["copied", "in place"])
@pytest.mark.parametrize("case", ONE, ids=str)
def test_a_single_position_is_read_by_the_kernel(case, donated):
    x, at, v = arrays_of(*case)
    program = program_of(*[*case, donated])
    np.testing.assert_array_equal(interpret_program(program, x, at, v)[0], updated(x, at, v))
    assert not program.hosts and "run.read" not in program.text and "run.launch" in program.text
    kept = x.copy()
    with pytest.raises(OutOfBoundsError, match=r"got 1000$"):
        interpret_program(program, x, np.full_like(at, 1000), v)
    np.testing.assert_array_equal(x, kept)


def rows(w, at, v):
    w[at] = v


def columns(w, at, v):
    w[:, at] = v.T


def inner_columns(w, at, v):
    w[1:, at] = v.T[1:]


def elements(w, at, v):
    w[at, at] = v[:, 0]


def added(w, at, v):
    w.copy_(dispatch("dim_scatter_add", w, at.unsqueeze(1).expand(-1, 5), v, dim=0))


@pytest.mark.parametrize(("count", "wrong"), [(3, 5), (40, 5), (40, -6)])
@pytest.mark.parametrize("update", [rows, columns, inner_columns, elements, added], ids=lambda f: f.__name__)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_invalid_position_stops_all_writes(update, count, wrong, device, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    values = RNG.standard_normal((5, 5)).astype(np.float32)
    at, v = RNG.integers(0 if update is added else -5, 5, count), RNG.standard_normal((count, 5)).astype(np.float32)
    with host_cuda():
        w = flow.tensor(values).to(device)

        @flow.compile
        def run(at, v):
            update(w, at, v)
            return v.sum()

        given = [flow.tensor(x).to(device) for x in (at, v)]
        run(*given).numpy()
        kept, plain = w.numpy().copy(), flow.tensor(values)
        update(plain, flow.tensor(at), flow.tensor(v))
        np.testing.assert_allclose(kept, plain.numpy(), 1e-5, 1e-5)
        given[0][count // 2] = wrong
        with pytest.raises(OutOfBoundsError, match=rf"expected an index in \[0, 5\), got {wrong}"):
            run(*given).numpy()
        np.testing.assert_array_equal(w.numpy(), kept)
