"""Every sample through Triton's interpreter against its reference; kernels compiled for sm_90, without a GPU.

All element types take part, also bf16: the interpreter's bf16 rounding is replaced by NumPy's (see
`oneflow.testing.triton_interpreter`). An operator's first sample runs in all its element types, the others in one;
the first sample runs with dynamic sizes and is compiled in its first element type, every distinct kernel once.
$ONEFLOW_TEST_ALL takes all.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from samples import EVERY, SAMPLES, SPREAD

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.passes.pipeline import PipelineFailure
from oneflow.runtime.cuda.compiler import CompileError, compile_source
from oneflow.testing.checks import make_call
from oneflow.testing.triton_interpreter import check_triton, lower_call

FIRST = {s.op: s for s in reversed(SAMPLES)}
CASES = [(s, d) for s in SAMPLES for d in (s.dtypes if FIRST[s.op] is s or EVERY else s.dtypes[:1])]
COMPILED = CASES if EVERY else [(s, s.dtypes[0]) for s in FIRST.values()]


@pytest.fixture(scope="module")
def context():
    return create_context()


@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=[f"{s}-{d}" for s, d in CASES])
def test_samples_in_the_triton_interpreter(sample, dtype, context):
    assert not check_triton(sample, dtype, context=context)


@pytest.mark.parametrize("sample", SPREAD if EVERY else list(FIRST.values()), ids=str)
def test_dynamic_samples_in_the_triton_interpreter(sample, context):
    try:
        check_triton(sample, sample.dtypes[0], dynamic=True, context=context)
    except (OperatorError, PipelineFailure) as error:
        assert "static" in str(error)


def kernels():
    """The distinct kernels of the samples: numbers aside, each text once."""
    found, context = dict[Any, Any](), create_context()
    for sample, dtype in COMPILED:
        call = make_call(sample, sample.arrays(dtype), sample.attributes(dtype), REGISTRY)
        for source in lower_call(call, context=context).sources.values():
            if source.grid.static != 0:
                found.setdefault((re.sub(r"\d+", "#", source.text), source.parameters[0][1]), source)
    return list(found.values())


def failure(source):
    try:
        binary = compile_source(source, "sm_90")
    except CompileError as error:
        return f"{error}\n{source.text}"
    return None if binary.cubin and binary.shared <= 232448 else f"{source.name}: {binary.shared} bytes shared"


def test_kernels_compile_to_machine_code():
    with ThreadPoolExecutor(2) as pool:
        failures = [f for f in pool.map(failure, kernels()) if f is not None]
    assert not failures, "\n\n".join(failures[:3])
