"""Names of the previous release are aliases of current names and warn once."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect import deprecated
from oneflow.dialect.deprecated import RENAMED, DeprecatedName, current_name
from oneflow.dialect.record import REGISTRY, Operator, Registry
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.errors import SourceLocation
from oneflow.frontend.operators import SLOTS
from oneflow.lowering.kernels.form_kernels import FormKernels
from oneflow.passes.base import PipelineError
from oneflow.passes.pipeline_text import parse_flag
from oneflow.passes.registry import PASSES
from oneflow.tools import oneflow_opt

ROWS = [(scope, old, new) for scope, names in RENAMED.items() for old, new in names.items()]
PROGRAM = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n"


@pytest.fixture(autouse=True)
def _no_warning_was_given():
    deprecated._WARNED.clear()


def names_of(scope: str) -> list[set[str]]:
    """The names that are valid today, for each thing in a scope."""
    fixed = {"pass": set(PASSES), "option of oneflow-form-kernels": set(FormKernels.options()),
             SLOTS: set(Operator.__dataclass_fields__),
             "attribute of flow.OneFlowError": set(vars(flow.OneFlowError("expected")))}  # fmt: skip
    if scope in fixed:
        return [fixed[scope]]
    modules = {"flow": F, "flow.cuda": flow.cuda}
    scope_of: dict[str, Any] = {
        f"argument of {module}.{name}": function
        for module, members in modules.items() for name, function in vars(members).items()
        if inspect.isroutine(function)
    }  # fmt: skip
    scope_of["argument of flow.device"] = type(flow.device).__call__
    matching = [f for name, f in scope_of.items() if re.fullmatch(scope, name)]
    if matching:
        return [set(inspect.signature(f).parameters) for f in matching]
    records = [r for name, r in REGISTRY.operators.items() if re.fullmatch(scope, f"argument of flow.ops.{name}")]
    return [{a.name for a in r.signature.inputs} | {a.name for a in r.signature.attrs} for r in records]


@pytest.mark.parametrize(("scope", "old", "new"), ROWS)
def test_previous_names_are_unknown_and_current_names_known(scope, old, new):
    names = names_of(scope)
    assert names
    assert all((new is None or new in known) and old not in known for known in names)


def test_a_previous_name_warns_once():
    with pytest.warns(DeprecatedName, match="oneflow-compute-padded is now oneflow-fuse-padding") as caught:
        assert current_name("pass", "oneflow-compute-padded") == "oneflow-fuse-padding"
        assert current_name("pass", "oneflow-compute-padded") == "oneflow-fuse-padding"
    assert len(caught) == 1


def test_previous_names_of_passes_and_options():
    with pytest.warns(DeprecatedName, match="oneflow-deterministic-scatter"):
        assert [step.name for step in parse_flag("oneflow-claim-positions", "")] == ["oneflow-deterministic-scatter"]
    with pytest.warns(DeprecatedName, match="beside has no effect"):
        assert FormKernels.from_options({"beside": "2"}) == FormKernels()


@pytest.mark.parametrize(("text", "gpu"), [("132", True), ("0", False), ("true", True)])
def test_an_option_whose_values_have_changed(text, gpu):
    with pytest.warns(DeprecatedName, match="processors is now gpu"):
        assert FormKernels.from_options({"processors": text}) == FormKernels(gpu=gpu)
    with pytest.raises(PipelineError, match=r"expected true or false, got '?many"):
        FormKernels.from_options({"processors": "many"})
    with pytest.raises(PipelineError, match="expected one value of gpu, got one for each of its names"):
        FormKernels.from_options({"processors": "1", "gpu": "true"})


def test_the_command_line_shows_the_warning(tmp_path, capsys, recwarn):
    warnings.simplefilter("ignore")
    program = tmp_path / "p.mlir"
    program.write_text(PROGRAM)
    flags = ["--oneflow-compute-padded", "--mlir-print-ir-after=oneflow-compute-padded"]
    assert oneflow_opt.main([str(program), *flags]) == 0
    assert "oneflow-compute-padded is now oneflow-fuse-padding" in str(recwarn.pop(DeprecatedName).message)
    assert "IR Dump After oneflow-fuse-padding" in capsys.readouterr().err


def test_previous_names_of_slots():
    registry = Registry()
    with pytest.warns(DeprecatedName, match="unoffered"):

        @flow.operator("kept(x) -> y", registry=registry)
        class Kept:
            types = "x"
            withheld = "all of them"
            decompose = lambda ops, op: ops.relu(op.x)  # noqa: E731

    assert registry["kept"].unoffered == "all of them"


def test_previous_names_of_operator_arguments():
    x = np.ones((2, 3), np.float32)
    with pytest.warns(DeprecatedName, match="x is now input_tensor"):
        result = flow.ops.reduce_sum(x=x, axis=[1], keepdims=False)
    np.testing.assert_array_equal(result.numpy(), x.sum(1))
    with warnings.catch_warnings(), pytest.raises(TypeError, match="one for each of its names"):
        warnings.simplefilter("ignore", DeprecatedName)
        flow.ops.reduce_sum(x=x, input_tensor=x, axis=[1], keepdims=False)


def test_previous_names_of_attributes():
    location = SourceLocation("model.py", 3, 1)
    with pytest.warns(DeprecatedName, match="place is now location"):
        assert flow.OneFlowError("expected", location).place is location
    with pytest.raises(AttributeError, match="'OneFlowError' object has no attribute 'line'"):
        _ = flow.OneFlowError("expected").line


def test_a_name_without_effect():
    x = flow.tensor(np.array([6, 5], np.int32))
    with pytest.warns(DeprecatedName) as caught:
        result = flow.ops.scalar_bitwise_and(x, has_int_operand=True, int_operand=3)
    assert result.tolist() == [2, 1]
    assert ["has_int_operand has no effect" in str(w.message) for w in caught] == [True, False]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda x: flow.round(x=x), [0.0, 2.0]),  # type: ignore[call-arg]
        (lambda x: flow.slice(x, slices=[(1, 2, 1)]), [1.5]),  # type: ignore[call-overload]
        (lambda x: x.masked_select(key=x > 1), [1.5]),
        (lambda x: x.to(flow.device(name="cpu")), [0.25, 1.5]),  # type: ignore[call-arg]
        (lambda x: x.where(x > 1, -1.0), [-1.0, 1.5]),
        (lambda x: x.where(condition=x > 1, other=-1.0), [-1.0, 1.5]),
    ],
)
def test_previous_names_of_function_arguments(call, result):
    """The warning is at the user's line: Python shows deprecation warnings at lines of the main program alone."""
    with pytest.warns(DeprecatedName) as caught:
        assert call(flow.tensor(np.array([0.25, 1.5], np.float32))).tolist() == result
    assert [w.filename for w in caught] == [__file__]
