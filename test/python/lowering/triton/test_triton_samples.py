"""Every sample through Triton's interpreter against its reference; kernels compiled for sm_90, without a GPU.

All element types take part, also bf16: the interpreter's bf16 rounding is replaced by NumPy's (see
`oneflow.testing.triton_interpreter`). An operator's first sample runs in all its element types, the others in one;
the first sample runs with dynamic sizes and is compiled in its first element type, every distinct kernel once.
$ONEFLOW_TEST_ALL takes all. The samples of an operator are calls of one program.
"""

import re
from typing import Any

import pytest
from samples import EVERY, SAMPLES, SPREAD

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.passes.pipeline import PipelineFailure
from oneflow.runtime.cuda.compiler import CompileError, compile_source
from oneflow.testing.checks import make_call
from oneflow.testing.triton_interpreter import check_triton, check_triton_cases, lower_calls

FIRST = {s.op: s for s in reversed(SAMPLES)}
CASES = dict[str, Any]()
for one in SAMPLES:
    CASES.setdefault(one.op, []).extend(
        (one, d) for d in (one.dtypes if FIRST[one.op] is one or EVERY else one.dtypes[:1])
    )
COMPILED = {name: cases if EVERY else cases[:1] for name, cases in CASES.items()}
#: The number of parts that the compiled operators are cut into.
PARTS = 16


@pytest.fixture(scope="module")
def context():
    return create_context()


@pytest.mark.parametrize("name", CASES)
def test_samples_in_the_triton_interpreter(name, context):
    assert not check_triton_cases(CASES[name], context=context)


@pytest.mark.parametrize("sample", SPREAD if EVERY else list(FIRST.values()), ids=str)
def test_dynamic_samples_in_the_triton_interpreter(sample, context):
    try:
        check_triton(sample, sample.dtypes[0], dynamic=True, context=context)
    except (OperatorError, PipelineFailure) as error:
        assert "static" in str(error)


def kernels(names, context):
    """The distinct kernels of the operators: numbers aside, each text once."""
    found = dict[Any, Any]()
    cases = [case for name in names for case in COMPILED[name]]
    calls = [make_call(s, s.arrays(d), s.attributes(d), REGISTRY) for s, d in cases]
    for source in lower_calls(calls, context=context).sources.values():
        if source.grid.static != 0:
            found.setdefault((re.sub(r"\d+", "#", source.text), source.parameters[0][1]), source)
    return list(found.values())


def failure(source):
    try:
        binary = compile_source(source, "sm_90")
    except CompileError as error:
        return f"{error}\n{source.text}"
    return None if binary.cubin and binary.shared <= 232448 else f"{source.name}: {binary.shared} bytes shared"


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_compile_to_machine_code(part, context):
    names = sorted(COMPILED)
    size = -(-len(names) // PARTS)
    failures = [f for f in map(failure, kernels(names[part * size :][:size], context)) if f is not None]
    assert not failures, "\n\n".join(failures[:3])
