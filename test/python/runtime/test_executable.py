"""Executables: arguments and errors, results and ownership, threads, checks at run time, the cache."""

import gc
import os
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.kernels.share_kernels import ShareKernels
from oneflow.passes.base import PassError
from oneflow.passes.pipeline import Pipeline
from oneflow.passes.walk import gather_named
from oneflow.runtime import cache, native
from oneflow.runtime.executable import ArgumentError, Options, OutOfBoundsError, RunError, SizeError, compile_module
from oneflow.runtime.program_source import ProgramSource

ADD = """
func.func @main(%x: tensor<?x3xf32> {oneflow.name = "left"}, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
"""


def build(text, entry="main", **options):
    context = create_context()
    options.setdefault("cached", False)
    with context, ir.Location.unknown():
        return compile_module(read_module(text, context), entry, Options(**options))


def unary(name, kind):
    return build(f"""
    func.func @main(%x: {kind}) -> {kind} {{
      %0 = "oneflow.{name}"(%x) : ({kind}) -> {kind}
      return %0 : {kind}
    }}""")


def test_the_key_of_the_packages_own_operators_needs_no_lowering():
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(ADD, context)
        assert ProgramSource.of(module, "main", REGISTRY).fingerprint(module) == ""


@pytest.mark.parametrize("name", [r"a.b (c)", r"\22quoted\22", "ä\\5C", "x_constant_0"])
def test_a_function_may_have_any_name(name):
    text = f"""
    func.func @"{name}"(%x: tensor<300x400xf32>) -> (tensor<300x400xf32>, tensor<2xf32>) {{
      %0 = "oneflow.softmax"(%x) : (tensor<300x400xf32>) -> tensor<300x400xf32>
      %1 = arith.constant dense<[2.5, -1.0]> : tensor<2xf32>
      return %0, %1 : tensor<300x400xf32>, tensor<2xf32>
    }}"""
    context = create_context()
    with context, ir.Location.unknown():
        module = read_module(text, context)
        entry = ir.StringAttr(module.body.operations[0].attributes["sym_name"]).value
        run = compile_module(module, entry, Options(cached=False))
    rows, constant = run(np.zeros((300, 400), np.float32))
    np.testing.assert_allclose(rows, np.full((300, 400), 1 / 400, np.float32), rtol=1e-6)
    assert constant.tolist() == [2.5, -1.0]


@pytest.fixture(scope="module")
def add():
    return build(ADD)


def rows(count, value=1.0):
    return np.full((count, 3), value, np.float32)


def test_names_and_descriptions(add):
    assert [p.name for p in add.inputs] == ["left", "arg1"]
    assert [str(p.desc) for p in add.inputs] == ["tensor<?x3xf32>"] * 2
    (got,) = add(arg1=rows(4, 2.0), left=rows(4))
    np.testing.assert_array_equal(got, rows(4, 3.0))


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ([rows(2)], {}, "missing argument arg1"),
        ([rows(2)] * 3, {}, "expected 2 arguments .* got 3"),
        ([rows(2), rows(2)], {"left": rows(2)}, "given twice"),
        ([rows(2)], {"lefd": rows(2)}, "unknown argument 'lefd'; did you mean left"),
        ([rows(2), rows(2).astype(np.float64)], {}, "argument 'arg1': expected dtype float32, got float64"),
        ([rows(2), rows(2)[0]], {}, r"argument 'arg1': expected tensor<\?x3xf32>, got an array of shape \(3,\)"),
        ([np.ones((2, 4), np.float32), rows(2)], {}, "argument 'left': expected size 3 in dimension 1"),
        ([rows(2), object()], {}, "argument 'arg1': expected an array .* got object"),
    ],
)
def test_bad_arguments(add, arrays, named, message):
    with pytest.raises(ArgumentError, match=message):
        add(*arrays, **named)


def test_dynamic_sizes_that_differ(add):
    with pytest.raises(SizeError, match="expected 2, got 3"):
        add(rows(2), rows(3))
    assert issubclass(SizeError, ValueError)
    (got,) = add(rows(2), rows(2))
    assert got.shape == (2, 3)


