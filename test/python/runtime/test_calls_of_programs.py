"""The fast path of calls with arrays, in the extension module and in Python: the same results and refusals."""

import ctypes
import functools
import gc
import importlib
import re
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.runtime import fast_path, native
from oneflow.runtime.executable import OutOfBoundsError, compile_module
from oneflow.runtime.fast_path import extension as fast_path_extension
from oneflow.runtime.results import ResultFormat

X, Y = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(-5, 3, dtype=np.float32).reshape(4, 2)
SUM = """
func.func @main(%x: tensor<4x2xf32>, %y: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = "oneflow.broadcast_add"(%x, %y) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = "oneflow.relu"(%y) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
}
"""
UPDATE = SUM.replace("%x: tensor<4x2xf32>", "%x: tensor<4x2xf32> {oneflow.donated = 0 : i64}")
TAKE = """
func.func @main(%x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
  %0 = "oneflow.gather"(%x, %i) {axis = 0 : si64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@pytest.fixture(scope="module", params=["extension", "python"])
def compiled(request):
    """Compiles a program with one implementation of the fast path."""

    def make(text):
        return compile_module(read_module(text, create_context(REGISTRY), "program.mlir"))

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(fast_path, "extension", lambda: None)
        yield functools.cache(make)


def test_the_installation_has_the_extension_module():
    assert fast_path_extension() is not None


def test_results_are_new_arrays_and_own_their_memory(compiled):
    call = compiled(SUM).fast_path
    for arrays in ([X, Y], (X, Y)):
        total, positive = call(arrays)
        np.testing.assert_array_equal(total, X + Y)
        np.testing.assert_array_equal(positive, np.maximum(Y, 0))
        assert type(total) is np.ndarray and total.flags.carray and not np.may_share_memory(total, positive)
    address = call([X, Y])[0].ctypes.data
    assert address in {call([X, Y])[0].ctypes.data for _ in range(8)}, "the memory of freed results is used again"


@pytest.mark.parametrize(
    "x",
    [
        X.astype(np.float64),
        X.astype(">f4"),
        X.reshape(2, 4),
        X.reshape(4, 2, 1),
        np.asfortranarray(X),
        X.repeat(2, 0)[::2],
        np.frombuffer(bytearray(33), np.float32, 8, offset=1).reshape(4, 2),
        np.ma.masked_array(X),
        X.tolist(),
        None,
    ],
    ids=lambda x: f"{type(x).__name__} {getattr(x, 'dtype', '')} {getattr(x, 'strides', '')}",
)
def test_arrays_of_other_types_take_the_full_call(compiled, x):
    call = compiled(SUM).fast_path
    assert call([x, Y]) is None and call([Y, x]) is None


def test_other_numbers_of_arguments_take_the_full_call(compiled):
    call = compiled(SUM).fast_path
    assert call([]) is None and call([X]) is None and call([X, Y, Y]) is None
    with pytest.raises(TypeError):
        call()
    with pytest.raises(TypeError):
        call(3)


def test_an_argument_that_is_updated_in_place_is_the_result(compiled):
    call, x = compiled(UPDATE).fast_path, X.copy()
    total, _ = call([x, Y])
    assert total is x
    np.testing.assert_array_equal(x, X + Y)
    x.flags.writeable = False
    assert call([x, Y]) is None
    np.testing.assert_array_equal(x, X + Y)


@pytest.mark.parametrize("module", [fast_path_extension(), None], ids=["extension", "python"])
def test_arrays_live_while_the_program_runs(monkeypatch, module):
    """The program drops the arrays of the list, as another thread may do, and updates the first in place."""
    arrays = [X.copy(), Y.copy()]
    references = [weakref.ref(array) for array in arrays]
    alive: list[bool] = []

    def run(entry, io, workspace, failure):
        arrays.clear()
        alive.extend(reference() is not None for reference in references)
        return 0

    address = ctypes.c_void_p
    run_type = ctypes.CFUNCTYPE(ctypes.c_int64, address, address, ctypes.c_int64, address)
    library = SimpleNamespace(oneflow_rt_run=run_type(run), oneflow_rt_free=native.library().oneflow_rt_free)
    monkeypatch.setattr(native, "library", lambda: library)
    monkeypatch.setattr(fast_path, "extension", lambda: module)
    form = ResultFormat(X.shape, 0, X.dtype)
    call: Any = fast_path.fast_path([(a.dtype, a.shape) for a in arrays], [form], (0, 0), (), {0: 0}, print)
    (result,) = call(arrays)
    assert alive == [True, True]
    assert result is references[0]()


def test_a_failed_run_raises_its_error_and_frees_its_results(compiled):
    call, x = compiled(TAKE).fast_path, np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(call([x, np.array([3, 1])])[0], [3, 1])
    for _ in range(3):
        with pytest.raises(OutOfBoundsError, match=re.escape("[0, 4)") + ".*7|7.*" + re.escape("[0, 4)")):
            call([x, np.array([0, 7])])
    np.testing.assert_array_equal(call([x, np.array([2, 0])])[0], [2, 0])


@pytest.fixture
def no_collector():
    """No garbage collector: an object is freed with the last reference, or never."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_programs_without_references_are_freed(compiled):
    executable = compiled.__wrapped__(SUM)
    freed, code = weakref.ref(executable), weakref.ref(executable._code.owner)
    result = executable.fast_path([X, Y])[0]
    del executable
    assert freed() is None and code() is None
    np.testing.assert_array_equal(result, X + Y)


@pytest.mark.usefixtures("no_collector")
def test_a_fast_path_runs_without_the_executable(compiled):
    call, x = compiled.__wrapped__(TAKE).fast_path, np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(call([x, np.array([3, 1])])[0], [3, 1])
    with pytest.raises(OutOfBoundsError, match=re.escape("expected an index in [0, 4), got 7")):
        call([x, np.array([0, 7])])


def test_an_extension_module_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(fast_path, "VERSION", -1)
    with pytest.raises(native.NativeLibraryError, match=r"expected version -1 of .*_calls.*, got 1; install"):
        fast_path_extension.__wrapped__()


def test_python_calls_where_the_extension_module_does_not_fit_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "oneflow.runtime._calls", None)
    assert fast_path_extension.__wrapped__() is None

    def load(name):
        raise ImportError("numpy._core.multiarray failed to import")

    monkeypatch.setattr(importlib, "import_module", load)
    assert fast_path_extension.__wrapped__() is None
