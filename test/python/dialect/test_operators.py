"""Every sample of every operator: types, meaning, gradient, text, refusals; `test_sbp_coverage.py` checks SBP."""

from pathlib import Path

import pytest
from each_case import by_operator, each
from samples import BAD, SAMPLES, UNEDGED

from oneflow.dialect import ops
from oneflow.dialect.dtypes import DType, float16, float32
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Absent
from oneflow.testing import checks
from oneflow.testing.gradients import check_gradient
from oneflow.testing.sample import Sample

#: The samples of each operator with the types of their runs: a test checks all of an operator, since most are short.
CASES: dict[str, list[tuple[Sample, DType]]] = {}
for one in SAMPLES:
    CASES.setdefault(one.op, []).extend((one, d) for d in one.dtypes)
EDGED = {
    name: [c for c in cases if c[1] in (float32, float16)] for name, cases in CASES.items() if name not in UNEDGED
}
WITH_FLOATS = [s for s in SAMPLES if s.gradient and any(d.is_inexact for d in s.dtypes)]
DIFFERENTIABLE = by_operator(s for s in WITH_FLOATS if not isinstance(REGISTRY[s.op].grad, Absent))


@pytest.fixture(scope="module")
def context():
    return create_context()


@pytest.mark.parametrize("name", CASES)
def test_inferred_types_equal_the_types_of_the_reference(name):
    each(CASES[name], checks.check_types)


@pytest.mark.parametrize("name", CASES)
def test_evaluation_equals_the_reference(name):
    each(CASES[name], checks.check_meaning)


@pytest.mark.parametrize("name", EDGED)
def test_references_at_nan_and_infinities(name):
    each(EDGED[name], checks.check_edges)


@pytest.mark.parametrize("name", CASES)
def test_text_round_trip(name, context):
    each(CASES[name], checks.check_round_trip, context)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name):
    each([(s,) for s in DIFFERENTIABLE[name]], check_gradient)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_samples_are_refused(bad):
    checks.check_bad(bad)


def test_every_operator_has_a_sample():
    """Of the package's own operators: other tests of this process may have defined some."""
    folder = str(Path(ops.__file__).resolve().parent.parent)
    own = {r.name for r in REGISTRY if str(Path(r.where).resolve()).startswith(folder)}
    assert len(own) > 250
    missing = own - {s.op for s in SAMPLES}
    assert not missing, f"operators without a sample: {sorted(missing)}"
