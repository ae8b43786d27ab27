"""`benchmarks/fit_targets.py`: the fastest candidate is in the table, unless the derived value is as fast."""

import ast
import contextlib
import inspect
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from oneflow.lowering.targets.cpu import CPU_TARGETS
from oneflow.lowering.targets.gpu import GPU_TARGETS
from oneflow.testing.host_cuda import host_cuda

FOLDER = Path(__file__).parents[2] / "benchmarks"
TARGET = CPU_TARGETS["x86-64-v3"]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import fit_targets  # noqa: PLC0415

    yield fit_targets
    del sys.modules["fit_targets"]


class Machine:
    """A machine on which every program takes `cost(kernels)` microseconds."""

    rounds, target = 3, TARGET

    def __init__(self, cost):
        self.cost, self.kernels = cost, TARGET.kernels

    @contextlib.contextmanager
    def using(self, target):
        self.kernels = target.kernels
        yield

    def action(self, name):
        kernels = self.kernels
        return lambda: self.cost(kernels)

    def microseconds(self, action):
        return action()


def fitted_by(script, cost, *names):
    fits = [fit for fit in script.FITS["cpu"] if fit.name in names]
    *_, last = script.fit_all(fits, Machine(cost))
    return ast.literal_eval(last.strip().removeprefix("fitted=").removesuffix(","))


def test_the_fastest_candidate_is_in_the_table(script):
    wanted = 2 * TARGET.kernels.loops.chunk_steps
    found = fitted_by(
        script, lambda k: 10 + abs(k.loops.chunk_steps - wanted), "loops.chunk_steps", "loops.tile_rows"
    )
    assert found == {"loops": {"chunk_steps": wanted}}
    assert replace(TARGET, fitted=found).kernels.loops.chunk_steps == wanted


def test_little_gains_are_noise(script):
    best = TARGET.kernels.loops.chunk_steps // 2
    cost = {best: 98.0}
    assert fitted_by(script, lambda k: cost.get(k.loops.chunk_steps, 100.0), "loops.chunk_steps") == {}


def test_later_parameters_are_measured_with_the_earlier_ones(script):
    """Rows pay only together with the larger tile, which is found first."""
    tile, rows = (getattr(TARGET.kernels.contractions, name) for name in ("max_tile_rows", "step_rows"))

    def cost(kernels):
        found = kernels.contractions
        return 100.0 - 20 * (found.max_tile_rows > tile) * (1 + (found.step_rows > rows))

    found = fitted_by(script, cost, "contractions.max_tile_rows", "contractions.step_rows")["contractions"]
    assert found["max_tile_rows"] > tile and found["step_rows"] == 2 * rows


def test_every_parameter_and_program_exists(script):
    for device, targets in (("cpu", CPU_TARGETS), ("cuda", GPU_TARGETS)):
        for fit in script.FITS[device]:
            assert set(fit.programs) <= set(script.PROGRAMS)
            for target in targets.values():
                values = fit.candidates(target)
                assert values[0] == fit.derived(target) and all(fit.applied(target, v).kernels for v in values)


def test_candidates_are_compiled_and_called(script):
    machine = script.Cpu(1)
    fit = script.Fit("loops.chunk_steps", ("16384 elements",), (1, 2))
    ratios = script.measure(fit, machine, machine.target)
    assert list(ratios) == fit.candidates(machine.target) and ratios[fit.derived(machine.target)] == 1.0


def test_candidates_of_a_gpu_are_compiled_and_called(script, monkeypatch, tmp_path):
    """On a driver made of host memory. A candidate of 64 elements has 4 blocks of 16, the derived value has one."""

    class Harness:
        def __init__(self, rounds, compiled):
            pass

        def microseconds(self, action, ours):
            action()
            return 1.0

    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "gpu", SimpleNamespace(Harness=Harness))
    monkeypatch.setitem(script.PROGRAMS, "small", (lambda x: x * 2.0, [(64,)]))
    with host_cuda():
        machine = script.Gpu(1)
        fit = script.Fit("blocks.pointwise", ("small",), (1, 1 / 64))
        assert script.measure(fit, machine, machine.target) == {1024: 1.0, 16: 1.0}
        with machine.using(fit.applied(machine.target, 16)):
            (source,) = kernels_of(machine.action("small"))
    assert str(source.grid) == "4"


def kernels_of(action):
    """The kernels of the program that an action runs."""
    compiled = inspect.getclosurevars(action).nonlocals["compiled"]
    action()
    return compiled._latest().executable.program.sources.values()
