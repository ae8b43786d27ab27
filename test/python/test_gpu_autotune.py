"""`benchmarks/gpu_autotune.py`, on a driver made of host memory: both programs agree, and all is compiled before."""

import sys
from pathlib import Path
from typing import Any

import pytest
from call_counts import recorded

import oneflow as flow
from oneflow.runtime.cuda import compiler, driver, kernel_cache
from oneflow.testing.host_cuda import host_cuda

torch = pytest.importorskip("torch", reason="benchmarks compare with PyTorch, which tests do not depend on")
FOLDER = Path(__file__).parents[2] / "benchmarks"


class Harness:
    """Says that each call takes longer than the one before."""

    rounds = 3

    def __init__(self):
        self.calls = 0

    def microseconds(self, action, ours):
        action()
        self.calls += 1
        return float(self.calls)


@pytest.fixture
def autotune(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    known = set(sys.modules)
    import gpu_autotune  # noqa: PLC0415

    monkeypatch.setattr(gpu_autotune, "normal", lambda *shape, dtype: torch.randn(shape).to(torch.bfloat16))
    monkeypatch.setattr(torch, "from_dlpack", on_the_host)
    yield gpu_autotune
    for name in {name for name in sys.modules if name.startswith("gpu")} - known:
        del sys.modules[name]


def on_the_host(x):
    return x if isinstance(x, torch.Tensor) else torch.from_numpy(x.to(flow.float32).numpy())


def small(autotune):
    return [
        autotune.Case("softmax", lambda x: flow.softmax(x, -1), [(6, 3000)]),
        autotune.Case("product", autotune.multiply("nt"), [(64, 72), (48, 72)]),
        autotune.Case("chain", lambda x, y: flow.relu(x) + y, [(8, 16), (16,)]),
    ]


def test_all_configurations_are_compiled_before_any_is_timed(autotune):
    after: list[Any] = []
    with host_cuda(), pytest.MonkeyPatch.context() as patch:
        assert autotune.prepare(small(autotune), driver.device(0).arch) > 8
        patch.setattr(
            kernel_cache,
            "compile_source",
            recorded(vars(kernel_cache)["compile_source"], after, lambda source, *_: source.name),
        )
        head, *rows, last = autotune.report(small(autotune), Harness())
    assert set(after) <= {compiler.FIRST.name} and "ratio" in head
    assert [row.split(" | ")[0] for row in rows] == ["| softmax", "| product", "| chain"]
    # Medians of calls 1, 3, 5 and 2, 4, 6; then of 7, 9, 11 and 8, 10, 12; then of 13, 15, 17 and 14, 16, 18.
    assert [row.split(" | ")[1:4] for row in rows] == [
        ["3.0", "4.0", "0.750"], ["9.0", "10.0", "0.900"], ["15.0", "16.0", "0.938"]
    ]  # fmt: skip
    assert last.strip() == "Geometric mean 0.859, worst 0.938: chain."


def test_a_candidate_with_other_results_is_an_error(autotune, monkeypatch):
    """Results of both programs are compared."""
    results = iter([torch.ones(4), 2 * torch.ones(4)])
    monkeypatch.setattr(torch, "from_dlpack", lambda x: x if isinstance(x, torch.Tensor) else next(results))
    with host_cuda(), pytest.raises(AssertionError, match="relative error"):
        autotune.measure(small(autotune)[2], Harness())


def test_every_case_has_a_program(autotune):
    """Kernels of rows, sums and products have several candidates, the others one."""
    counts = {case.name: len(case.sources("sm_90")) for case in autotune.cases()}
    single = {name for name, count in counts.items() if count == 1}
    assert {name.split()[0] for name in single} == {"pointwise", "transpose"} and 20 < len(counts) < 30
    assert sum(counts.values()) < 130
