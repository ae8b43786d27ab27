"""Every sample through the whole pipeline, compared with the reference."""

import pytest
from samples import SAMPLES

from oneflow.dialect.record import OperatorError
from oneflow.testing.backend import check_backend

CASES = [(s, d) for s in SAMPLES for d in s.dtypes]
IDS = [f"{s}-{d}" for s, d in CASES]


@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=IDS)
def test_sample(sample, dtype):
    check_backend(sample, dtype)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_dynamic(sample):
    try:
        check_backend(sample, sample.dtypes[0], dynamic=True)
    except OperatorError as error:
        assert "static" in str(error)
