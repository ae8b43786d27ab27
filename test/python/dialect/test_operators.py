"""Every sample of every operator: types, meaning, gradient, SBP, text, refusals."""

from pathlib import Path
from typing import Any

import pytest
from samples import BAD, SAMPLES, UNEDGED

from oneflow.dialect import ops
from oneflow.dialect.dtypes import float16, float32
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Absent
from oneflow.testing import checks
from oneflow.testing.gradients import check_gradient

CASES: list[Any] = [pytest.param(s, d, id=f"{s}-{d}") for s in SAMPLES for d in s.dtypes]
EDGED = [p for p in CASES if p.values[0].op not in UNEDGED and p.values[1] in (float32, float16)]
WITH_FLOATS = [s for s in SAMPLES if s.gradient and any(d.is_inexact for d in s.dtypes)]
DIFFERENTIABLE = [s for s in WITH_FLOATS if not isinstance(REGISTRY[s.op].grad, Absent)]


@pytest.fixture(scope="module")
def context():
    return create_context()


@pytest.mark.parametrize("sample,dtype", CASES)
def test_types(sample, dtype):
    checks.check_types(sample, dtype)


@pytest.mark.parametrize("sample,dtype", CASES)
def test_meaning(sample, dtype):
    checks.check_meaning(sample, dtype)


@pytest.mark.parametrize("sample,dtype", EDGED)
def test_references_at_nan_and_infinities(sample, dtype):
    checks.check_edges(sample, dtype)


@pytest.mark.parametrize("sample,dtype", CASES)
def test_round_trip(sample, dtype, context):
    checks.check_round_trip(sample, dtype, context)


@pytest.mark.parametrize("sample", DIFFERENTIABLE, ids=str)
def test_gradient(sample):
    check_gradient(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_sbp(sample):
    checks.check_sbp(sample)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad(bad):
    checks.check_bad(bad)


def test_every_operator_has_a_sample():
    """Of the package's own operators: other tests of this process may have defined some."""
    folder = str(Path(ops.__file__).resolve().parent.parent)
    own = {r.name for r in REGISTRY if str(Path(r.where).resolve()).startswith(folder)}
    assert len(own) > 250
    missing = own - {s.op for s in SAMPLES}
    assert not missing, f"operators without a sample: {sorted(missing)}"
