"""Kernels compiled by many threads equal the kernels of one thread, also on disk."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from call_counts import recorded

import oneflow as flow
from oneflow.dialect._mlir import ir
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.pipelines import pipeline_between
from oneflow.lowering.triton.early_compilation import announce
from oneflow.lowering.triton.launch.program import read_program
from oneflow.lowering.triton.symbolic_sizes import TileCount
from oneflow.passes.pipeline import Pipeline
from oneflow.runtime.cuda import kernel_cache
from oneflow.runtime.cuda.compile_workers import MIN_WORKERS, OPERATIONS_PER_WORKER, CompileWorkers
from oneflow.runtime.cuda.compiler import FIRST, CompileError, compile_source, load_function


@pytest.fixture(scope="module")
def program():
    def function(x, w):
        y = flow.softmax(x @ w)
        return y.sum(0), flow.cumsum(y, 1), y.transpose(0, 1) * 2.0

    module = flow.trace(function, flow.TensorSpec((64, 32)), flow.TensorSpec((32, 48)))
    with module.context, ir.Location.unknown():
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module, REGISTRY)
        return read_program(module)


@pytest.fixture
def compiled(set_threads, monkeypatch):
    """A function that compiles a program with so many threads, with its files in a folder."""

    def compile_in(program, folder, threads):
        set_threads(threads)
        monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(folder / "ours"))
        return kernel_cache.compile_all(program, "sm_90")

    return compile_in


def test_binaries_and_caches_are_the_same(program, tmp_path, compiled):
    assert len(program.sources) > 2
    one, many = (compiled(program, tmp_path / str(n), n) for n in (1, 8))
    assert list(one) == list(many) == list(program.sources)
    assert {n: b.cubin for n, b in one.items()} == {n: b.cubin for n, b in many.items()}
    files = [{p.name: p.read_bytes() for p in (tmp_path / n / "ours").iterdir()} for n in ("1", "8")]
    assert files[0] == files[1] and len(files[0]) == 2 * len(one)


def test_cached_kernels_are_not_compiled_again(program, tmp_path, monkeypatch, compiled):
    first = compiled(program, tmp_path, 4)
    monkeypatch.setattr(kernel_cache, "compile_source", None)
    again = compiled(program, tmp_path, 4)
    assert {n: b.cubin for n, b in again.items()} == {n: b.cubin for n, b in first.items()}


def test_a_kernel_that_is_refused_is_named(program, tmp_path, compiled):
    bad = replace(FIRST, name="wrong", body=("missing(p0)",))
    broken = program.__class__(**{**vars(program), "sources": {**program.sources, "wrong": bad}})
    with pytest.raises(CompileError, match="kernel wrong does not compile for sm_90"):
        compiled(broken, tmp_path, 4)


@pytest.fixture
def unready():
    """Triton's state in a process that has compiled nothing."""
    kernel_cache.warm_up.cache_clear()
    yield
    kernel_cache.warm_up.cache_clear()


def test_triton_is_loaded_while_the_program_is_lowered(unready, monkeypatch):
    seen = []
    monkeypatch.setattr(
        kernel_cache, "compile_source", lambda s, arch: seen.append((s.name, threading.current_thread()))
    )
    for _ in range(2):
        with kernel_cache.warming_up(CompileWorkers("sm_90"), 1):
            pass
    assert [name for name, _ in seen] == ["first"] and seen[0][1] is not threading.current_thread()


def test_workers_start_with_announced_kernels(program, tmp_path, monkeypatch, set_threads):
    """Kernels that are on the disk, or have nothing to do, are left out, and none is compiled twice."""
    set_threads(2)
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    sources, begun = list(program.sources.values()), list[Any]()
    kernel_cache.compile_all(replace(program, sources={sources[0].name: sources[0]}), "sm_90")
    with CompileWorkers("sm_90") as some, kernel_cache.warming_up(some, MIN_WORKERS * OPERATIONS_PER_WORKER):
        monkeypatch.setattr(some, "compile", recorded(compile_source, begun, lambda source: source))
        for source in (*sources, replace(sources[1], name="nothing", grid=TileCount.of(0))):
            announce(source)
        made = kernel_cache.compile_all(program, "sm_90", workers=some)
    assert sorted(s.name for s in begun) == sorted(s.name for s in sources[1:])
    assert {n: b.cubin for n, b in made.items()} == {n: compile_source(s).cubin for n, s in program.sources.items()}


def test_without_triton_programs_are_lowered_all_the_same(program, unready, tmp_path, monkeypatch, compiled):
    def refuse(source, arch):
        raise CompileError("expected the package triton")

    monkeypatch.setattr(kernel_cache, "compile_source", refuse)
    with kernel_cache.warming_up(CompileWorkers("sm_90"), 1):
        lowered = True
    with pytest.raises(CompileError, match="expected the package triton"):
        compiled(program, tmp_path, 4)
    assert lowered


def test_equal_kernels_share_a_binary(program, tmp_path, compiled):
    first = next(iter(program.sources.values()))
    again = replace(first, name="other", origins=("where it comes from",))
    other = replace(again, warps=8)
    made = {
        s.warps: compiled(replace(program, sources={first.name: first, "other": s}), tmp_path, 4)
        for s in (again, other)
    }
    assert made[first.warps]["other"] is made[first.warps][first.name]
    assert made[8]["other"].warps == 8 and made[8]["other"].name == "other"


def test_binaries_are_those_of_triton(program, tmp_path, monkeypatch):
    """Compilation runs the stages of `triton.compile` without writing Triton's files."""
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    source = next(iter(program.sources.values()))
    made = compile_source(source)
    assert not (tmp_path / "triton").exists()
    hints = {(i,): [["tt.divisibility", 16]] for i in range(len(source.parameters))}
    ast = triton.compiler.ASTSource(load_function(source), dict(source.parameters), {}, hints)
    options = {"num_warps": source.warps, "num_stages": source.stages}
    wanted = triton.compile(ast, triton.backends.compiler.GPUTarget("cuda", 90, 32), options)
    assert made.cubin == wanted.asm["cubin"] and made.ptx == wanted.asm["ptx"]
    assert (made.name, made.shared, made.warps) == (source.name, wanted.metadata.shared, wanted.metadata.num_warps)
