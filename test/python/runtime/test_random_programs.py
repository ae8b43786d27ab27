"""Random programs of operators that fuse, share and reduce, compiled and compared with NumPy."""

from dataclasses import dataclass

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY
from oneflow.runtime.cuda.executable import compile_cuda
from oneflow.runtime.executable import Options, compile_module
from oneflow.testing.host_cuda import host_cuda

UNARY = ("relu", "tanh", "negative", "sigmoid", "softmax", "transpose", "flatten")
BINARY = ("broadcast_add", "broadcast_mul", "broadcast_sub", "broadcast_maximum", "matmul", "matmul_t")
REDUCE = ("reduce_sum", "reduce_max", "reduce_min")


@dataclass(frozen=True)
class Step:
    """An operation: the earlier operand values (counted from the end) and the axis."""

    name: str
    first: int
    second: int
    axis: int


steps = st.builds(
    Step, st.sampled_from(UNARY + BINARY + REDUCE), st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)
)
programs = st.lists(steps, min_size=1, max_size=9)


def pick(values, number):
    return values[max(len(values) - 1 - number, 0)]


def apply(builder, values, step):
    """The value of a step; where shapes do not fit, something that does."""
    a, b = pick(values, step.first), pick(values, step.second)
    if step.name == "transpose":
        return builder.transpose(a, perm=[1, 0])
    if step.name == "flatten":
        return builder.reshape(builder.reshape(a, shape=[-1]), shape=list(a.shape))
    if step.name in REDUCE:
        return builder.call(step.name, a, axis=[step.axis], keepdims=True)[0]
    if step.name == "matmul":
        return (
            builder.matmul(a, builder.transpose(a, perm=[1, 0])) if a.shape[1] != b.shape[0] else builder.matmul(a, b)
        )
    if step.name == "matmul_t":
        return builder.matmul(a, b if a.shape[1] == b.shape[1] else a, transpose_b=True)
    if step.name in BINARY:
        fits = all(x == y or 1 in (x, y) for x, y in zip(a.shape, b.shape, strict=True))
        return builder.call(step.name, a, b if fits else a)[0]
    return builder.call(step.name, a)[0]


def run(builder, values, program):
    """All values of a program, tamed by tanh where sums would grow."""
    values = list(values)
    for step in program:
        made = apply(builder, values, step)
        grows = step.name in ("matmul", "matmul_t", "reduce_sum", "broadcast_mul", "broadcast_add")
        values.append(builder.tanh(made) if grows else made)
    return values


def compiled(shapes, program, kept, compile_it):
    with create_context(), ir.Location.unknown():
        arguments = ", ".join(f"%x{i}: tensor<{m}x{n}xf32>" for i, (m, n) in enumerate(shapes))
        module = ir.Module.parse(f"func.func @main({arguments}) {{ return }}")
        function = module.body.operations[0]
        block = function.regions[0].blocks[0]
        last = block.operations[0]
        builder = IRBuilder(REGISTRY, ir.InsertionPoint(last))
        values = run(builder, [builder.wrap(a) for a in block.arguments], program)
        results = [values[k].handle for k in kept]
        with ir.InsertionPoint(last):
            ir.Operation.create("func.return", [], results)
        last.operation.erase()
        kind = ir.FunctionType.get([a.type for a in block.arguments], [r.type for r in results])
        function.operation.attributes["function_type"] = ir.TypeAttr.get(kind)
        return compile_it(module, "main", Options(cached=False))


given_programs = given(
    programs,
    st.tuples(st.sampled_from([1, 2, 5, 17, 40]), st.sampled_from([1, 3, 16, 33])),
    st.sets(st.integers(2, 10), max_size=2),
)


@settings(max_examples=40, deadline=None)
@example([Step("softmax", 0, 0, 0), Step("reduce_sum", 0, 0, 0)], (2, 1), set())
@given_programs
def test_random_program_equals_numpy(program, shape, kept):
    check(program, shape, kept, compile_module)


@settings(max_examples=25, deadline=None)
@given_programs
def test_random_program_on_a_device_equals_numpy(program, shape, kept):
    """Triton's interpreter runs the kernels of the program: one by one, then as a graph."""
    with host_cuda():
        check(program, shape, kept, compile_cuda)


def check(program, shape, kept, compile_it):
    """Two runs of a program give NumPy's values."""
    shapes = [shape, (shape[0], 1) if len(program) % 2 else shape]
    total = len(shapes) + len(program)
    kept = sorted({k for k in kept if k < total} | {total - 1})
    rng = np.random.default_rng(len(program))
    arrays = [rng.uniform(-2, 2, s).astype(np.float32) for s in shapes]
    builder = NumpyBuilder()
    want = run(builder, [builder.wrap(a.astype(np.float64)) for a in arrays], program)
    executable = compiled(shapes, program, kept, compile_it)
    for _ in range(2):
        for got, number in zip(executable(*arrays), kept, strict=True):
            np.testing.assert_allclose(got, want[number].handle, rtol=3e-4, atol=3e-5)
