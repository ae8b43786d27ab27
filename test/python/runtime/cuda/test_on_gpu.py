"""On a real device, with -m gpu: every sample, random programs, training, other libraries, memory, the sanitizer.

$ONEFLOW_TEST_SANITIZER is the path of compute-sanitizer if absent from $PATH. With $ONEFLOW_TEST_SHARD=i/n every
n-th sample is run, from the i-th on; see `benchmarks/gpu_session.py`.
"""

import gc
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from epilogues import FOLLOWING, after, operands
from samples import SAMPLES

import oneflow as flow
from oneflow.dialect import ops  # noqa: F401
from oneflow.dialect._mlir import ir
from oneflow.dialect.numpy_builder import run_reference
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, flatten
from oneflow.lowering.targets.hopper import HOPPER_TILES
from oneflow.lowering.triton.cost.matmul_configurations import configs_of
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.array import CudaArray
from oneflow.runtime.cuda.executable import compile_cuda
from oneflow.runtime.executable import Options, OutOfBoundsError
from oneflow.testing.backend import call_module
from oneflow.testing.checks import assert_close, make_call

HOPPER_CONFIGS = configs_of(HOPPER_TILES.warp_specialized)

FIRST, EVERY = map(int, os.environ.get("ONEFLOW_TEST_SHARD", "0/1").split("/"))
CASES = [(s, d) for s in SAMPLES for d in s.dtypes][FIRST::EVERY]
LAST = 3


def has_device():
    try:
        return driver.device_count() > 0
    except driver.CudaError:
        return False


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_device(), reason="needs a CUDA device")]


def floats(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def context():
    return create_context()


def compiled(op, context, dynamic=False):
    with context, ir.Location.unknown():
        return compile_cuda(call_module(op, dynamic, REGISTRY))


@pytest.mark.parametrize(("sample", "dtype"), CASES, ids=[f"{s}-{d}" for s, d in CASES])
def test_samples_on_a_gpu(sample, dtype, context):
    """The first run launches kernels one by one, the second is a graph, the third a graph that was changed."""
    op = make_call(sample, sample.arrays(dtype), sample.attributes(dtype), REGISTRY)
    want, run = [np.asarray(r) for r in run_reference(op)], compiled(op, context)
    for _ in range(LAST):
        got = run(*flatten(op.inputs.values()))
        assert len(got) == len(want)
        for index, (one, other) in enumerate(zip(got, want, strict=True)):
            one = one.view(other.dtype) if one.dtype.itemsize == other.dtype.itemsize else one
            assert_close(one, other, sample.tolerance(dtype), f"{sample} {dtype} result {index}")


UNARY: list[Callable[..., Any]] = [
    flow.relu,
    flow.tanh,
    flow.sigmoid,
    flow.exp,
    flow.softmax,
    lambda x: x - x.mean(1, keepdim=True),
]
BINARY: list[Callable[..., Any]] = [flow.add, flow.mul, flow.maximum, lambda a, b: a @ b.transpose(0, 1) @ b]


def random_function(seed):
    rng = np.random.default_rng(seed)
    steps = [(rng.integers(2), rng.integers(100), rng.integers(100), rng.integers(100)) for _ in range(8)]

    def function(x, y):
        values = [x, y]
        for kind, which, a, b in steps:
            first, second = values[a % len(values)], values[b % len(values)]
            made = UNARY[which % len(UNARY)](first) if kind else BINARY[which % len(BINARY)](first, second)
            values.append(flow.tanh(made))
        return values[-1], sum(values[2:], values[0]).sum(0)

    return function


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 200)), int(rng.integers(1, 300)))
    function = random_function(seed)
    run, want = flow.compile(function, device="cuda"), flow.compile(function)
    for number in range(LAST):
        x, y = floats(*shape, seed=number), floats(*shape, seed=number + 50)
        for got, other in zip(run(x, y), want(x, y), strict=True):
            np.testing.assert_allclose(got, other, 2e-4, 2e-4)


