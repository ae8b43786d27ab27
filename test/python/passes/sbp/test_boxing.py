"""Boxing between any two layouts: values by simulation, bytes against OneFlow's table and the least possible."""

import itertools
import math

import numpy as np
import pytest
from sbp_programs import annotate, check_distributed, distribute

from oneflow.dialect.nd_sbp import devices, local_region
from oneflow.dialect.sbp import B, P, S
from oneflow.passes.sbp.boxing import Boxing, BoxingError

MESHES = [(2,), (3,), (1, 2), (1, 3), (2, 2), (2, 3)]


def layouts(mesh, rank, sums=True):
    kinds = [B, *([P] if sums else []), *(S(i) for i in range(rank))]
    return list(itertools.product(kinds, repeat=len(mesh)))


def all_pairs(mesh, shape, dtype, sums):
    """A function that takes one tensor in every layout and returns each in every layout."""
    every = layouts(mesh, len(shape), sums)
    kind = f"tensor<{'x'.join([*map(str, shape), dtype])}>"
    arguments = ", ".join(f"%x{i}: {kind} {annotate(nd)}" for i, nd in enumerate(every))
    results = ", ".join(f"{kind} {annotate(nd)}" for _ in every for nd in every)
    values = ", ".join(f"%x{i}" for i, _ in enumerate(every) for _ in every)
    kinds = ", ".join([kind] * len(every) ** 2)
    return f"func.func @main({arguments}) -> ({results}) {{\n  return {values} : {kinds}\n}}", len(every)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (7, 1), (2, 0), (1,), ()], ids=str)
def test_boxing_between_every_pair_of_layouts(mesh, shape, context):
    """Even, uneven and empty shards, partial sums of both signs."""
    with context:
        text, count = all_pairs(mesh, shape, "f64", True)
        module = distribute(text, context, mesh)
        rng = np.random.default_rng(1)
        arrays = [rng.integers(-9, 9, shape).astype(np.float64) for _ in range(count)]
        check_distributed(module, arrays, [a for a in arrays for _ in range(count)], tolerance=0)


@pytest.mark.parametrize("dtype", ["i1", "i32", "f16", "bf16"])
def test_element_types(dtype, context):
    """Bools are split and gathered but never summed; 16-bit floats are summed in f32."""
    with context:
        text, count = all_pairs((2,), (3, 2), dtype, dtype != "i1")
        module = distribute(text, context, (2,))
        kinds = {"i1": np.bool_, "i32": np.int32, "f16": np.float16}
        numbers = np.arange(6).reshape(3, 2) - 3
        bf16 = __import__("ml_dtypes").bfloat16
        arrays = [numbers.astype(kinds.get(dtype, bf16))] * count
        check_distributed(module, arrays, [a for a in arrays for _ in range(count)], tolerance=0)


def test_boxing_on_three_mesh_axes(context):
    """Some pairs on a mesh of three axes."""
    every = layouts((2, 2, 2), 2)
    pairs = [(every[(7 * i) % len(every)], every[(29 * i + 11) % len(every)]) for i in range(40)]
    kind = "tensor<6x5xf64>"
    with context:
        arguments = ", ".join(f"%x{i}: {kind} {annotate(a)}" for i, (a, _) in enumerate(pairs))
        results = ", ".join(f"{kind} {annotate(b)}" for _, b in pairs)
        values = ", ".join(f"%x{i}" for i in range(40))
        text = f"func.func @main({arguments}) -> ({results}) {{ return {values} : {', '.join([kind] * 40)} }}"
        module = distribute(text, context, (2, 2, 2))
        arrays = [np.arange(30.0).reshape(6, 5) * (i + 1) for i in range(40)]
        check_distributed(module, arrays, arrays, tolerance=0)


@pytest.mark.parametrize("p", [2, 3, 4])
def test_bytes_equal_oneflows_bytes(p):
    """For even splits on one axis the bytes equal OneFlow's count."""
    total = 12 * 24 * 4
    table = {
        (P, B): 2 * total * (p - 1),
        (P, S(0)): total * (p - 1),
        (P, S(1)): total * (p - 1),
        (S(0), B): total * (p - 1),
        (S(1), B): total * (p - 1),
        (S(0), S(1)): total * (p - 1) // p,
        (B, S(0)): 0,
        (B, P): 0,
        (S(1), P): 0,
        (B, B): 0,
    }
    boxing = Boxing((p,))
    for (source, target), want in table.items():
        assert boxing.cost((source,), (target,), (12, 24), 4) == want, (source, target)


@pytest.mark.parametrize("shape", [(8, 12), (5, 7)])
@pytest.mark.parametrize("mesh", [(4,), (2, 2), (2, 3)])
def test_bytes_are_the_least(mesh, shape):
    """Without partial sums no rank receives elements that the rank has or does not need."""
    boxing = Boxing(mesh)
    for source, target in itertools.product(layouts(mesh, 2, False), repeat=2):
        least = sum(missing(shape, source, target, mesh, r) for r in range(devices(mesh)))
        assert boxing.cost(source, target, shape, 4) == 4 * least, (source, target)


def missing(shape, source, target, mesh, rank):
    """The number of elements that a rank needs and lacks, counted element by element."""
    have, need = (np.zeros(shape, bool) for _ in range(2))
    for mask, nd in ((have, source), (need, target)):
        mask[tuple(slice(b, b + n) for b, n in local_region(shape, nd, mesh, rank))] = True
    return int((need & ~have).sum())


def test_sums_over_two_axes_are_one_reduction():
    """Reducing along two mesh axes at once moves less than one after the other."""
    (step,) = Boxing((2, 2)).path((P, P), (B, B), (4, 4), 4)
    assert (step.kind, step.axes, step.bytes) == ("all_reduce", (0, 1), 2 * 64 * 3)
    (step,) = Boxing((2, 3)).path((P, P), (S(0), S(0)), (12, 4), 4)
    assert (step.kind, step.bytes) == ("reduce_scatter", math.prod((12, 4, 4)) * 5)


def test_bools_are_not_summed():
    """No boxing leads to partial sums of bools."""
    with pytest.raises(BoxingError, match="no boxing leads from B to P"):
        Boxing((2,)).path((B,), (P,), (4,), 0)
