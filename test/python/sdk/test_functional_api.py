"""The grammar of functional_api.yaml, and how calls are bound to signatures."""

import contextlib
import os
import subprocess
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import dtypes as dt
from oneflow.dialect.record import REGISTRY
from oneflow.runtime.user_ops.functional_api import (
    REFUSED_RETURNS,
    REFUSED_TYPES,
    TYPES,
    FunctionalApiError,
    parse_function_signature,
    parse_functional_api,
    read_functional_api,
)
from oneflow.testing.interpreter import interpret
from oneflow.tools.functional_header import functional_text

API = """
# Two functions.
- name: "leaky"
  signature: "Tensor (Tensor x, Float alpha=0.5, *, Bool inplace=False) => Leaky"
  bind_python: True

- name: 'times'
  signature: [
      "Tensor (Tensor x, Tensor y) => Times",
      'Tensor (Tensor x,
          Scalar number=1) => TimesNumber',
    ]
"""


def is_tensor(value):
    return isinstance(value, np.ndarray)


def check_header(folder):
    """Compiles the header of functions in a folder."""
    (folder / "user.cpp").write_text('#include "functions.h"')
    command = ["g++", "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", str(folder / "user.cpp")]
    subprocess.run([*command, f"-I{flow.sysconfig.get_include()}"], check=True)


def bind(text, *args, **kwargs):
    return [a.value for a in parse_function_signature(text).bind(args, kwargs, is_tensor)]


def test_parsed_entries():
    leaky, times = parse_functional_api(API)
    assert (leaky.name, leaky.bind_python, leaky.where) == ("leaky", True, "functional_api.yaml:3")
    assert (times.name, times.bind_python, len(times.signatures)) == ("times", False, 2)
    assert str(times.signatures[1]) == "Tensor (Tensor x, Scalar number=1) => TimesNumber"
    assert [p.keyword for p in leaky.signatures[0].parameters] == [False, False, True]


X = np.zeros(2)


def test_the_first_signature_that_fits():
    times = parse_functional_api(API)[1]
    for args, functor in (((X, X), "Times"), ((X, 2.0), "TimesNumber"), ((X,), "TimesNumber")):
        assert times.bind(args, {}, is_tensor)[0].functor == functor
    with pytest.raises(
        TypeError, match=r"times: the arguments fit none of\n  Tensor \(Tensor x, Tensor y\) => Times: y"
    ):
        times.bind((X, "a"), {}, is_tensor)


@pytest.mark.parametrize(
    "text, args, kwargs, want",
    [
        ("Tensor (Int32 a, Int64 b=-7) => F", (1,), {}, [1, -7]),
        ("Tensor (Float a=0.1f, Double b=1e-5, Scalar c=2) => F", (), {}, [float(np.float32(0.1)), 1e-5, 2]),
        ("Tensor (String a=\"x,y\", DataType b=kInt8, DataType c=kFloat) => F", (), {}, ["x,y", dt.int8, dt.float32]),
        ("Tensor (Int32List[2] a=3, Bool b=true) => F", (), {}, [(3, 3), True]),
        ("Tensor (Int32List[3] a, FloatList b) => F", (5, [1, 2]), {}, [(5, 5, 5), (1.0, 2.0)]),
        ("Tensor (Int64 a=None, Tensor b=None) => F", (), {}, [None, None]),
        ("Tensor (*, Int64 a, String b) => F", (), {"b": "t", "a": 2}, [2, "t"]),
        ("Tensor (Shape a) => F", (2, 3), {}, [(2, 3)]),
        ("Tensor (Shape a) => F", ((2, 3),), {}, [(2, 3)]),
        ("Tensor (ShapeList a) => F", ([(1,), (2, 3)],), {}, [((1,), (2, 3))]),
    ],
)  # fmt: skip
def test_calls_are_bound_to_signatures(text, args, kwargs, want):
    assert bind(text, *args, **kwargs) == want


def test_tensor_parameters():
    found = bind("TensorTuple (TensorTuple xs, Int32 n) => F", [X, X], 1)
    assert found[0][0] is X and len(found[0]) == 2