#: Heads, groups, queries, keys, widths: blocks that are whole or not, shared keys, more queries or keys.
MANY = [
    (16, 16, 512, 512, 64, 64), (16, 4, 300, 300, 128, 128), (16, 8, 200, 333, 64, 128), (16, 16, 400, 150, 40, 96),
    (12, 12, 1024, 1024, 64, 64),
]  # fmt: skip


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("sizes", MANY, ids=str)
def test_attention_with_many_queries(sizes, is_causal):
    """The program uses the kernel variant of the device's architecture, if the architecture has a variant."""
    heads, groups, length, size, width, out = sizes
    rng = np.random.default_rng(3)
    shapes = [(6, heads, length, width), (6, groups, size, width), (6, groups, size, out)]
    q, k, v = (rng.standard_normal(s).astype(np.float16) for s in shapes)

    def function(q, k, v):
        return flow.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    wide_k, wide_v = (np.repeat(x.astype(np.float64), heads // groups, 1) for x in (k, v))
    scores = q.astype(np.float64) @ wide_k.swapaxes(2, 3) / width**0.5
    scores = np.where(np.tri(length, size, dtype=np.bool_), scores, -np.inf) if is_causal else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    run = flow.compile(function, device="cuda")
    for _ in range(LAST):
        got = np.asarray(run(q, k, v)).astype(np.float64)
        np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ wide_v, 2e-2, 4e-3)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("sizes", [*MANY[:4], (16, 8, 512, 512, 64, 64)], ids=str)
def test_gradients_of_attention_with_many_queries(sizes, is_causal):
    """The kernel variants of the device, if any, against the CPU; results are bitwise reproducible."""
    heads, groups, length, size, width, out = sizes
    rows = ((heads, length, width), (groups, size, width), (groups, size, out), (heads, length, out))
    given = [floats(12, *s, seed=index).astype(np.float16) for index, s in enumerate(rows)]

    def function(q, k, v, dy):
        def loss(q, k, v):
            return (flow.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal) * dy).float().sum()

        return flow.grad(loss, argnums=(0, 1, 2))(q, k, v)

    run, wants = flow.compile(function, device="cuda"), flow.compile(function)(*(x.astype(np.float32) for x in given))
    first = [np.asarray(x) for x in run(*given)]
    for _ in range(LAST):
        for got, same, want in zip(run(*given), first, wants, strict=True):
            np.testing.assert_array_equal(got, same)
            np.testing.assert_allclose(np.asarray(got, np.float32), want, 2e-2, 1e-2)


#: Rows, columns and depth of products that end within tiles, of whichever rows and columns, and within a step.
PRODUCTS = [(8192, 768, 328), (1544, 3080, 200), (400, 584, 1024)]


@pytest.mark.parametrize("config", HOPPER_CONFIGS, ids=lambda c: f"{c.rows}x{c.columns}")
@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
def test_warp_specialized_products(sizes, config, change_gpu, monkeypatch, tmp_path):
    """Each tile of the Gluon kernel, on plain and transposed operands, with epilogues."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    change_gpu(overrides={"warp_specialized": config})
    (rows, columns, depth), rng = sizes, np.random.default_rng(4)
    shapes = (rows, depth), (depth, columns), (columns,), (rows, columns)
    a, b, bias, residual = (rng.standard_normal(s).astype(np.float16) for s in shapes)
    product = a.astype(np.float64) @ b.astype(np.float64)
    want: list[Any] = [np.maximum(product + bias, 0) + residual, product, np.maximum(product, 0)]
    for turn in (False, True):
        left, right = (np.ascontiguousarray(x.T) if turn else x for x in (a, b))

        def multiply(a, b, turn=turn):
            return a.transpose(0, 1) @ b.transpose(0, 1) if turn else a @ b

        one = flow.compile(lambda a, b, c, r: flow.relu(multiply(a, b) + c) + r, device="cuda")
        two = flow.compile(lambda a, b: ((y := multiply(a, b)), flow.relu(y)), device="cuda")
        for _ in range(LAST):
            for got, wanted in zip([one(left, right, bias, residual), *two(left, right)], want, strict=True):
                np.testing.assert_allclose(np.asarray(got).astype(np.float64), wanted, 4e-3, 0.1)


@pytest.mark.parametrize(("name", "config"), list(zip(FOLLOWING, itertools.cycle(HOPPER_CONFIGS), strict=False)))
def test_epilogues_of_warp_specialized_products(name, config, change_gpu, monkeypatch, tmp_path):
    """Rows and columns end within tiles; some numbers are infinite or none."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    change_gpu(overrides={"warp_specialized": config})
    given, following = operands(1544, 1160, 200), FOLLOWING[name][0]
    function = flow.compile(lambda a, b, c, r: following(a @ b, c, r), device="cuda")
    for _ in range(LAST):
        np.testing.assert_allclose(np.asarray(function(*given), np.float32), after(name, *given), 2e-2, 4e-2)


