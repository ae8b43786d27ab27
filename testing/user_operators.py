"""`flow.testing.check_op`: the checks that built-in operators get, for an operator of a user."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

from oneflow.dialect import dtypes
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Absent, Operator, Registry
from oneflow.passes.base import PassError
from oneflow.testing import checks
from oneflow.testing.backend import check_backend
from oneflow.testing.gradients import check_gradient
from oneflow.testing.sample import Sample
from oneflow.testing.triton_interpreter import check_triton

#: Whether there is a Triton whose interpreter can run kernels.
TRITON = importlib.util.find_spec("triton") is not None


def check_op(op: Operator | str, samples: Sequence[Sample], registry: Registry = REGISTRY) -> None:
    """Checks an operator on samples.

    For each sample and each of its element types: the types rule against the reference, the meaning against the
    reference, the text of the dialect read again, and every backend: the compiled operator on the CPU, and where
    Triton is installed its kernels for a CUDA device, interpreted; both with unknown sizes, too. For each sample:
    every SBP signature on 2 and 3 devices, and the gradient against finite differences where the operator has a
    gradient.

    Args:
        op: the operator, or its name.
        samples: valid calls of the operator.
        registry: the registry of the operator.

    Raises:
        ValueError: there is no sample, or a sample is of another operator.
        AssertionError: a check fails; the text names the sample and the difference.
    """
    name = op if isinstance(op, str) else op.name
    record = registry[name]
    if not samples:
        raise ValueError(f"expected samples of {name}, got none")
    for sample in samples:
        if sample.op != name:
            raise ValueError(f"expected samples of {name}, got one of {sample.op}")
        _check_sample(record, sample, registry)


def _check_sample(record: Operator, sample: Sample, registry: Registry) -> None:
    for dtype in sample.dtypes:
        checks.check_types(sample, dtype, registry)
        checks.check_meaning(sample, dtype, registry)
        checks.check_round_trip(sample, dtype, create_context(registry), registry)
        backends: list[Callable[..., object]] = [check_backend, *([check_triton] if TRITON else [])]
        for check in backends:
            check(sample, dtype, registry=registry)
            _check_dynamic(check, sample, dtype, registry)
    checks.check_sbp(sample, registry)
    if sample.gradient and not isinstance(record.grad, Absent) and sample.dtypes[0].is_float:
        check_gradient(sample, registry)


def _check_dynamic(check: Callable[..., object], sample: Sample, dtype: dtypes.DType, registry: Registry) -> None:
    """Compiled for every size, unless the operator refuses that."""
    try:
        check(sample, dtype, dynamic=True, registry=registry)
    except (ValueError, PassError) as error:
        assert "static" in str(error), f"{sample} {dtype}: {error}"