@pytest.mark.parametrize(
    "text, args, kwargs, message",
    [
        ("Tensor (Tensor x) => F", (), {}, "expected the argument x"),
        ("Tensor (Tensor x) => F", (X, X), {}, "at most 1 positional arguments, got 2"),
        ("Tensor (Tensor x) => F", (3,), {}, "x: expected a tensor, got int"),
        ("Tensor (Tensor x) => F", (None,), {}, "x: expected a tensor, got NoneType"),
        ("Tensor (Tensor x) => F", (X,), {"x": X}, "the argument x is given twice"),
        ("Tensor (Tensor x) => F", (X,), {"y": X}, "unknown argument 'y'"),
        ("Tensor (Int32 n) => F", (1.5,), {}, "n: expected an integer, got 1.5"),
        ("Tensor (Int32 n) => F", (True,), {}, "n: expected an integer, got True"),
        ("Tensor (*, Bool b) => F", (True,), {}, "at most 0 positional arguments, got 1"),
        ("Tensor (TensorTuple xs, Int32 n) => F", (X, 1), {}, "xs: expected tensors, got ndarray"),
    ],
)
def test_calls_that_do_not_fit(text, args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        bind(text, *args, **kwargs)


@pytest.mark.parametrize(
    "text, message",
    [
        ("name: x", "functional_api.yaml:1: expected a list of functions, `- name: ..`"),
        ("\n- x", "functional_api.yaml:2: expected `name: ..`, a function"),
        ("\n- name: x", "functional_api.yaml:2: expected the keys name, signature and bind_python, got name"),
        ("- signature: 'Tensor () => F'", "expected the keys name, signature and bind_python, got signature"),
        ("- name: [x]\n  signature: 'Tensor () => F'", "yaml:1: name: expected text"),
        ("- name: x\n  signature: {a: b}", "yaml:2: signature: expected text"),
        ("- name: x\n  signature: [[a]]", "yaml:2: signature: expected text"),
        ("- name: x y\n  signature: 'Tensor () => F'", "expected the name of a Python function, got 'x y'"),
        ("- name: x\n signature: y", "functional_api.yaml:2: expected <block end>, but found"),
        ("- name: 'x", "functional_api.yaml:1: found unexpected end of stream"),
        (10_000 * "[", "functional_api.yaml: lists are nested too deeply"),
        (
            "- name: x\n  bind_python: True",
            "expected the keys name, signature and bind_python, got name, bind_python",
        ),
        ("- name: x\n  signature: 'Tensor => F'", "expected `Type .Type name, ... => Functor`"),
        ("- name: x\n  signature: 'Tensr (Tensor x) => F'", "expected one of Tensor, TensorTuple, Void"),
        ("- name: x\n  signature: 'Tensor (Tensr x) => F'", "unknown type Tensr; did you mean Tensor"),
        ("\n- name: x\n  signature: 'Tensor (Int32 n=f(x)) => F'", r"yaml:2: n: expected a constant after ="),
        ("- name: x\n  signature: 'Tensor (Int32) => F'", "expected `Type name` or `Type name=default`"),
        ("- name: x\n  signature: 'Tensor (Int32 n) => F'\n  bind_python: maybe", "expected True or False"),
    ],
)
def test_bad_files(text, message):
    with pytest.raises(FunctionalApiError, match=message):
        parse_functional_api(text)


#: Forms that OneFlow's own functions have and functors here do not.
ELSEWHERE = """
- name: "t_close"
  signature: "Bool (Tensor input, Tensor other) => Close"
  bind_python: true
- name: t_fresh
  signature:
    [
      "Tensor (Shape size, *, Placement placement, SbpList sbp, Layout layout=kStrided) ==> GlobalFresh",
      # Where it is.
      "Tensor (Shape size, *, DataType dtype=kInt, Device device=None) => Fresh",
      "Tensor (Tensor like, PyObject* index) => Like",
    ]
  bind_python: True
"""


def test_forms_that_no_call_fits(tmp_path):
    close, fresh = parse_functional_api(ELSEWHERE)
    with pytest.raises(TypeError, match="t_close: the return type Bool has no meaning here, functors give tensors"):
        close.bind((X, X), {}, is_tensor)
    signature, arguments = fresh.bind(((2, 3),), {"device": "cpu"}, is_tensor)
    assert (signature.functor, [a.value for a in arguments]) == ("Fresh", [(2, 3), dt.int32, "cpu"])
    assert str(fresh.signatures[0]).endswith("SbpList sbp, Layout layout=kStrided) => GlobalFresh")
    with pytest.raises(
        TypeError, match=r"placement: the type Placement has no meaning .*\n.*\n.*index: the type PyObject\* has no"
    ):
        fresh.bind((), {"placement": None}, is_tensor)
    (tmp_path / "functions.h").write_text(functional_text([close, fresh], "functions.yaml"))
    assert "// Not GlobalFresh: placement: the type Placement has no" in (tmp_path / "functions.h").read_text()
    check_header(tmp_path)


def test_the_functions_of_oneflow(tmp_path):
    source = os.environ.get("ONEFLOW_SOURCE")
    if not source:
        pytest.skip("ONEFLOW_SOURCE does not name a checkout of OneFlow")
    path = Path(source) / "oneflow/core/functional/functional_api.yaml"
    entries = read_functional_api(path)
    assert len(entries) == path.read_text().count("\n- name") >= 730
    add = next(e for e in entries if e.name == "add")
    assert [s.functor for s in add.signatures] == ["Add", "ScalarAdd", "ScalarAdd", "Add"]
    refused = [s for e in entries for s in e.signatures if s.refusal]
    assert all({s.returns, *(p.type for p in s.parameters)} & {*REFUSED_RETURNS, *REFUSED_TYPES} for s in refused)
    assert len(refused) < 50


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FunctionalApiError, match="No such file"):
        read_functional_api(tmp_path / "functional_api.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"- name: \xe9")
    with pytest.raises(FunctionalApiError, match="expected UTF-8, got 'utf-8' codec"):
        read_functional_api(tmp_path / "latin.yaml")


FUNCTIONS_API = """
- name: "t_leaky"
  signature: "Tensor (Tensor x, Float alpha=0.5) => Leaky"
  bind_python: True
- name: "t_leaky_grad"
  signature: "Tensor (Tensor x, Tensor dy, Float alpha) => LeakyGrad"
  bind_python: False
- name: "t_times"
  signature: ["Tensor (Tensor x, Tensor y) => Times", "Tensor (Tensor x, Scalar y) => Times"]
  bind_python: True
- name: "t_both"
  signature: "TensorTuple[first, second] (TensorTuple xs, Tensor scale=None, Int64 extra=None, Int32List[1] list=0,
      FloatList floats=(), Shape dims=(), String text='', Bool flag=True, DataType type=kFloat,
      Double number=0.0) => Everything"
  bind_python: True
- name: "t_lists"
  signature: "Tensor (Tensor x, DoubleList doubles, BoolList[2] bools=False, ScalarList scalars=(),
      DoubleList more=None) => Lists"
  bind_python: True
- name: "t_lists_again"
  signature: "Tensor (Tensor x) => ListsAgain"
  bind_python: True
- name: "t_fail"
  signature: "Tensor (Tensor x, Int64 how) => Fail"
  bind_python: True
"""


@pytest.fixture(scope="module")
def functions(with_functions, tmp_path_factory):
    """`flow._C` with the functions of libraries/functions.cpp, whose operators every builder knows meanwhile."""
    path = tmp_path_factory.mktemp("api") / "functional_api.yaml"
    path.write_text(FUNCTIONS_API)
    added = {r.name: r for r in with_functions if r.name not in REGISTRY}
    tables = REGISTRY.operators, flow._C._entries, flow._C._unbound
    with contextlib.ExitStack() as kept:
        for table in tables:
            kept.enter_context(mock.patch.dict(table))
        REGISTRY.operators.update(added)
        flow.config.load_functional_api(path)
        flow.config.load_functional_api(path)
        yield flow._C


V = np.array([[-1.0, 2.0], [3.0, -4.0]])


def run(function):
    """The results of a function of one tensor on V, traced and computed with the operators' references."""
    module = flow.trace(function, flow.TensorSpec(V.shape, flow.float64))
    return interpret(module, module.body.operations[0].name.value, V)


def test_functions_of_tensors(functions):
    for fn, want in [
        (lambda x: functions.t_leaky(x, alpha=0.25), np.where(V > 0, V, V / 4)),
        (lambda x: functions.t_leaky(x), np.where(V > 0, V, V / 2)),
        (lambda x: functions.t_times(x, x), V * V),
        (lambda x: functions.t_times(x, 3), V * 3),
        (lambda x: functions.t_both([x, x], number=2.0, extra=1, list=3).second, V * 7),
    ]:
        np.testing.assert_array_equal(run(fn)[0], want)


@pytest.mark.parametrize(
    "args, total",
    [
        (([0.1, 1e-9],), 0.1 + 1e-9),
        (([1, 2], True), 3 + 4),
        (([], [True, False]), 2),
        (([], False, [1, 2]), 30),
        (([], False, [1, 2.5]), 3.5),
        (([], False, [], [0.25, 3]), 3.25),
    ],
)
def test_lists_that_attributes_do_not_have(functions, args, total):
    np.testing.assert_allclose(run(lambda x: functions.t_lists(x, *args))[0], V * total, rtol=1e-15)


def test_lists_from_cpp_and_what_is_refused(functions):
    (found,) = run(lambda x: functions.t_lists_again(x))
    np.testing.assert_allclose(found, V * (0.1 + 0.2 + 4 + 1 + 0.5), rtol=1e-15)
    with pytest.raises(TypeError, match=r"t_lists: doubles: .*expected a number, got 'a'"):
        functions.t_lists(V, ["a"])
    with pytest.raises(TypeError, match=r"t_lists: bools: .*expected"):
        functions.t_lists(V, [1.0], [2, 3])


def test_functions_for_cpp_take_every_type(tmp_path):
    types = [name for name in TYPES if name != "Tensor"]
    parameters = ", ".join(f"{name} p{i}, {name} q{i}=None" for i, name in enumerate(types))
    (entry,) = parse_functional_api(f'- name: "t_every"\n  signature: "Tensor (Tensor x, {parameters}) => Every"')
    (tmp_path / "functions.h").write_text(functional_text([entry], "functions.yaml"))
    check_header(tmp_path)


def test_functions_in_a_trace(functions):
    text = str(flow.trace(lambda x: functions.t_leaky(x, 0.25), flow.TensorSpec((2, None), flow.float64)))
    assert "oneflow.t_leaky" in text
    assert "alpha = 2.500000e-01" in text


def test_errors_of_functions(functions):
    with pytest.raises(TypeError, match=r"t_leaky: .*expected Tensor \(Tensor x, Float alpha=0.5\) => Leaky"):
        functions.t_leaky(V, alpha="a")
    with pytest.raises(flow.OneFlowError, match=r"test_functional_api.py:.*thrown by the functor"):
        run(lambda x: functions.t_fail(x, 1))
    declared = r"'t_leaky_grad': the declaration at .*\.yaml:\d+ is for C\+\+ only; write bind_python: True there$"
    with pytest.raises(AttributeError, match=declared):
        _ = functions.t_leaky_grad
    with pytest.raises(AttributeError, match=r"no function 't_leakyy'; did you mean t_leaky\?$"):
        _ = functions.t_leakyy
    with pytest.raises(AttributeError, match=r"no function 'abc'; load the file that declares it with flow\.config"):
        _ = functions.abc


def test_a_function_declared_twice(functions, tmp_path):
    path = tmp_path / "again.yaml"
    path.write_text(FUNCTIONS_API)
    with pytest.raises(FunctionalApiError, match=r"t_leaky is declared twice: at .*:2 and at .*again.yaml:2"):
        flow.config.load_functional_api(path)
