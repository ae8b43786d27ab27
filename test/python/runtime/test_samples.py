"""Every sample through the whole pipeline, one program for each operator, compared with the reference.

The first sample of an operator runs with all element types, others with one; $ONEFLOW_TEST_ALL runs all with all.
"""

import pytest
from samples import EVERY, SAMPLES, UNEDGED

from oneflow.dialect.record import OperatorError
from oneflow.testing.backend import check_backend, check_backend_cases

FIRST = {s.op: s for s in reversed(SAMPLES)}


def cases_of(name):
    """The samples of an operator, with the element types of the test."""
    return [
        (s, d) for s in SAMPLES if s.op == name for d in (s.dtypes if FIRST[name] is s or EVERY else s.dtypes[:1])
    ]


@pytest.mark.parametrize("name", FIRST)
def test_samples_through_the_pipeline(name):
    cases = cases_of(name)
    edged = [(s, d) for s, d in cases if s is FIRST[name] and d.is_float and name not in UNEDGED]
    check_backend_cases(cases, edged)


@pytest.mark.parametrize("sample", FIRST.values(), ids=str)
def test_dynamic_samples_through_the_pipeline(sample):
    try:
        check_backend(sample, sample.dtypes[0], dynamic=True)
    except OperatorError as error:
        assert "static" in str(error)
