"""Every sample through the whole pipeline, compared with the reference.

An operator's first sample runs with all its element types, the others with one; $ONEFLOW_TEST_ALL runs all with all.
"""

import os

import pytest
from samples import SAMPLES, UNEDGED

from oneflow.dialect.record import OperatorError
from oneflow.testing.backend import check_backend, check_backend_edges

FIRST = {s.op: s for s in reversed(SAMPLES)}
CASES = [(s, d) for s in SAMPLES
         for d in (s.dtypes if FIRST[s.op] is s or "ONEFLOW_TEST_ALL" in os.environ else s.dtypes[:1])]  # fmt: skip
EDGED = [(s, d) for s in FIRST.values() if s.op not in UNEDGED for d in s.dtypes if d.is_float]
IDS = [f"{s}-{d}" for s, d in CASES]


@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=IDS)
def test_sample(sample, dtype):
    check_backend(sample, dtype)


@pytest.mark.parametrize(("sample", "dtype"), EDGED, ids=[f"{s}-{d}" for s, d in EDGED])
def test_edges(sample, dtype):
    check_backend_edges(sample, dtype)


@pytest.mark.parametrize("sample", FIRST.values(), ids=str)
def test_dynamic(sample):
    try:
        check_backend(sample, sample.dtypes[0], dynamic=True)
    except OperatorError as error:
        assert "static" in str(error)