def test_layouts(add):
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    transposed = wide.T
    other = np.zeros((4, 3), np.float32)
    np.testing.assert_array_equal(add(transposed, other)[0], transposed)
    np.testing.assert_array_equal(add(transposed.astype(">f4"), other)[0], transposed)
    frozen = rows(4)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(add(frozen, other)[0], frozen)
    shifted = np.zeros(13 * 4 + 1, np.uint8)[1 : 1 + 48].view(np.float32).reshape(4, 3)
    np.testing.assert_array_equal(add(shifted, other)[0], other)


def test_dlpack_and_array_interface(add):
    class Packed:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    class Interface:
        def __init__(self, array):
            self.array, self.__array_interface__ = array, array.__array_interface__

    (got,) = add(Packed(rows(2)), Interface(rows(2, 2.0)))
    np.testing.assert_array_equal(got, rows(2, 3.0))
    back = np.from_dlpack(got)
    assert back.ctypes.data == got.ctypes.data


@pytest.mark.parametrize("rows_", [0, 1])
def test_zero_rows(add, rows_):
    (got,) = add(rows(rows_), rows(rows_))
    assert got.shape == (rows_, 3)


def test_rank_0():
    (got,) = unary("exp", "tensor<f32>")(np.float32(1))
    assert got.shape == ()
    np.testing.assert_allclose(got, np.exp(np.float32(1)), rtol=2e-7)


@pytest.mark.parametrize(
    ("mlir", "dtype"),
    [("i1", np.bool_), ("ui8", np.uint8), ("i8", np.int8), ("i64", np.int64), ("bf16", ml_dtypes.bfloat16),
     ("i16", np.int16), ("ui16", np.uint16), ("ui32", np.uint32), ("ui64", np.uint64),
     ("f16", np.float16), ("f64", np.float64)],
)  # fmt: skip
def test_element_types(mlir, dtype):
    text = f"""
    func.func @main(%x: tensor<5x7x{mlir}>) -> tensor<7x5x{mlir}> {{
      %0 = "oneflow.transpose"(%x) {{perm = [1, 0]}} : (tensor<5x7x{mlir}>) -> tensor<7x5x{mlir}>
      return %0 : tensor<7x5x{mlir}>
    }}"""
    x = (np.arange(35).reshape(5, 7) % 2).astype(dtype)
    (got,) = build(text)(x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype(np.float64), x.T.astype(np.float64))


def test_results_own_their_memory():
    executable = unary("negative", "tensor<1000xf32>")
    x = np.arange(1000, dtype=np.float32)
    kept = [executable(x + i)[0] for i in range(20)]
    view = kept[3][10:20]
    address = kept[3].ctypes.data
    assert address % 64 == 0
    del kept[3]
    gc.collect()
    executable(x)
    np.testing.assert_array_equal(view, -(x + 3)[10:20])
    assert all(k.flags.writeable for k in kept)
    for i, array in zip([0, 1, 2, *range(4, 20)], kept, strict=True):
        np.testing.assert_array_equal(array, -(x + i))


def test_returned_arguments_and_duplicates_are_copied():
    executable = build("""
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) {
      %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "oneflow.reshape"(%0) {shape = [2, 2]} : (tensor<4xf32>) -> tensor<2x2xf32>
      return %x, %0, %0, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
    }""")
    x = np.array([-1, 2, -3, 4], np.float32)
    results = executable(x)
    assert len({r.ctypes.data for r in (x, *results)}) == 5
    np.testing.assert_array_equal(results[0], x)
    for result in results[1:]:
        np.testing.assert_array_equal(result.ravel(), [0, 2, 0, 4])


