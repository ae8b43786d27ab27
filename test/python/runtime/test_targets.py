"""Programs for every level of processors: right results, and no symbol that a process may not have."""

import re
import subprocess
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from samples import SAMPLES

from oneflow.dialect import dtypes
from oneflow.dialect import ops as _every_operator  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.llvm.register_tiles import best_tile, register_tiles
from oneflow.lowering.targets import host
from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.selection import CPU_NAMES, TargetError, cpu_target, cpu_target_named, using_cpu
from oneflow.runtime import objects
from oneflow.runtime.executable import Options, compile_module
from oneflow.runtime.program_source import ProgramSource
from oneflow.testing.backend import call_module, check_backend
from oneflow.testing.checks import make_call

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
#: Functions that programs may call: the C library, and functions of libm without a polynomial here.
ALLOWED = re.compile(r"oneflow_rt_\w+|mem(cpy|move|set)|(sin|cos|tan|erfc?|fmod|lgamma|tgamma|cbrt)f?")
#: Conversions, products, reductions, element-wise and moving operators, operators that call libm, and compositions.
OPERATORS = """matmul reduce_sum reduce_prod argmax broadcast_add pow tan_grad erfc cat where max_pool_2d softmax
eye scalar_fmod""".split()
FIRST = {s.op: s for s in reversed(SAMPLES) if s.op in OPERATORS}
CASTS = [s for s in SAMPLES if s.op == "cast" and s.attrs["dtype"] in (dtypes.float16, dtypes.bfloat16)]
CASTS += [next(s for s in SAMPLES if s.op == "cast" and s.attrs["dtype"] == d) for d in dtypes.FLOAT8]
CASES = [(s, d) for s in (*FIRST.values(), *CASTS) for d in s.dtypes]


