"""A few fixed cases of the fuzzers of programs; `python test/fuzz/programs.py` tries others."""

import importlib
import importlib.util
import time
from pathlib import Path

import numpy as np
import pytest

FUZZERS = Path(__file__).resolve().parents[2] / "fuzz"
#: Cases of each fuzzer, and seconds of processor time after which no further case begins.
COUNT, SECONDS = 40, 10.0


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(FUZZERS))


def run(fuzzer):
    """The fuzzer's first cases."""
    case_of = importlib.import_module("common").case_of
    end = time.process_time() + SECONDS
    for number in range(COUNT):
        case = case_of(fuzzer, 0, number)
        fault = fuzzer.check(case)
        assert fault is None, f"{fault}\n{case}"
        if time.process_time() > end:
            break


@pytest.mark.filterwarnings("ignore")
def test_random_programs_agree():
    run(importlib.import_module("programs").Programs())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_random_pytorch_programs_agree():
    run(importlib.import_module("torch_programs").TorchPrograms())


def test_the_fuzzer_detects_wrong_results(monkeypatch):
    """A difference beyond the propagated rounding, or NaN in place of a number, is a fault of the operator."""
    programs, parts = importlib.import_module("programs"), importlib.import_module("program")
    program = parts.Program({"x": parts.Input((2,), "float32")}, (parts.Step("exp", ("x",), {}, ("y",)),), ("y",))
    right = np.exp(program.arrays()[0])
    for wrong in (right * np.float32(1.0001), np.full_like(right, np.nan), np.zeros_like(right)):
        monkeypatch.setattr(programs, "compile_program", lambda *_, wrong=wrong: lambda *arrays: [wrong])
        fault = programs.Programs().check(str(program))
        assert fault is not None and fault.startswith("cpu: exp: 2 of 2 elements differ"), fault


def test_the_fuzzer_shrinks_cases(monkeypatch):
    """A program of four calls shrinks to the single wrong call."""
    programs, parts = importlib.import_module("programs"), importlib.import_module("program")
    names = {"tanh": ("x", "a"), "relu": ("a", "b"), "exp": ("b", "c"), "negative": ("c", "d")}
    steps = tuple(parts.Step(op, (one,), {}, (other,)) for op, (one, other) in names.items())

    def broken(program, module):
        assert all(step.op != "exp" for step in program.steps)

    monkeypatch.setitem(programs.MODES, "cpu", broken)
    fuzzer, case = programs.Programs(), str(parts.Program({"x": parts.Input((3, 4), "float32")}, steps, ("d",)))
    smaller = fuzzer.smaller(case)
    while (candidate := next(smaller, None)) is not None:
        if fuzzer.check(candidate) is not None:
            case, smaller = candidate, fuzzer.smaller(candidate)
    assert [step.op for step in programs.read(case).steps] == ["exp"]


def test_only_sizes_of_one_at_run_time_may_refuse_a_broadcast(monkeypatch):
    """A computed size may be 1 at run time, which is not broadcast; other errors of sizes are faults."""
    programs, parts = importlib.import_module("programs"), importlib.import_module("program")
    pool = {"kernel_size": [3], "stride": [3], "padding": [0], "data_format": "channels_first", "ceil_mode": False,
            "count_include_pad": False}  # fmt: skip
    steps = (
        parts.Step("avg_pool_1d", ("x",), pool, ("pooled",)),
        parts.Step("reshape", ("pooled",), {"shape": [1, -1]}, ("row",)),
        parts.Step("floordiv", ("pooled", "row"), {}, ("ratio",)),
    )
    program = parts.Program({"x": parts.Input((1, 2, 5), "float32")}, steps, ("ratio",), {"x": (1, 2)})
    assert programs.Programs().check(str(program)) is None

    def refuse(program, module):
        raise programs.SizeError(
            "oneflow.floordiv: dimension 1 of y: expected 3, got 2; dimensions that are only known"
        )

    monkeypatch.setitem(programs.MODES, "cpu", refuse)
    with pytest.raises(programs.SizeError):
        programs.Programs().check(str(program))