def test_constants():
    executable = build("""
    func.func @main() -> (tensor<3xf32>, tensor<2xi1>) {
      %0 = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
      %1 = arith.constant dense<[true, false]> : tensor<2xi1>
      return %0, %1 : tensor<3xf32>, tensor<2xi1>
    }""")
    first, second = executable()
    np.testing.assert_array_equal(first, np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(second, [True, False])


def test_memory_is_reused():
    steps = "\n".join(
        f'%t{i} = "oneflow.transpose"(%x{i}) {{perm = [1, 0]}} : (tensor<64x64xf32>) -> tensor<64x64xf32>\n'
        f'%x{i + 1} = "oneflow.matmul"(%t{i}, %t{i}) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>'
        for i in range(6)
    )
    head = "func.func @main(%x0: tensor<64x64xf32>) -> tensor<64x64xf32> {"
    executable = build("\n".join([head, steps, "return %x6 : tensor<64x64xf32>", "}"]))
    assert executable.peak_bytes <= 2 * 64 * 64 * 4
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (64, 64)).astype(np.float32)
    want = x.astype(np.float64)
    for _ in range(6):
        want = want.T @ want.T
    np.testing.assert_allclose(executable(x)[0], want, rtol=1e-3, atol=1e-12)


GATHER = """
func.func @main(%x: tensor<5x3xf32>, %i: tensor<4xi64>) -> tensor<4x3xf32> {
  %0 = "oneflow.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
"""


def test_a_position_out_of_range():
    executable = build(GATHER)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(executable(x, np.array([4, 0, 2, 2]))[0], x[[4, 0, 2, 2]])
    with pytest.raises(OutOfBoundsError, match=r"gather.* expected an index in \[0, 5\), got 7"):
        executable(x, np.array([0, 7, 1, 2]))
    assert issubclass(OutOfBoundsError, IndexError) and issubclass(OutOfBoundsError, RunError)
    np.testing.assert_array_equal(executable(x, np.array([1, 1, 1, 1]))[0], x[[1, 1, 1, 1]])


def test_memory_that_the_system_does_not_have():
    executable = build("""
    func.func @main(%x: tensor<?x1xf32>, %y: tensor<1x?xf32>) -> tensor<?x?xf32> {
      %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<?x1xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }""")
    wide = np.zeros(1 << 23, np.float32)
    with pytest.raises(MemoryError, match=r"281474976710656 bytes.*than results of tensor<"):
        executable(wide.reshape(-1, 1), wide.reshape(1, -1))
    np.testing.assert_array_equal(
        executable(np.ones((2, 1), np.float32), np.ones((1, 2), np.float32))[0], np.full((2, 2), 2)
    )


def test_failures_are_raised_in_their_thread():
    executable = build(GATHER)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    wrong = []

    def work(bad):
        for _ in range(200):
            try:
                executable(x, np.array([0, 9 if bad else 1, 1, 2]))
                failed = False
            except OutOfBoundsError:
                failed = True
            wrong.extend([bad] * (failed is not bad))

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SOFTMAX = """
func.func @main(%x: tensor<300x257xf32>) -> tensor<300x257xf32> {
  %0 = "oneflow.softmax"(%x) : (tensor<300x257xf32>) -> tensor<300x257xf32>
  %1 = "oneflow.exp"(%0) : (tensor<300x257xf32>) -> tensor<300x257xf32>
  return %1 : tensor<300x257xf32>
}
"""


def test_called_from_several_threads_at_once():
    executable = build(SOFTMAX)
    inputs = [np.random.default_rng(i).normal(size=(300, 257)).astype(np.float32) for i in range(4)]
    want = [executable(x)[0] for x in inputs]
    same: list[Any] = []

    def work(number):
        same.extend(np.array_equal(executable(inputs[number])[0], want[number]) for _ in range(25))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(same) == 100 and all(same)


def test_threads_compile_programs_of_one_context_one_at_a_time(monkeypatch):
    context = create_context(operators=())
    modules = [read_module(SOFTMAX.replace("300", str(n)), context) for n in (3, 4, 5)]
    lowering, together = [], []
    run = Pipeline.run

    def watched(pipeline, module, *more):
        lowering.append(module)
        together.append(len(lowering))
        time.sleep(0.01)
        run(pipeline, module, *more)
        lowering.pop()

    monkeypatch.setattr(Pipeline, "run", watched)
    with ThreadPoolExecutor(len(modules)) as pool:
        list(pool.map(lambda module: compile_module(module, options=Options(cached=False)), modules))
    assert len(together) >= len(modules) and max(together) == 1


