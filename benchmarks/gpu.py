"""Measures programs on a CUDA device and writes `benchmarks/results_gpu.md`.

    python benchmarks/gpu.py [--groups rows,matmul,..] [--rounds N] [--no-compile] [--output FILE]

Each row is this package against PyTorch's eager mode (which for products, attention and convolutions is the vendor's
library), torch.compile, and a copy of the same bytes, on the same card in the same run: all are called in turn, and
medians are reported. Kernels are timed by events with a cold L2 cache; whole steps by the clock, many in a row.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_models as models
import torch

import oneflow as flow

RESULTS = Path(__file__).with_name("results_gpu.md")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
Action = Callable[[], object]


@dataclass
class Row:
    """What is compared: actions by who does them, `bytes` moved or `flops` done, and what is expected of the result.

    `results` give the outputs that are compared; a whole `step` is timed by the clock.
    """

    name: str
    ours: Action
    eager: Action
    compiled: Action | None = None
    bytes: int = 0
    flops: float = 0
    step: bool = False
    tolerance: float = 2e-2


@dataclass
class Harness:
    """How long things take on the card."""

    rounds: int
    compile: bool

    def __post_init__(self) -> None:
        self.cache = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
        self.stream = torch.cuda.ExternalStream(int(flow.cuda.current_stream().handle))

    def microseconds(self, action: Action, ours: bool) -> float:
        """One call by events, after the cache was filled with other data."""
        stream = self.stream if ours else torch.cuda.current_stream()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            self.cache.zero_()
            begin.record(stream)
            action()
            end.record(stream)
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def per_step(self, action: Action, count: int = 20) -> float:
        """The mean of a number of calls in a row by the clock."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            action()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count * 1e6

    def medians(self, row: Row) -> dict[str, float]:
        """The median of each participant, called in turn."""
        actions: dict[str, Action] = {"ours": row.ours, "eager": row.eager}
        if row.compiled is not None and self.compile:
            actions["compile"] = row.compiled
        if row.bytes:
            actions["copy"] = copy_of(row.bytes)
        for action in actions.values():
            for _ in range(3):
                action()
        found: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(max(self.rounds // 4, 3) if row.step else self.rounds):
            for name, action in actions.items():
                took = self.per_step(action) if row.step else self.microseconds(action, name == "ours")
                found[name].append(took)
        return {name: statistics.median(times) for name, times in found.items()}


def copy_of(size: int) -> Action:
    """A copy that moves `size` bytes: half read, half written."""
    source = torch.empty(size // 2, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def both(name: str, function: Callable[[Any], Callable[..., Any]], arrays: Sequence[torch.Tensor],
         **facts: Any) -> Row:  # fmt: skip
    """A function written for either library, on the same arrays; both results are compared."""
    ours, theirs = flow.compile(function(flow), device="cuda"), function(torch)
    given = [flow.from_numpy(a) for a in arrays]
    row = Row(name, lambda: ours(*given), lambda: theirs(*arrays), **facts)
    fast = torch.compile(theirs)
    row.compiled = lambda: fast(*arrays)
    compare(row, ours(*given), theirs(*arrays))
    return row


def compare(row: Row, got: Any, want: Any) -> None:
    """Fails where a result differs by more than the row's tolerance, in norm."""
    for one, other in zip(listed(got), listed(want), strict=True):
        mine, theirs = torch.from_dlpack(one.detach()).double(), other.detach().double()
        error = float((mine - theirs).norm() / theirs.norm().clamp_min(1e-30))
        if not error <= row.tolerance:
            raise AssertionError(f"{row.name}: relative error {error:.2e}")


def listed(value: Any) -> list[Any]:
    """A result, or each of several."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


def backward(lib: Any, function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of `function(*arrays)` by its first `count` arguments, weighted by the last one."""

    def ours(*arrays: Any) -> Any:
        *inputs, weight = arrays
        return tuple(flow.vjp(function, *inputs)[1](weight))[:count]

    def theirs(*arrays: Any) -> Any:
        *inputs, weight = arrays
        leaves = [a.detach().requires_grad_() for a in inputs[:count]]
        return torch.autograd.grad(function(*leaves, *inputs[count:]), leaves, weight)

    return ours if lib is flow else theirs


def normal(*shape: int, dtype: str = "f32") -> torch.Tensor:
    """Random numbers on the card."""
    return torch.randn(shape, device="cuda").to(DTYPES[dtype])


def rows() -> Iterator[Callable[[], Row]]:
    """Row kernels, forward and backward; backward counts what its own pass has to move."""
    for dtype in ("f32", "bf16"):
        width = 4 if dtype == "f32" else 2
        for size in (256, 1024, 8192, 32768):
            count = (1 << 26) // size
            shape = f"{count} x {size} {dtype}"
            yield lambda s=size, c=count, d=dtype, n=shape, w=width: softmax_row(n, c, s, d, w)
            yield lambda s=size, c=count, d=dtype, n=shape, w=width: norm_row(n, c, s, d, w, False)
            if size <= 8192:
                yield lambda s=size, c=count, d=dtype, n=shape, w=width: norm_row(n, c, s, d, w, True)


def softmax_row(name: str, count: int, size: int, dtype: str, width: int) -> Row:
    """softmax along rows."""
    data = [normal(count, size, dtype=dtype)]
    return both(f"softmax {name}", lambda lib: lambda x: lib.softmax(x, -1), data, bytes=2 * count * size * width)


def norm_row(name: str, count: int, size: int, dtype: str, width: int, gradient: bool) -> Row:
    """layer_norm along rows, or its gradients by input, scale and shift."""

    def function(lib: Any) -> Callable[..., Any]:
        forward = lambda x, w, b: lib.nn.functional.layer_norm(x, (size,), w, b)  # noqa: E731
        return backward(lib, forward, 3) if gradient else forward

    arrays = [normal(count, size, dtype=dtype), normal(size, dtype=dtype), normal(size, dtype=dtype)]
    if gradient:
        arrays.append(normal(count, size, dtype=dtype))
    moved = (3 if gradient else 2) * count * size * width
    return both(f"layer_norm{' backward' if gradient else ''} {name}", function, arrays, bytes=moved)


def pointwise() -> Iterator[Callable[[], Row]]:
    """Chains, transposes, sums and cross-entropy."""
    for dtype, width in (("f32", 4), ("bf16", 2)):
        yield lambda d=dtype, w=width: both(
            f"gelu(x + b) * r + y, 16384 x 4096 {d}",
            lambda lib: lambda x, b, y: lib.nn.functional.gelu(x + b) * 2.0 + y,
            [normal(16384, 4096, dtype=d), normal(4096, dtype=d), normal(16384, 4096, dtype=d)],
            bytes=3 * w << 26,
        )
        yield lambda d=dtype, w=width: both(
            f"transpose 8192 x 8192 {d}",
            lambda lib: lambda x: x.transpose(0, 1) + 0.0 if lib is flow else x.transpose(0, 1).contiguous(),
            [normal(8192, 8192, dtype=d)], bytes=2 * w << 26,
        )  # fmt: skip
        yield lambda d=dtype, w=width: both(
            f"sum of columns 65536 x 1024 {d}", lambda lib: lambda x: x.sum(0),
            [normal(65536, 1024, dtype=d)], bytes=w << 26,
        )  # fmt: skip
    yield cross_entropy_row


def cross_entropy_row() -> Row:
    """The mean loss over 50304 classes and its gradient."""
    logits, labels = normal(8192, 50304, dtype="bf16"), torch.randint(0, 50304, (8192,), device="cuda")

    def function(lib: Any) -> Callable[..., Any]:
        def ours(x: Any, y: Any) -> Any:
            return flow.value_and_grad(lambda x: flow.nn.functional.cross_entropy(x, y))(x)

        def theirs(x: Any, y: Any) -> Any:
            leaf = x.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(leaf, y)
            return loss, *torch.autograd.grad(loss, [leaf])

        return ours if lib is flow else theirs

    moved = 3 * 8192 * 50304 * 2
    return both("cross_entropy and gradient, 8192 x 50304 bf16", function, [logits, labels], bytes=moved)


#: Products: M, N, K, whether the second operand is stored transposed.
PRODUCTS = [
    (512, 512, 512, False), (1024, 1024, 1024, False), (2048, 2048, 2048, False), (4096, 4096, 4096, False),
    (4096, 4096, 4096, True), (8192, 8192, 8192, False), (8192, 3072, 768, True), (8192, 768, 3072, True),
    (8192, 2304, 768, True), (128, 4096, 4096, False), (16, 4096, 4096, True), (1, 4096, 4096, True),
    (256, 256, 16384, False), (64, 64, 65536, False), (1000, 777, 1001, False), (4096, 4096, 64, False),
]  # fmt: skip


def matmul() -> Iterator[Callable[[], Row]]:
    """Products; eager is cuBLAS."""
    for m, n, k, transposed in PRODUCTS:
        yield lambda m=m, n=n, k=k, t=transposed: product_row(m, n, k, t, "bf16")
    yield lambda: product_row(4096, 4096, 4096, False, "f16")
    yield lambda: product_row(4096, 4096, 4096, False, "f32")
    yield lambda: both(
        "gelu(a @ b.T + c) 8192 x 3072 x 768 bf16",
        lambda lib: lambda a, b, c: lib.nn.functional.gelu(lib.nn.functional.linear(a, b, c), approximate="tanh"),
        [normal(8192, 768, dtype="bf16"), normal(3072, 768, dtype="bf16"), normal(3072, dtype="bf16")],
        flops=2.0 * 8192 * 3072 * 768,
    )


def product_row(m: int, n: int, k: int, transposed: bool, dtype: str) -> Row:
    """One product."""
    right = normal(n, k, dtype=dtype) if transposed else normal(k, n, dtype=dtype)
    name = f"matmul {m} x {n} x {k} {'nt' if transposed else 'nn'} {dtype}"

    def function(lib: Any) -> Callable[..., Any]:
        return lambda a, b: a @ b.transpose(0, 1) if transposed else a @ b

    row = both(name, function, [normal(m, k, dtype=dtype), right], flops=2.0 * m * n * k)
    row.compiled = None
    return row


def attention() -> Iterator[Callable[[], Row]]:
    """Attention forward; eager is PyTorch's choice of library."""
    for size, head, causal in ((1024, 64, True), (4096, 64, True), (4096, 128, True), (4096, 128, False)):
        yield lambda t=size, d=head, c=causal: attention_row(t, d, c)


def attention_row(size: int, head: int, causal: bool) -> Row:
    """16k tokens of 2048 channels."""
    shape = 16384 // size, 2048 // head, size, head
    arrays = [normal(*shape, dtype="bf16") for _ in range(3)]
    flops = 4.0 * 16384 * size * 2048 / (2 if causal else 1)
    name = f"attention {size} tokens, heads of {head}{', causal' if causal else ''}, bf16"

    def function(lib: Any) -> Callable[..., Any]:
        return lambda q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    row = both(name, function, arrays, flops=flops)
    row.compiled = None
    return row


def training(lib: Any, model: Any, loss: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
    """One step of training."""

    def step(*arrays: Any) -> Any:
        value = loss(lib, model, *arrays)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value

    return step


def step_row(name: str, make: Callable[[Any], Any], loss: Callable[..., Any], arrays: Sequence[torch.Tensor],
             dtype: str, optimizer: Callable[[Any, Any], Any] | None, mode: str) -> Row:  # fmt: skip
    """A model's step of training, or its forward pass where there is no optimizer."""
    torch.manual_seed(0)
    theirs = make(torch).cuda().to(DTYPES[dtype])
    mine = make(flow)
    mine.load_state_dict({k: v.float().cpu().numpy() for k, v in theirs.state_dict().items()}, strict=False)
    mine = mine.to(getattr(flow, {"f32": "float32", "bf16": "bfloat16"}[dtype])).to("cuda")
    given = [flow.from_numpy(a) for a in arrays]
    if optimizer is None:
        mine.eval(), theirs.eval()
        ours, slow = (lambda *a: loss(flow, mine, *a)), (lambda *a: loss(torch, theirs, *a))
    else:
        ours = training(flow, mine, loss, optimizer(flow, mine))
        slow = training(torch, theirs, loss, optimizer(torch, theirs))
    ours, fast = flow.compile(ours), torch.compile(slow, mode=mode) if optimizer is None else None
    begin = time.perf_counter()
    first = ours(*given)
    flow.cuda.synchronize()
    took = time.perf_counter() - begin
    row = Row(f"{name} (first call {took:.1f} s)", lambda: ours(*given), lambda: slow(*arrays), step=True)
    if optimizer is None:
        row.compiled = lambda: fast(*arrays)
        with torch.no_grad():
            compare(row, first, slow(*arrays))
        row.eager, row.compiled = unrecorded(row.eager), unrecorded(row.compiled)
    else:
        forward = torch.compile(lambda *a: loss(torch, theirs, *a), mode=mode)
        chosen = optimizer(torch, theirs)
        row.compiled = lambda: training_step(forward, chosen, arrays)
        compare(row, first, slow(*arrays))
    return row


def training_step(forward: Callable[..., Any], optimizer: Any, arrays: Sequence[Any]) -> None:
    """A step of PyTorch's whose forward and backward parts are compiled."""
    forward(*arrays).backward()
    optimizer.step()
    optimizer.zero_grad()


def unrecorded(action: Action) -> Action:
    """An action of PyTorch's without gradients."""

    def run() -> object:
        with torch.no_grad():
            return action()

    return run


def classify(lib: Any, model: Any, x: Any, y: Any) -> Any:
    """The loss of a classifier."""
    return lib.nn.functional.cross_entropy(model(x), y)


def next_token(lib: Any, model: Any, ids: Any, places: Any, labels: Any) -> Any:
    """The loss of a language model."""
    logits = model(ids, places)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, models.VOCABULARY), labels.reshape(-1))


def sgd(lib: Any, model: Any) -> Any:
    """SGD."""
    return lib.optim.SGD(model.parameters(), lr=0.1)


def adamw(lib: Any, model: Any) -> Any:
    """AdamW, PyTorch's fused one."""
    return lib.optim.AdamW(model.parameters(), lr=1e-4, **({"fused": True} if lib is torch else {}))


def tokens(batch: int, size: int = 1024) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, their places, and the tokens that follow."""
    ids, labels = (torch.randint(0, 50257, (batch, size), device="cuda") for _ in range(2))
    return ids, torch.arange(size, device="cuda").expand(batch, size).contiguous(), labels


def steps() -> Iterator[Callable[[], Row]]:
    """Whole models."""
    digits = normal(64, 784), torch.randint(0, 10, (64,), device="cuda")
    yield lambda: step_row("MLP training step, batch 64, f32, SGD", models.mlp, classify, digits, "f32", sgd,
                           "reduce-overhead")  # fmt: skip
    yield lambda: step_row("GPT-2 small forward, 1 x 1024, bf16", models.gpt2, lambda lib, m, *a: m(*a),
                           tokens(1)[:2], "bf16", None, "reduce-overhead")  # fmt: skip
    yield lambda: step_row("GPT-2 small forward, 8 x 1024, bf16", models.gpt2, lambda lib, m, *a: m(*a),
                           tokens(8)[:2], "bf16", None, "default")  # fmt: skip
    yield lambda: step_row("GPT-2 small training step, 8 x 1024, bf16, AdamW", models.gpt2, next_token, tokens(8),
                           "bf16", adamw, "default")  # fmt: skip


def images() -> Iterator[Callable[[], Row]]:
    """ResNet-50."""
    batch = normal(128, 3, 224, 224, dtype="bf16"), torch.randint(0, 1000, (128,), device="cuda")
    yield lambda: step_row("ResNet-50 training step, batch 128, bf16, SGD", models.resnet50, classify, batch,
                           "bf16", sgd, "default")  # fmt: skip


def launches() -> Iterator[Callable[[], Row]]:
    """What a launch costs: 64 small kernels, one by one and as a graph."""
    for graphs in ("0", "1"):
        yield lambda g=graphs: launch_row(g)


def launch_row(graphs: str) -> Row:
    """64 softmaxes of 64 rows, which nothing merges, on arrays that stay where they are."""
    os.environ["ONEFLOW_CUDA_GRAPHS"] = graphs

    def function(lib: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for _ in range(32):
                x = lib.softmax(lib.softmax(x, 0), 1)
            return x

        return run

    row = both(f"64 small kernels, {'as a graph' if graphs == '1' else 'one by one'}", function, [normal(64, 64)],
               step=True, tolerance=1e-3)  # fmt: skip
    os.environ["ONEFLOW_CUDA_GRAPHS"] = "1"
    return row


GROUPS: dict[str, Callable[[], Iterator[Callable[[], Row]]]] = {
    "launches": launches, "rows": rows, "pointwise": pointwise, "matmul": matmul, "attention": attention,
    "steps": steps, "images": images,
}  # fmt: skip


def line(row: Row, times: dict[str, float]) -> str:
    """A row of the table: microseconds, and how many times as long the others take."""
    ours = times["ours"]
    rate = f"{row.bytes / ours / 1e3:.0f} GB/s" if row.bytes else f"{row.flops / ours / 1e6:.0f} TFLOP/s"
    rate = rate if row.bytes or row.flops else ""
    others = [f"{times[n]:.1f} ({times[n] / ours:.2f})" if n in times else "" for n in ("eager", "compile", "copy")]
    return f"| {row.name} | {ours:.1f} | {rate} | {' | '.join(others)} |"


def compile_seconds() -> list[str]:
    """The first call of GPT-2's training step in fresh processes: without and with the disk cache."""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for label in ("cold", "from the disk cache"):
            code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import gpu; gpu.first_call()"
            environment = {**os.environ, "ONEFLOW_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
            done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=-1, text=True)
            found.append(
                f"GPT-2 small training step, Python function to first result, {label}: {done.stdout.strip()}"
            )
    return found


def first_call() -> None:
    """Prints how long the first call takes, and its parts."""
    model = models.gpt2(flow).to(flow.bfloat16).to("cuda")
    step = flow.compile(training(flow, model, next_token, adamw(flow, model)))
    given = [flow.from_numpy(a) for a in tokens(8)]
    begin = time.perf_counter()
    step(*given).item()
    peak = step._current().executable.peak_bytes
    print(f"{time.perf_counter() - begin:.2f} s; workspace {peak / 2**20:.0f} MiB")


def report(groups: Sequence[str], harness: Harness) -> Iterator[str]:
    """The lines of the results."""
    card, library = torch.cuda.get_device_name(), f"PyTorch {torch.__version__}"
    yield f"# Measured figures on a GPU\n\nBy `python benchmarks/gpu.py` on: {card}; {library}.\n"
    yield "Microseconds, medians; in brackets how many times as long as ours. Products of eager mode are cuBLAS's."
    for group in groups:
        yield f"\n## {group}\n\n| | ours | | eager | torch.compile | copy |\n| --- | --- | --- | --- | --- | --- |"
        for make in GROUPS[group]():
            try:
                row = make()
                yield line(row, harness.medians(row))
            except Exception as error:
                traceback.print_exc()
                yield f"| {error.__class__.__name__}: {str(error).splitlines()[0][:150] if str(error) else ''} |"
            torch.cuda.empty_cache()
            flow.cuda.empty_cache()


def main() -> None:
    """Writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default=",".join(GROUPS), help="what to measure")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each participant")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--first-call", action="store_true", help="measure compiling GPT-2's training step as well")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    with given.output.open("w") as file:
        lines = report(given.groups.split(","), Harness(given.rounds, not given.no_compile))
        for text in lines:
            print(text, flush=True)
            file.write(text + "\n")
        for text in compile_seconds() if given.first_call else ():
            print(text, flush=True)
            file.write(f"\n- {text}\n")


if __name__ == "__main__":
    main()