def undefined(path):
    """The symbols that a shared object takes from elsewhere."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(path)], capture_output=True, text=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}


def runs(level):
    return host.host_architecture() == "x86_64" and not host.missing_features(CPU_TARGETS[level])


@pytest.mark.skipif(
    host.host_architecture() != "x86_64", reason="code is generated for the architecture of the machine"
)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=[f"{s}-{d}" for s, d in CASES])
def test_sample_on_level(sample, dtype, level, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with using_cpu(CPU_TARGETS[level]):
        if runs(level):
            check_backend(sample, dtype, options=Options(cached=True))
        else:
            compile_only(sample, dtype, tmp_path / "program.so")
    (made,) = tmp_path.glob("*.so")
    assert not [s for s in undefined(made) if not ALLOWED.fullmatch(s)]


def compile_only(sample, dtype, path):
    op = make_call(sample, sample.arrays(dtype), sample.attributes(dtype), REGISTRY)
    with create_context(REGISTRY), ir.Location.unknown():
        lowered = ProgramSource.of(call_module(op, False), "main", REGISTRY).lower("llvm")
        objects.compile_code(lowered, "main", 3, path)


def compute(text, level, *arrays):
    """The result of a program with one vector function, compiled for a level."""
    with create_context(REGISTRY), using_cpu(CPU_TARGETS[level]):
        return compile_module(ir.Module.parse(text), options=Options(cached=False))(*arrays)[0]


def cast(source, result, array, level):
    """An array cast by the operator."""
    before, after = (f"tensor<{array.size}x{element}>" for element in (source, result))
    text = f"""func.func @main(%x: {before}) -> {after} {{
      %0 = "oneflow.cast"(%x) {{dtype = {result}}} : ({before}) -> {after}
      return %0 : {after}
    }}"""
    return compute(text, level, array)


levels_here = pytest.mark.parametrize("level", [name for name in LEVELS if runs(name)])


@levels_here
def test_every_f16_as_f32(level):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(cast("f16", "f32", every, level), every.astype(np.float32))


@levels_here
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_values_between_f16(source, level):
    """Every f16, the midpoint of each two, and the neighbours of the midpoint, of both signs."""
    kind: Any = {"f32": np.float32, "f64": np.float64}[source]
    values = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(kind)
    values[-1] = 65536
    middle = (values[1:] + values[:-1]) / 2
    neighbours = [np.nextafter(middle, kind(end)) for end in (0, np.inf)]
    given = np.concatenate([values, middle, *neighbours, np.array([np.inf, np.nan, 1e38, 1e-38], kind)])
    given = np.concatenate([given, -given])
    with np.errstate(over="ignore"):
        want = given.astype(np.float16)
    got = cast(source, "f16", given, level)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


@levels_here
def test_f64_truncated_to_bf16_is_rounded_once(level):
    step, little = 2.0**-7, 2.0**-40
    given = np.array(
        [1 + step / 2, 1 + step / 2 + little, 1 + step * 3 / 2 - little, 1 + step * 3 / 2, 1e300, 2.0**-134]
    )
    given = np.append(given, [2.0**-134 * (1 + little), np.inf, np.nan])
    want = [1, 1 + step, 1 + step, 1 + 2 * step, np.inf, 0, 2.0**-133, np.inf, np.nan]
    text = """func.func @main(%x: tensor<9xf64>) -> tensor<9xbf16> {
      %0 = arith.truncf %x : tensor<9xf64> to tensor<9xbf16>
      return %0 : tensor<9xbf16>
    }"""
    np.testing.assert_array_equal(compute(text, level, given).astype(np.float64), want)
    np.testing.assert_array_equal(compute(text, level, -given).astype(np.float64), np.negative(want))


@levels_here
def test_arithmetic_on_bf16_in_a_program_of_arith(level):
    text = """func.func @main(%x: tensor<33xbf16>, %y: tensor<33xbf16>) -> tensor<33xbf16> {
      %0 = arith.mulf %x, %y : tensor<33xbf16>
      %1 = math.exp %0 : tensor<33xbf16>
      %2 = arith.subf %1, %y : tensor<33xbf16>
      return %2 : tensor<33xbf16>
    }"""
    x, y = np.linspace(-2, 2, 66, dtype=np.float32).astype(bfloat16).reshape(2, 33)
    got = compute(text, level, x, y)
    np.testing.assert_array_equal(got, np.exp(x * y) - y)


def test_tiles_stay_in_registers():
    assert register_tiles(CPU_TARGETS["x86-64-v4"]) == {16: 1, 8: 3, 4: 6, 2: 12, 1: 14}
    assert register_tiles(CPU_TARGETS["x86-64-v3"]) == {8: 1, 4: 2, 2: 6, 1: 12}
    assert [best_tile(register_tiles(CPU_TARGETS[name])) for name in ("x86-64-v3", "x86-64-v4")] == [2, 4]


def test_targets_are_named_by_the_variable(monkeypatch):
    for name in CPU_NAMES:
        monkeypatch.setenv("ONEFLOW_TARGET", name)
        assert cpu_target() == cpu_target_named(name)
        assert cpu_target().name == name
    monkeypatch.setenv("ONEFLOW_TARGET", "x86-64-v33")
    with pytest.raises(TargetError, match=r"ONEFLOW_TARGET: expected a target out of .*did you mean x86-64-v3"):
        cpu_target()


PLUS_ONE = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = arith.constant dense<1.0> : tensor<3xf32>
  %0 = arith.addf %x, %one : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def test_code_for_another_machine_is_not_run():
    other = "aarch64-neon" if host.host_architecture() == "x86_64" else "x86-64-v2"
    with (
        create_context(REGISTRY),
        using_cpu(CPU_TARGETS[other]),
        pytest.raises(TargetError, match=f"{other}, got a machine"),
    ):
        compile_module(ir.Module.parse(PLUS_ONE))


def test_a_feature_that_is_missing_is_named():
    flags = "cx16 popcnt sse4_2 ssse3".split()
    assert host.missing_features(CPU_TARGETS["x86-64-v2"], flags) == []
    assert host.missing_features(CPU_TARGETS["x86-64-v3"], flags) == ["avx2", "bmi2", "f16c", "fma", "lzcnt", "movbe"]


@pytest.mark.skipif(not runs("x86-64-v3"), reason="two levels are compared on a machine that has both")
def test_programs_of_each_target_are_cached_separately(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v2"):
        monkeypatch.setenv("ONEFLOW_TARGET", name)
        with create_context(REGISTRY):
            np.testing.assert_array_equal(compile_module(ir.Module.parse(PLUS_ONE))(np.zeros(3, np.float32))[0], 1)
    assert len(list(tmp_path.glob("*.so"))) == 2


@pytest.mark.parametrize(("least", "is_parallel"), [(1000, True), (1 << 30, False)])
def test_parallel_loops_follow_the_target(least, is_parallel):
    """Kernels of fewer element operations than `parallel_operations` have no parallel form."""
    target = cpu_target_named("x86-64-v3")
    fitted = {"loops": {"parallel_operations": least, "chunk_steps": 1024}}
    with create_context(REGISTRY), using_cpu(replace(target, fitted=fitted)):
        source = ProgramSource.of(ir.Module.parse(PLUS_ONE.replace("3xf32", "20000xf32")), "main", REGISTRY)
        assert ("call @oneflow_rt_parallel_for" in str(source.lower("llvm"))) == is_parallel