def test_results_repeat_bit_for_bit():
    function, x, y = flow.compile(random_function(3), device="cuda"), floats(130, 70), floats(130, 70, seed=6)
    first = function(x, y)
    for _ in range(20):
        for got, want in zip(function(x, y), first, strict=True):
            np.testing.assert_array_equal(got, want)


def train(device, algorithm, compile_step, steps=6):
    flow.manual_seed(3)
    first, last = flow.nn.Linear(20, 64), flow.nn.Linear(64, 10)
    net = flow.nn.Sequential(first, flow.nn.GELU(), flow.nn.LayerNorm(64), flow.nn.Dropout(0.2), last).to(device)
    optimizer = algorithm(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = flow.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = flow.compile(step) if compile_step else step
    batches = [(floats(32, 20, seed=n), np.arange(32) % 10) for n in range(steps)]
    losses = [run(*(flow.tensor(a).to(device) for a in batch)).item() for batch in batches]
    return losses, [p.detach().cpu().numpy() for p in net.parameters()]


@pytest.mark.parametrize("compile_step", [True, False])
@pytest.mark.parametrize(
    "algorithm",
    [
        lambda p: flow.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: flow.optim.Adam(p, lr=0.01),
        lambda p: flow.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    ],
)
def test_training_equals_training_on_the_cpu(algorithm, compile_step):
    got, want = train("cuda", algorithm, compile_step), train("cpu", algorithm, compile_step)
    np.testing.assert_allclose(got[0], want[0], 1e-3, 1e-4)
    for one, other in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(one, other, 1e-2, 1e-3)


def classify_images(device, dtype, steps=3):
    """A stem with a padded pool and two convolutions, whose padded rows and columns have equal sizes."""
    flow.manual_seed(4)
    nn = flow.nn
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    body = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64))
    net = nn.Sequential(stem, body, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    net = net.to(dtype).to(device)
    optimizer = flow.optim.SGD(net.parameters(), lr=0.05)

    @flow.compile
    def step(x, y):
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    labels = flow.tensor(np.arange(16) % 10).to(device)
    images = [flow.tensor(floats(16, 3, 224, 224, seed=n)).to(dtype).to(device) for n in range(steps)]
    return [float(step(x, labels).float().item()) for x in images]


@pytest.mark.parametrize(("dtype", "tolerance"), [(flow.float32, 1e-3), (flow.bfloat16, 3e-2)])
def test_images_are_classified_as_on_the_cpu(dtype, tolerance):
    np.testing.assert_allclose(classify_images("cuda", dtype), classify_images("cpu", dtype), tolerance)


def test_a_position_out_of_range():
    function = flow.compile(lambda x, i: flow.index_select(x, 0, i), device="cuda")
    x = floats(5, 4)
    for _ in range(2):
        np.testing.assert_array_equal(function(x, np.array([0, 4])), x[[0, 4]])
        with pytest.raises(OutOfBoundsError, match="got 7"):
            function(x, np.array([0, 7]))


def test_memory_that_runs_out():
    stream: Any = flow.cuda.current_stream()
    with pytest.raises(MemoryError, match="bytes are free"):
        CudaArray.empty((1 << 44,), flow.float32, stream)
    assert flow.ones(4, device="cuda").sum().item() == 4


def test_exchange_with_pytorch_on_a_gpu():
    torch = pytest.importorskip("torch")
    function = flow.compile(lambda x, w: flow.softmax(x @ w))
    x, w = torch.randn(64, 32, device="cuda"), torch.randn(32, 48, device="cuda")
    for _ in range(LAST):
        got = torch.from_dlpack(function(x, w))
        torch.testing.assert_close(got, torch.softmax(x @ w, 1), rtol=1e-2, atol=1e-3)
        x = x + 1.0
    half = x.bfloat16()
    held: Any = flow.from_numpy(half)
    assert held.dtype == flow.bfloat16 and held.is_cuda and held.storage.address == half.data_ptr()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late = torch.full((64, 32), 2.0, device="cuda")
        other = torch.from_dlpack(function(late, w))
        torch.testing.assert_close(other, torch.softmax(late @ w, 1), rtol=1e-2, atol=1e-3)
        for value in (3.0, 4.0):  # PyTorch reuses the memory of an exported tensor as soon as the tensor is released
            kept = torch.from_dlpack(function(torch.full((64, 32), value, device="cuda"), w))
            torch.zeros((64, 32), device="cuda")
            torch.testing.assert_close(kept, torch.softmax(value * w.sum(0).expand(64, -1), 1), rtol=1e-2, atol=1e-3)
    side.synchronize()


def test_exchange_with_jax(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax, function = pytest.importorskip("jax"), flow.compile(lambda x: x * 2.0 + 1.0)
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    x = jax.numpy.arange(12, dtype=jax.numpy.float32).reshape(3, 4)
    for _ in range(LAST):
        got = jax.dlpack.from_dlpack(function(x))
        np.testing.assert_array_equal(np.asarray(got), np.asarray(x) * 2 + 1)
        x = got


def test_exchange_with_cupy():
    cupy, function = pytest.importorskip("cupy"), flow.compile(lambda x: x * 2.0 + 1.0)
    x = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(function(x))), cupy.asnumpy(x) * 2 + 1)
    np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(function(x))), cupy.asnumpy(x) * 2 + 1)


