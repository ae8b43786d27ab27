"""Compile workers give the kernels that this process would compile, and end afterwards."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from unittest import mock

import pytest

from oneflow.lowering.triton.source import TensorDescriptor
from oneflow.runtime import native
from oneflow.runtime.cuda import compile_workers, kernel_cache
from oneflow.runtime.cuda.compile_workers import MIN_WORKERS, OPERATIONS_PER_WORKER, CompileWorkers
from oneflow.runtime.cuda.compiler import FIRST, CompileError, compile_source

ENOUGH = MIN_WORKERS * OPERATIONS_PER_WORKER


def kernel(name, *before, **fields):
    return replace(FIRST, name=name, preamble=(*before, *FIRST.preamble), **fields)


#: The first prints where Triton does.
SOURCES = [kernel("loud", "print('noise')\n"), kernel("few", warps=2), kernel("many", warps=8)]


@pytest.fixture
def workers(set_threads):
    set_threads(2)
    with CompileWorkers("sm_90") as found:
        found.start(ENOUGH)
        assert len(found) == 2
        yield found


def test_workers_compile_as_this_process_does(workers, monkeypatch):
    monkeypatch.setattr(compile_workers, "compile_source", None)
    assert kernel_cache._compile(SOURCES, "sm_90", workers) == [compile_source(s) for s in SOURCES]


def test_errors_of_a_worker_are_returned(workers):
    bad = replace(FIRST, name="wrong", body=("missing(p0)",))
    refused, *binaries = kernel_cache._compile([bad, *SOURCES], "sm_90", workers)
    assert isinstance(refused, CompileError) and "kernel wrong does not compile for sm_90" in str(refused)
    assert [getattr(binary, "name", binary) for binary in binaries] == [source.name for source in SOURCES]


def test_a_worker_survives_a_syntax_error(workers, capfd, monkeypatch):
    with pytest.raises(CompileError, match=r"kernel wrong does not compile for sm_90: invalid syntax .*line 2"):
        workers.compile(kernel("wrong", "import triton\n1 +\n"))
    monkeypatch.setattr(compile_workers, "compile_source", None)
    assert [workers.compile(SOURCES[1]).name for _ in range(2)] == ["few", "few"]
    assert "SyntaxError" not in capfd.readouterr().err


def test_workers_import_from_the_paths_of_this_process(tmp_path, monkeypatch, set_threads):
    """Neither the working folder nor entries that are not strings are import paths of a worker."""
    (tmp_path / "json.py").write_text("raise SystemExit('another json')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path), tmp_path])
    set_threads(1)
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        monkeypatch.setattr(compile_workers, "compile_source", None)
        assert workers.compile(SOURCES[1]).name == "few"


def test_kernels_of_a_worker_that_is_gone_are_compiled_here(workers):
    os.killpg(workers.process.pid, signal.SIGKILL)
    assert kernel_cache._compile(SOURCES, "sm_90", workers) == [compile_source(s) for s in SOURCES]


def test_equal_kernels_of_different_names_are_compiled_once(workers, monkeypatch):
    sent = []
    monkeypatch.setattr(workers, "compile", lambda s: sent.append(s.name))
    one, other = (workers.submit(kernel(name, origins=(f"that is {name}",))) for name in ("once", "again"))
    assert one is other and workers.submit(kernel("few", warps=2)) is not one
    assert one.result() is workers.submit(kernel("few", warps=2)).result() is None
    assert sorted(sent) == ["few", "once"]


def test_waiting_kernels_are_ordered_and_can_be_cancelled(monkeypatch, set_threads):
    set_threads(1)
    first, done, sent = threading.Event(), threading.Event(), []

    def wait(source):
        first.set()
        done.wait()
        sent.append(source.name)

    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        monkeypatch.setattr(workers, "compile", wait)
        workers.submit(kernel("running"))
        first.wait()
        short, product = kernel("short", warps=4), kernel("product", has_dot=True)
        futures = [workers.submit(s) for s in (short, kernel("other", warps=2), product)]
        workers.cancel_except([short, product])
        done.set()
        assert [f.cancelled() for f in futures] == [False, True, False] and futures[0].result() is None
    assert sent == ["running", "product", "short"]


def test_workers_end_with_the_context(set_threads):
    set_threads(2)
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        kernel_cache._compile(SOURCES, "sm_90", workers)
        process = workers.process
        assert process is not None and process.poll() is None
    assert process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_workers_are_limited_to_the_number_of_processors(monkeypatch, set_threads):
    set_threads(3)
    monkeypatch.setattr(compile_workers, "_start_parent", lambda arch, ends: mock.Mock())
    for _ in range(2):
        with CompileWorkers("sm_90") as one, CompileWorkers("sm_90") as other:
            one.start(ENOUGH)
            other.start(ENOUGH)
            assert (len(one), len(other)) == (3, 0)


def test_workers_are_limited_to_the_allowed_processors():
    program = (
        "import os, oneflow.runtime.cuda.compile_workers as module\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "module._start_parent = lambda *_: None; workers = module.CompileWorkers('sm_90')\n"
        f"workers.start({ENOUGH}); print(len(workers))"
    )
    environment = {k: v for k, v in os.environ.items() if k != native.THREADS}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "1\n"


def test_small_programs_have_no_workers(monkeypatch):
    monkeypatch.setattr(compile_workers, "_start_parent", None)
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH - 1)
        assert not workers


def test_frozen_programs_have_no_workers(monkeypatch):
    """The executable of a frozen program is not a Python interpreter."""
    monkeypatch.setattr(compile_workers, "_start_parent", None)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        assert not workers


def test_without_processes_threads_compile(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no more processes")

    monkeypatch.setattr(compile_workers, "_start_parent", refuse)
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        assert kernel_cache._compile(SOURCES, "sm_90", workers) == [compile_source(s) for s in SOURCES]


def test_a_failed_start_releases_its_reservation(monkeypatch):
    monkeypatch.setattr(compile_workers, "Pipe", mock.Mock(side_effect=OSError("too many open files")))
    with CompileWorkers("sm_90") as workers:
        workers.start(ENOUGH)
        assert not workers and not compile_workers._reserved


def test_products_are_compiled_first(monkeypatch, set_threads):
    seen = []
    set_threads(1)
    monkeypatch.setattr(kernel_cache, "compile_source", lambda s, arch: seen.append(s.name))
    long = kernel("long", "# " * 99 + "\n")
    descriptor = TensorDescriptor("block", "p0", 0, (96, 128), (128, 1), (64, 64))
    described = kernel("described", body=(descriptor,), has_dot=True)
    product = kernel("product", has_dot=True)
    kernel_cache._compile([long, FIRST, described, product], "sm_90", None)
    assert seen[-4:] == ["product", "described", "long", "first"]
