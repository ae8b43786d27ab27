"""A sum of products with equal loops becomes one kernel that accumulates the terms."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.triton.cost.matmul_configurations import configs_of
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.pipeline import Pipeline
from oneflow.testing.triton_interpreter import interpret_program

TMA_CONFIGS = configs_of(HOPPER_TILES.tma)
PASSES = pipeline_between(None, "triton")

ROWS, COLUMNS, DEPTH = 2 * 24, 40, 64
PAIR = [(2, ROWS // 2, DEPTH), (DEPTH, COLUMNS)]


@pytest.fixture(autouse=True)
def without_horizontal_fusion(change_gpu):
    """Without horizontal fusion, so that kernels can be counted as launches."""
    change_gpu(launches={"max_fused_entry_calls": 0})


def lowered(function, arrays, dtype, passes=PASSES):
    module = flow.trace(function, *(flow.TensorSpec(a.shape, dtype) for a in arrays))
    with module.context, ir.Location.unknown():
        Pipeline.parse(passes, module.context).run(module, REGISTRY)
    return read_program(module)


def normal(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(s).astype(np.float16) for s in shapes]


def check(function, arrays, kernels, dots):
    """Results are rounded once: the error against the f64 sum is at most one unit in the last place of f16."""
    program = lowered(function, arrays, flow.float16)
    assert program.plan.count("run.launch") == kernels
    assert [s.text.count("tl.dot(") for s in program.sources.values()] == dots
    want = function(*(a.astype(np.float64) for a in arrays))
    got = interpret_program(program, *arrays)
    for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        rounded = other.astype(np.float16).astype(np.float64)
        # Sums are f32: a few roundings of the largest are allowed, since the order of additions differs.
        in_f32 = 4 * np.spacing(np.float32(np.abs(other).max()))
        distance = np.abs(one.view(np.float16) - rounded) - np.spacing(np.abs(rounded).astype(np.float16))
        assert distance.max() <= in_f32


SUMS = {
    "of two": lambda a, b, c, d, e, f: a @ b + c @ d,
    "of three": lambda a, b, c, d, e, f: a @ b + c @ d + e @ f,
    "with the later one first": lambda a, b, c, d, e, f: (c @ d) + (a @ b + e @ f),
    "of one operand": lambda a, b, c, d, e, f: a @ b + a @ d + a @ f,
    "and what follows": lambda a, b, c, d, e, f: (a @ b + c @ d) * 0.5,
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products(name):
    terms = 2 if name in ("of two", "and what follows") else 3
    check(SUMS[name], normal(*PAIR * 3), 1, [terms])


def test_transposed_operands():
    arrays = normal((ROWS, DEPTH), (COLUMNS, DEPTH), (ROWS, DEPTH), (DEPTH, COLUMNS))
    check(lambda a, b, c, d: a @ b.T + c @ d, arrays, 1, [2])


ONE_LOOP = {
    "whole steps": ([(2, 64, 256), (256, 128)] * 3, 1),
    "batches": ([(2, 2, 64, 128), (2, 2, 128, 64)] * 3, 1),
    "a part of a step": ([(2, 64, 96), (96, 128)] * 3, 3),
}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", ONE_LOOP)
def test_one_loop_through_all_terms(name, persistent, change_gpu):
    """Where the depth of each term is whole steps read by TMA; only then can the kernel be persistent."""
    shapes: Any
    shapes, dots = ONE_LOOP[name]
    kinds = (True, False) if persistent else (False,)
    configs = [replace(TMA_CONFIGS[-1], persistent=kind) for kind in kinds]
    change_gpu(overrides={"tiles": tuple(configs)})
    arrays = normal(*shapes)
    check(SUMS["of three"], arrays, 1, [dots])
    (source,) = lowered(SUMS["of three"], arrays, flow.float16).sources.values()
    assert ("for tile in" in source.text) == (persistent and dots == 1)


def test_terms_of_different_layouts_have_separate_loops(change_gpu):
    change_gpu(overrides={"tiles": (TMA_CONFIGS[-1],)})
    check(lambda a, b, c, d: a @ b.T + c @ d, normal((64, 256), (128, 256), (64, 256), (256, 128)), 1, [2])


def test_a_kernel_has_few_terms():
    arrays = normal(*PAIR * 2)

    def four(a, b, c, d):
        return a @ b + c @ d + (a @ d + c @ b)

    check(four, arrays, 1, [4])
    passes = PASSES.replace("join-products", "join-products{terms=3}")
    program = lowered(four, arrays, flow.float16, passes)
    assert sorted(s.text.count("tl.dot(") for s in program.sources.values()) == [2, 2]


OTHERS = {
    "of other depths": (lambda a, b, c, d: a @ b + c @ d, [*PAIR, (2, ROWS // 2, 32), (32, COLUMNS)]),
    "of a tensor": (lambda a, b, c, d: a @ b + c, [*PAIR, (2, ROWS // 2, COLUMNS), (1,)]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_sums_of_unequal_loops_are_not_joined(name):
    function, shapes = OTHERS[name]
    program = lowered(function, normal(*shapes), flow.float16)
    assert all(s.text.count("tl.dot(") <= 1 for s in program.sources.values())


def test_a_term_with_another_user_is_not_joined():
    def both(a, b, c, d):
        p = a @ b
        return p, p + c @ d

    program = lowered(both, normal(*PAIR * 2), flow.float16)
    assert sorted(s.text.count("tl.dot(") for s in program.sources.values()) == [1, 1]


def test_f32_products_are_not_joined():
    program = lowered(lambda a, b, c, d: a @ b + c @ d, normal(*PAIR * 2), flow.float32)
    assert all(s.text.count("tl.dot(") <= 1 for s in program.sources.values())


def test_sums_of_products_have_no_split_k_if_a_term_has_none():
    """A product of this depth would be split but for its warp-specialized form, which a sum of products lacks."""
    arrays = [np.empty(shape, np.float16) for shape in [(768, 12288), (12288, 3072)] * 2]
    program = lowered(lambda a, b, c, d: a @ b + c @ d, arrays, flow.float16)
    assert [(s.text.count("tl.dot("), bool(s.specializations)) for s in program.sources.values()] == [(1, False)]