def test_results_do_not_depend_on_the_number_of_threads():
    executable = build(SOFTMAX)
    x = np.random.default_rng(0).normal(size=(300, 257)).astype(np.float32)
    before = native.num_threads()
    results = []
    try:
        for count in (1, 2, 3, 7):
            native.set_num_threads(count)
            results.append(executable(x)[0])
    finally:
        native.set_num_threads(before)
    assert all(np.array_equal(results[0], r) for r in results[1:])


def test_after_a_fork():
    executable = build(SOFTMAX)
    x = np.random.default_rng(0).normal(size=(300, 257)).astype(np.float32)
    want = executable(x)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(executable(x)[0], want) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(executable(x)[0], want)


def test_thread_count_is_checked():
    with pytest.raises(ValueError, match="at least 1 thread"):
        native.set_num_threads(0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_used(folder, monkeypatch):
    x = rows(2)
    build(ADD, cached=True)(x, x)
    assert sorted(p.suffix for p in folder.iterdir()) == [".json", ".so"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr("oneflow.runtime.executable._compile", None)
    np.testing.assert_array_equal(build(ADD, cached=True)(x, x)[0], x + x)


@pytest.mark.parametrize("damage", ["object", "one byte", "description", "missing"])
def test_a_damaged_cache_is_rebuilt(folder, damage):
    x = rows(2)
    build(ADD, cached=True)(x, x)
    (compiled,) = folder.glob("*.so")
    if damage == "object":
        compiled.unlink()
        compiled.write_bytes(b"rubbish")
    elif damage == "one byte":
        data = bytearray(compiled.read_bytes())
        data[len(data) // 2] ^= 0xFF
        compiled.unlink()
        compiled.write_bytes(data)
    elif damage == "description":
        compiled.with_suffix(".json").write_text("{", encoding="utf-8")
    else:
        compiled.unlink()
    np.testing.assert_array_equal(build(ADD, cached=True)(x, x)[0], x + x)


def test_every_region_of_an_entry_is_checked(folder):
    """An entry is compiled again after any change of the object or of the metadata."""
    x, count = rows(2), 24
    build(ADD, cached=True)(x, x)
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    (key,) = {path.stem for path in whole}
    for path, data in whole.items():
        for position in range(0, len(data), -(-len(data) // count)):
            path.unlink()
            path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
            assert cache.find(key) is None, (path.suffix, position)
            path.write_bytes(data)
    description = next(p for p in whole if p.suffix == ".json")
    description.write_text(description.read_text().replace('"workspace": 0', '"workspace": 8'))
    np.testing.assert_array_equal(build(ADD, cached=True)(x, x)[0], x + x)
    assert cache.find(key) is not None


def test_an_entry_under_another_key_does_not_count(folder):
    cache.store("a" * 40, b"object", {})
    for path in list(folder.iterdir()):
        path.rename(path.with_stem("b" * 40))
    assert cache.find("b" * 40) is None


def test_invalid_ir_of_a_pass_is_refused(monkeypatch):
    """Compiled functions are verified after each pass of this project: invalid IR would end the process."""

    def spoil(self, module, registry):
        for op in gather_named(module.operation, {"tensor.empty"}):
            op.results[0].set_type(ir.RankedTensorType.get([9, 9], op.results[0].type.element_type))

    monkeypatch.setattr(ShareKernels, "run", spoil)
    with pytest.raises(PassError, match="the pass oneflow-share-kernels failed"):
        build(ADD)


def test_an_unwritable_cache_is_ignored(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    blocked.chmod(stat.S_IRUSR)
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(blocked / "cache"))
    np.testing.assert_array_equal(build(ADD, cached=True)(rows(2), rows(2))[0], rows(2, 2.0))


def test_cache_keys_separate_their_parts():
    assert cache.key_of("a", "bc") != cache.key_of("ab", "c")


def test_without_a_linker(folder, monkeypatch):
    monkeypatch.setattr("oneflow.runtime.objects.linker", lambda: None)
    np.testing.assert_array_equal(build(ADD, cached=True)(rows(2), rows(2))[0], rows(2, 2.0))


def test_a_failing_linker_leaves_no_files(folder, monkeypatch, tmp_path):
    """LLVM has written a part of the object when the disk is full."""
    script = tmp_path / "ld"
    script.write_text('#!/bin/sh\nprintf rubbish > "$2"\nexit 1\n', encoding="utf-8")
    script.chmod(stat.S_IRWXU)
    monkeypatch.setattr("oneflow.runtime.objects.linker", lambda: (str(script),))
    np.testing.assert_array_equal(build(ADD, cached=True)(rows(2), rows(2))[0], rows(2, 2.0))
    assert not list(folder.glob("*.so"))


def test_a_full_disk_does_not_end_the_process(tmp_path):
    """Files may not grow beyond 4 KiB: LLVM cannot write objects, and an attempt would end the process."""
    code = """
import resource
import numpy as np
import oneflow as flow
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
print(flow.compile(lambda x: flow.softmax(flow.tanh(x @ x), -1))(np.ones((4, 4), np.float32))[0, 0])
"""
    environment = {**os.environ, "ONEFLOW_CACHE_DIR": str(tmp_path)}
    # Without `-B`, Python would cut off the bytecode of the modules that the program imports.
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "0.25\n"), done.stderr


@pytest.mark.parametrize("text", ["many", "0", "-2", "1.5"])
def test_invalid_numbers_of_threads_are_refused(monkeypatch, text):
    monkeypatch.setenv(native.THREADS, text)
    with pytest.raises(ValueError, match=f"ONEFLOW_NUM_THREADS: expected a number of at least 1, got '{text}'"):
        native.library.__wrapped__()


def test_a_named_library_is_the_only_candidate(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEFLOW_NATIVE", str(tmp_path / "nothing.so"))
    with pytest.raises(native.NativeLibraryError, match=r"got none at .*/nothing\.so; build it"):
        native.library.__wrapped__()


def test_a_missing_library_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(native, "candidates", lambda: [tmp_path / "nothing.so"])
    with pytest.raises(native.NativeLibraryError, match="pip install"):
        native.library.__wrapped__()


def test_stages(add):
    assert '"oneflow.broadcast_add"' in add.ir("oneflow")
    assert "linalg.generic" in add.ir("linalg")
    assert 'oneflow.kernel = "pointwise"' in add.ir("kernels")
    assert "llvm.func" in add.ir("llvm")
    with pytest.raises(ValueError, match="expected one of oneflow, linalg, kernels, llvm"):
        add.ir("ptx")


def test_entry_among_others():
    executable = build(
        """
    func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = "oneflow.broadcast_add"(%x, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func @other(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = "oneflow.negative"(%0) : (tensor<3xf32>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }""",
        "other",
    )
    np.testing.assert_array_equal(executable(np.array([1, 2, 3], np.float32))[0], np.array([-2, -4, -6], np.float32))
    with pytest.raises(ValueError, match="expected a function 'absent'"):
        build(ADD, "absent")


@pytest.mark.parametrize("cached", [False, True], ids=["engine", "linked"])
@pytest.mark.parametrize("name", ["exp", "oneflow_rt_alloc"])
def test_a_function_may_have_the_name_of_one_that_its_code_calls(name, cached, folder):
    text = f"""
    func.func @{name}(%x: tensor<5xf64>) -> tensor<5xf64> {{
      %0 = "oneflow.exp"(%x) : (tensor<5xf64>) -> tensor<5xf64>
      return %0 : tensor<5xf64>
    }}"""
    x = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(build(text, name, cached=cached)(x)[0], np.exp(x), rtol=1e-15)
