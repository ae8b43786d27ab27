"""Small calls of one kernel that are one launch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from call_counts import recorded
from lowered import lower

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.lowering.kernels.graph import callee_of
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.triton.cost.matmul_configurations import Product, configs_of, grouped_launch_sizes
from oneflow.lowering.triton.launch import grouped_launches
from oneflow.lowering.triton.launch.grouped_launches import grouped
from oneflow.lowering.triton.source import Parameter, Source
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

TMA_CONFIGS = configs_of(HOPPER_TILES.tma)


def updates(count, extra="", kind="tensor<40x50xf32>"):
    """`count` parameters of one shape, each updated by its gradient."""
    names = [f"%{n}{i}: {kind}" for i in range(count) for n in "pg"]
    lines = [
        f'%r{i} = "oneflow.sgd_update"(%p{i}, %g{i}) {{learning_rate_val = 0.5 : f32,'
        f" operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>}} : ({kind}, {kind}) -> {kind}"
        for i in range(count)
    ]
    results = ", ".join(f"%r{i}" for i in range(count))
    kinds = ", ".join([kind] * count)
    return (
        f"func.func @main({', '.join(names)}) -> ({kinds}) {{\n"
        + "\n".join(lines)
        + f"\n{extra}\nreturn {results} : {kinds}\n}}"
    )


@pytest.mark.parametrize("count", [2, 5, 40])
def test_updates_are_one_launch(count):
    program = lower(updates(count))
    assert program.plan.count("run.launch") == 1 and list(program.sources) == [f"main_kernel_0_x{count}"]
    arrays = [np.random.default_rng(i).standard_normal((40, 50)).astype(np.float32) for i in range(2 * count)]
    results = interpret_program(program, *arrays)
    for index, got in enumerate(results):
        np.testing.assert_allclose(got, arrays[2 * index] - 0.5 * arrays[2 * index + 1], 1e-6)
    assert compile_source(program.sources[f"main_kernel_0_x{count}"]).cubin


@pytest.mark.parametrize(
    ("kind", "grids"),
    [
        ("tensor<768x768xf32>", {"main_kernel_0_x26": 14976, "main_kernel_0_x4": 2304}),
        ("tensor<3072x768xf32>", {"main_kernel_0_x13": 29952, "main_kernel_0_x4": 9216}),
        ("tensor<3072x3072xf32>", {"main_kernel_0": 9216}),
    ],
)
def test_larger_updates_are_grouped_in_smaller_numbers(kind, grids):
    """Of 3 parameters each, 26 are allowed by 80 parameters; products of 9216 programs fill the device alone."""
    program = lower(updates(30, kind=kind))
    assert {name: source.grid.static for name, source in program.sources.items()} == grids


def test_operations_are_not_searched_for_each_kernel(monkeypatch):
    """Updates of 3 and of 9 sizes: there are 3 times as many kernels and calls, so 3 times as much is asked."""

    def program(sizes):
        lines = [
            f'%r{n}_{i} = "oneflow.relu"(%p{n}_{i}) : (tensor<{n}xf32>) -> tensor<{n}xf32>'
            for n in sizes for i in range(4)
        ]  # fmt: skip
        kinds = [f"tensor<{n}xf32>" for n in sizes for _ in range(4)]
        names = [f"{n}_{i}" for n in sizes for i in range(4)]
        arguments = ", ".join(f"%p{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
        results = ", ".join(f"%r{name}" for name in names)
        kinds_text = ", ".join(kinds)
        body = "\n".join(lines)
        return f"func.func @main({arguments}) -> ({kinds_text}) {{\n{body}\nreturn {results} : {kinds_text}\n}}"

    asked: list[Any] = []
    monkeypatch.setattr(grouped_launches, "callee_of", recorded(callee_of, asked))
    counts = []
    for sizes in (range(40, 43), range(40, 49)):
        asked.clear()
        assert len(lower(program(sizes)).sources) == len(sizes)
        counts.append(len(asked))
    assert counts[1] <= 3 * counts[0]


def test_grouped_sources_have_few_branches():
    """Triton copies all names of a function at each `if` of the function."""
    source = Source("one", (Parameter("p0", "*fp32"), Parameter("p1", "*fp32")), TileCount.of(1), ())
    functions = grouped(source, "many", 1, 196).text.split("@triton.jit\n")
    copied = [f.count(" if ") * f.split(":\n")[0].count(",") for f in functions]
    assert sum(copied) < 196 * 392 / 10


def test_a_group_updates_its_parameters_in_place():
    text = updates(3)
    for number in range(3):
        text = text.replace(
            f"%p{number}: tensor<40x50xf32>", f"%p{number}: tensor<40x50xf32> {{oneflow.donated = {number} : i64}}"
        )
    assert lower(text).plan.count("run.donated(") == 3


def test_dependent_calls_are_not_fused():
    kind = "tensor<8xf32>"
    program = lower(f"""func.func @main(%x: {kind}, %y: {kind}) -> ({kind}, {kind}) {{
      %0 = "oneflow.softmax"(%x) : ({kind}) -> {kind}
      %1 = "oneflow.softmax"(%0) : ({kind}) -> {kind}
      %2 = "oneflow.softmax"(%y) : ({kind}) -> {kind}
      return %1, %2 : {kind}, {kind}
    }}""")
    x, y = (np.random.default_rng(i).standard_normal(8).astype(np.float32) for i in range(2))

    def softmax(a):
        e = np.exp(a - a.max())
        return e / e.sum()

    got = interpret_program(program, x, y)
    np.testing.assert_allclose(got[0], softmax(softmax(x)), 1e-5)
    np.testing.assert_allclose(got[1], softmax(y), 1e-5)
    assert program.plan.count("run.launch") >= 2


def test_dependent_calls_of_several_results_are_not_fused():
    """Softmax along the first dimension, then the second, repeatedly: each kernel reads the previous result."""

    def function(x):
        for axis in (0, 1, 0, 1, 0):
            x = flow.softmax(x, axis)
        return x

    x = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    program = lower(str(flow.trace(function, flow.TensorSpec(x.shape, flow.float32))))
    want = x
    for axis in (0, 1, 0, 1, 0):
        e = np.exp(want - want.max(axis, keepdims=True))
        want = e / e.sum(axis, keepdims=True)
    np.testing.assert_allclose(interpret_program(program, x)[0], want, 1e-5)


def products(count, shape, dependent=False):
    """Gradients of weights: each of separate tensors, or each of the previous gradient."""
    m, n, k = shape
    left, right, out = (f"tensor<{a}x{b}xf16>" for a, b in ((k, m), (k, n), (m, n)))
    names = [f"%{x}{i}: {kind}" for i in range(count) for x, kind in (("a", left), ("b", right))]
    lines = [
        f'%r{i} = "oneflow.matmul"(%a{i}, {f"%r{i - 1}" if dependent and i else f"%b{i}"}) {{transpose_a = true}} '
        f": ({left}, {right}) -> {out}"
        for i in range(count)
    ]
    results, kinds = (", ".join(x) for x in ([f"%r{i}" for i in range(count)], [out] * count))
    body = "\n".join([*lines, f"return {results} : {kinds}"])
    return f"func.func @main({', '.join(names)}) -> ({kinds}) {{\n{body}\n}}"


@pytest.mark.parametrize(("count", "shape"), [(2, (192, 256, 512)), (5, (72, 136, 128)), (3, (33, 70, 65))])
def test_products_that_leave_sms_idle_are_one_launch(count, shape):
    program = lower(products(count, shape))
    assert program.plan.count("run.launch") == 1 and list(program.sources) == [f"main_kernel_0_x{count}"]
    m, n, k = shape
    sizes = [(k, m), (k, n)] * count
    arrays = [np.random.default_rng(i).standard_normal(s).astype(np.float16) for i, s in enumerate(sizes)]
    for index, got in enumerate(interpret_program(program, *arrays)):
        a, b = (x.astype(np.float64) for x in arrays[2 * index : 2 * index + 2])
        np.testing.assert_allclose(got.astype(np.float64), a.T @ b, 1e-2, 2e-2)
    assert compile_source(program.sources[f"main_kernel_0_x{count}"]).cubin


def test_grouped_gradients_of_equal_weights_fill_the_device():
    """12 products of 72 tiles on 132 SMs are launches of 7 and 5, which take 4 and 3 rounds instead of 7 and 5."""
    program = lower(products(12, (768, 3072, 8192)))
    assert {n: s.grid.static for n, s in program.sources.items()} == {
        "main_kernel_0_x7": 132, "main_kernel_0_x5": 132
    }  # fmt: skip
    for count in (7, 5):
        assert f"range(tl.program_id(0), {count * 72}, 132" in program.sources[f"main_kernel_0_x{count}"].text
    assert all(s.stages == 4 and "make_tensor_descriptor" in s.text for s in program.sources.values())


@pytest.mark.parametrize("stays", [False, True])
def test_each_tile_takes_the_descriptors_and_pointers_of_its_product(stays, change_gpu):
    """Persistent programs process the tiles of all products."""
    change_gpu(overrides={"tiles": (replace(TMA_CONFIGS[-1], persistent=stays),), "groups_all_calls": True})
    shapes = [(128, 256), *[(192, 256)] * 3, *[(192,)] * 3]
    arrays = [np.random.default_rng(i).standard_normal(s).astype(np.float16) for i, s in enumerate(shapes)]

    def function(x, *given):
        return tuple(flow.nn.functional.linear(x, w, c) for w, c in zip(given[:3], given[3:], strict=True))

    program = lower(str(flow.trace(function, *(flow.TensorSpec(a.shape, flow.float16) for a in arrays))))
    (source,) = program.sources.values()
    assert source.grid.static == (132 if stays else 3 * 2 * 3) and source.text.count("make_tensor_descriptor") >= 6
    assert ("if call_index >= 2:" in source.text) == stays
    x, *given = (a.astype(np.float64) for a in arrays)
    for index, got in enumerate(interpret_program(program, *arrays)):
        np.testing.assert_allclose(got.astype(np.float64), x @ given[index].T + given[3 + index], 1e-2, 2e-2)
    assert len(compile_source(source).maps) == source.text.count("make_tensor_descriptor")


@pytest.mark.parametrize(
    ("shape", "count", "wanted"),
    [((768, 768, 8192), 14, (7, 7)), ((768, 768, 8192), 3, (3,)), ((768, 3072, 8192), 2, (2,)),
     ((768, 3072, 8192), 4, (4,)), ((8192, 8192, 8192), 5, (1,) * 5)],
)  # fmt: skip
def test_number_of_products_in_a_grouped_launch(shape, count, wanted):
    """Products of 18, 36 or 72 tiles are grouped to full waves; a product that fills the device is alone."""
    assert tuple(sorted(grouped_launch_sizes(Product(1, shape[0], shape[1], shape[2], 2, True), count))) == wanted


def test_the_host_makes_the_descriptors_of_every_product_of_a_launch():
    """Each product has three maps; kernels make no descriptors, and copy no map to local memory."""
    (source,) = lower(products(3, (1024, 768, 768))).sources.values()
    binary = compile_source(source, "sm_90")
    assert [m.pointer for m in binary.maps] == [0, 1, 6, 2, 3, 7, 4, 5, 8]
    assert binary.scratch == 0 and ".local" not in binary.ptx
    assert compile_source(source, "sm_80").maps == ()


def test_products_that_depend_or_fill_the_device_are_not_grouped():
    assert lower(products(3, (128, 128, 128), dependent=True)).plan.count("run.launch") == 3
    assert lower(products(3, (8192, 8192, 1024))).plan.count("run.launch") == 3


def test_grouped_products_have_no_other_configurations():
    """Candidates are for a single product; the configuration of a grouped launch is chosen for all products."""
    tuned = 'module attributes {{oneflow.autotune = "true"}} {{\n{}\n}}'
    separate = lower(tuned.format(products(1, (768, 768, 8192))))
    assert separate.candidates["main_kernel_0"] and not lower(tuned.format(products(3, (768, 768, 8192)))).candidates
