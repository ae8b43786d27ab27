"""Programs whose code several threads generate in parts."""

from __future__ import annotations

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import oneflow as dialect
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.runtime import cache, native
from oneflow.runtime.engine import Engine
from oneflow.runtime.module_partition import split
from oneflow.runtime.program_source import ProgramSource

SIZES = range(3, 17)
X = np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32)
WEIGHTS = [np.random.default_rng(n).standard_normal((n, n + 1), dtype=np.float32) / n for n in SIZES]


def layers(x, weights):
    """Layers of different sizes, with functions that all share and a constant of the entry's own."""
    for index, weight in enumerate(weights):
        x = flow.tanh(x @ weight) if index % 2 else flow.exp(-flow.abs(x @ weight))
    return x, np.arange(3, dtype=np.float32)


def expected(x):
    """The same with NumPy, in double precision."""
    x = x.astype(np.float64)
    for index, weight in enumerate(WEIGHTS):
        x = np.tanh(x @ weight) if index % 2 else np.exp(-np.abs(x @ weight))
    return x


@pytest.fixture
def lowered():
    """The program at its last stage."""
    module = flow.trace(lambda x: layers(x, WEIGHTS)[0], flow.TensorSpec((5, 3), flow.float32), name="f")
    return ProgramSource.of(module, "f", REGISTRY).lower("llvm")


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    """A number of threads."""
    before = native.num_threads()
    native.set_num_threads(request.param)
    yield request.param
    native.set_num_threads(before)


def names(code: bytes) -> tuple[set[str], set[str]]:
    """The functions that a part defines, and the functions that a part declares."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(code)
        ops = [o.operation for o in module.body.operations if o.operation.name == "llvm.func"]
        made = {ir.StringAttr(o.attributes["sym_name"]).value: bool(len(o.regions[0].blocks)) for o in ops}
    return {n for n, defined in made.items() if defined}, {n for n, defined in made.items() if not defined}


def test_results_are_the_same_with_any_number_of_threads(threads, monkeypatch, tmp_path):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    got, constant = flow.compile(layers)(X, WEIGHTS)
    np.testing.assert_allclose(got, expected(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(constant, np.arange(3))
    assert list(cache.folder().glob("*.so"))


def test_each_launch_is_in_one_part_with_what_it_calls(lowered):
    parts = split(lowered, "f", 4)
    assert len(parts) == 4
    found = [names(part.code) for part in parts]
    launches = [name for made, _ in found for name in made if name.endswith("_launch")]
    assert sorted(launches) == sorted(set(launches)) == sorted(parts[-1].imported)
    for part, (made, declared) in zip(parts, found, strict=True):
        assert set(part.exported) <= made
        assert all(n.startswith("oneflow_rt_") or n in part.imported for n in declared)
    assert sum("oneflow_exp_16" in made for made, _ in found) > 1


@pytest.mark.parametrize("count", [0, 1])
def test_one_part_is_the_whole_module(lowered, count):
    (part,) = split(lowered, "f", count)
    assert part.exported == ("oneflow_entry_f",) and not part.imported


def test_few_launches_are_one_part():
    module = flow.trace(lambda x: x + 1.0, flow.TensorSpec((5, 3), flow.float32), name="f")
    assert len(split(ProgramSource.of(module, "f", REGISTRY).lower("llvm"), "f", 8)) == 1


def test_a_module_that_does_not_translate_is_an_error():
    with dialect.create_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f() { return }")
        with pytest.raises(RuntimeError, match="that translates"):
            Engine(module, 0, pic=False)


def test_a_missing_symbol_is_an_error():
    text = "llvm.func @nowhere()\nllvm.func @f() {\nllvm.call @nowhere() : () -> ()\nllvm.return\n}"
    with dialect.create_context(), ir.Location.unknown():
        engine = Engine(ir.Module.parse(text), 0, pic=False)
        with pytest.raises(RuntimeError, match="to link"):
            engine.address("f")