@pytest.mark.parametrize("count", [int(os.environ.get("ONEFLOW_TEST_COMPILES", "1000"))])
def test_memory_does_not_grow_with_compiles(count, context):
    """Memory of the device and of the process, except Triton's caches: 1 program in 50 is compiled, 49 are loaded."""
    sample = next(s for s in SAMPLES if s.op == "softmax")
    op = make_call(sample, sample.arrays(sample.dtypes[0]), sample.attributes(sample.dtypes[0]), REGISTRY)
    used = []
    with context, ir.Location.unknown():
        module = call_module(op, False, REGISTRY)
        for number in range(count):
            run = compile_cuda(module, options=Options(cached=number % 50 != 0))
            run(*flatten(op.inputs.values()))
            del run
            if number % (count // 4) == count // 4 - 1:
                gc.collect()
                flow.cuda.synchronize()
                resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                used.append((flow.cuda.memory_allocated(), driver.call("cuMemGetInfo")[0], resident))
    assert used[-1][0] <= used[1][0]
    assert used[-1][1] >= used[1][1] - (4 << 20)
    assert used[-1][2] <= used[1][2] + (32 << 20)


def test_the_sanitizer_finds_nothing():
    tool = os.environ.get("ONEFLOW_TEST_SANITIZER") or shutil.which("compute-sanitizer")
    if tool is None:
        pytest.skip("compute-sanitizer is not installed")
    names = "softmax or layer_norm or matmul or conv2d or index_select or cumsum or cat"
    tests = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-x", "-m", "gpu", __file__]
    chosen = ["-k", f"test_samples_on_a_gpu and -f32 and ({names})"]
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [tool, "--error-exitcode", "9", *tests, *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
