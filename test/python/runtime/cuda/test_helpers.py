"""Processes that compile kernels give what this one would, and are gone afterwards."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from unittest import mock

import pytest

from oneflow.runtime import native
from oneflow.runtime.cuda import cached, helpers
from oneflow.runtime.cuda.compiler import FIRST, CompileError, compile_source
from oneflow.runtime.cuda.helpers import FEWEST, OPERATIONS, Helpers

ENOUGH = FEWEST * OPERATIONS


def kernel(name, before="", **fields):
    return replace(FIRST, name=name, text=before + FIRST.text.replace("first", name), **fields)


#: The first prints where Triton does.
SOURCES = [kernel("loud", before="print('noise')\n"), kernel("few", warps=2), kernel("many", warps=8)]


@pytest.fixture
def some(monkeypatch):
    monkeypatch.setattr(native, "num_threads", lambda: 2)
    with Helpers("sm_90") as found:
        found.start(ENOUGH)
        assert len(found) == 2
        yield found


def test_kernels_are_those_of_this_process(some, monkeypatch):
    monkeypatch.setattr(helpers, "compile_source", None)
    assert cached._compile(SOURCES, "sm_90", some) == [compile_source(s) for s in SOURCES]


def test_what_a_helper_refuses_is_known_here(some):
    bad = replace(FIRST, name="wrong", text="import triton\n@triton.jit\ndef wrong(p0):\n    missing(p0)\n")
    refused, *binaries = cached._compile([bad, *SOURCES], "sm_90", some)
    assert isinstance(refused, CompileError) and "kernel wrong does not compile for sm_90" in str(refused)
    assert [binary.name for binary in binaries] == [source.name for source in SOURCES]


def test_a_helper_outlives_what_is_no_program(some, capfd, monkeypatch):
    with pytest.raises(CompileError, match=r"kernel wrong does not compile for sm_90: invalid syntax .*line 2"):
        some.compile(replace(FIRST, name="wrong", text="import triton\n1 +\n"))
    monkeypatch.setattr(helpers, "compile_source", None)
    assert [some.compile(SOURCES[1]).name for _ in range(2)] == ["few", "few"]
    assert "SyntaxError" not in capfd.readouterr().err


def test_helpers_have_modules_from_where_this_process_has_them(tmp_path, monkeypatch):
    """Not from the folder that it is in, and none from what is no string."""
    (tmp_path / "json.py").write_text("raise SystemExit('another json')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path), tmp_path])
    monkeypatch.setattr(native, "num_threads", lambda: 1)
    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        monkeypatch.setattr(helpers, "compile_source", None)
        assert some.compile(SOURCES[1]).name == "few"


def test_kernels_of_a_helper_that_is_gone_are_compiled_here(some):
    os.killpg(some.process.pid, signal.SIGKILL)
    assert cached._compile(SOURCES, "sm_90", some) == [compile_source(s) for s in SOURCES]


def test_a_kernel_is_begun_once_by_whatever_name(some, monkeypatch):
    sent = []
    monkeypatch.setattr(some, "compile", lambda s: sent.append(s.name))
    one, other = (some.begin(kernel(name, before=f"# that is {name}\n")) for name in ("once", "again"))
    assert one is other and some.begin(kernel("few", warps=2)) is not one
    assert one.result() is some.begin(kernel("few", warps=2)).result() is None
    assert sorted(sent) == ["few", "once"]


def test_what_waits_goes_in_turn_and_may_be_left_out(monkeypatch):
    monkeypatch.setattr(native, "num_threads", lambda: 1)
    first, done, sent = threading.Event(), threading.Event(), []

    def wait(source):
        first.set()
        done.wait()
        sent.append(source.name)

    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        monkeypatch.setattr(some, "compile", wait)
        some.begin(kernel("running"))
        first.wait()
        short, product = kernel("short", warps=4), kernel("product", before="dot = 'tl.dot(a, b)'\n")
        begun = [some.begin(s) for s in (short, kernel("other", warps=2), product)]
        some.leave([short, product])
        done.set()
        assert [f.cancelled() for f in begun] == [False, True, False] and begun[0].result() is None
    assert sent == ["running", "product", "short"]


def test_helpers_are_gone_after_the_block(monkeypatch):
    monkeypatch.setattr(native, "num_threads", lambda: 2)
    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        cached._compile(SOURCES, "sm_90", some)
        assert some.process.poll() is None
    assert some.process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(some.process.pid, 0)


def test_there_are_no_more_than_processors(monkeypatch):
    monkeypatch.setattr(native, "num_threads", lambda: 3)
    monkeypatch.setattr(helpers, "_first", lambda arch, ends: mock.Mock())
    for _ in range(2):
        with Helpers("sm_90") as one, Helpers("sm_90") as other:
            one.start(ENOUGH)
            other.start(ENOUGH)
            assert (len(one), len(other)) == (3, 0)


def test_there_are_no_more_than_processors_that_this_process_may_use():
    program = (
        "import os, oneflow.runtime.cuda.helpers as h; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        f"h._first = lambda *_: None; some = h.Helpers('sm_90'); some.start({ENOUGH}); print(len(some))"
    )
    environment = {k: v for k, v in os.environ.items() if k != native.THREADS}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "1\n"


def test_small_programs_have_none(monkeypatch):
    monkeypatch.setattr(helpers, "_first", None)
    with Helpers("sm_90") as some:
        some.start(ENOUGH - 1)
        assert not some


def test_frozen_programs_have_none(monkeypatch):
    """Their executable is no interpreter."""
    monkeypatch.setattr(helpers, "_first", None)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        assert not some


def test_without_processes_threads_compile(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no more processes")

    monkeypatch.setattr(helpers, "_first", refuse)
    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        assert cached._compile(SOURCES, "sm_90", some) == [compile_source(s) for s in SOURCES]


def test_without_connections_places_are_free_again(monkeypatch):
    monkeypatch.setattr(helpers, "Pipe", mock.Mock(side_effect=OSError("too many open files")))
    with Helpers("sm_90") as some:
        some.start(ENOUGH)
        assert not some and not helpers._taken


def test_products_are_compiled_first(monkeypatch):
    seen = []
    monkeypatch.setattr(native, "num_threads", lambda: 1)
    monkeypatch.setattr(cached, "compile_source", lambda s, arch: seen.append(s.name))
    long = replace(FIRST, name="long", text=FIRST.text + "# " * 99)
    described = replace(FIRST, name="described", text=FIRST.text + "# tl.dot(a, b) tl.make_tensor_descriptor(..)")
    product = replace(FIRST, name="product", text=FIRST.text + "# tl.dot(a, b)")
    cached._compile([long, FIRST, described, product], "sm_90", None)
    assert seen[-4:] == ["product", "described", "long", "first"]
