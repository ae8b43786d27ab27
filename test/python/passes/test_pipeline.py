"""Pipelines: text, flags, options, mixing, verification, failures, printing."""

from __future__ import annotations

import contextlib
import gc
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from call_counts import recorded

import oneflow.dialect.ops
import oneflow.passes.all  # noqa: F401  registers the passes
from oneflow.dialect._mlir import ir, passmanager
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import Registry
from oneflow.lowering.pipelines import STAGES
from oneflow.passes.base import Pass, PassError, PipelineError
from oneflow.passes.pipeline import MachineFailure, Pipeline, PipelineFailure, Watch
from oneflow.passes.pipeline_text import PipelineStep, format_steps, parse_pipeline, split_options
from oneflow.passes.registry import PASSES, PIPELINES, register_pass
from oneflow.passes.upstream import UPSTREAM

PROGRAM = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%0) : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
"""


@register_pass
@dataclass(frozen=True)
class Spoil(Pass):
    """Breaks the rules of passes, for tests."""

    name: ClassVar[str] = "test-spoil"
    how: str = "raise"
    times: int = 1
    laws: tuple[str, ...] = ()

    def run(self, module: ir.Module, registry: Registry) -> None:
        """Raises, or leaves a program that does not verify."""
        block = module.body.operations[0].regions[0].blocks[0]
        first = block.operations[0].operation
        if self.how == "raise":
            raise PassError("expected less", first.location)
        if self.how == "emit":
            first.location.emit_error("emitted before")
            raise PassError("")
        if self.how == "operator":
            first.results[0].set_type(ir.Type.parse("tensor<7xf32>"))
        if self.how == "upstream":
            block.operations[len(block.operations) - 1].operation.erase()


@pytest.fixture
def context() -> ir.Context:
    """A context with the operators."""
    return create_context()


def module_of(context: ir.Context) -> ir.Module:
    """The program, read."""
    return read_module(PROGRAM, context, "f.mlir")


def test_text_mixes_our_passes_and_upstreams(context: ir.Context) -> None:
    """The passes of both kinds run in the order of the text."""
    module = module_of(context)
    Pipeline.parse(
        "builtin.module(oneflow-infer-types{keep-public=0},func.func(cse,canonicalize),oneflow-canonicalize)", context
    ).run(module)
    assert str(module).count("oneflow.relu") == 1
    assert "tensor<*" not in str(module)


def test_text_round_trips(context: ir.Context) -> None:
    """Neighbouring passes with the same anchor share one nested pipeline."""
    text = "builtin.module(cse,func.func(canonicalize{max-iterations=3},cse),oneflow-infer-types{keep-public=false})"
    assert str(Pipeline.parse(text, context)) == text
    with context:
        assert format_steps(parse_pipeline(" any( cse , func.func( cse ) ,func.func(sccp))")) == (
            "builtin.module(cse,func.func(cse,sccp))"
        )


def test_flags_nest_where_mlir_wants_a_function(context: ir.Context) -> None:
    """mlir-opt nests flags in the same way."""
    pipeline = Pipeline.from_flags([("llvm-request-c-wrappers", ""), ("cse", "")], context)
    assert pipeline.steps == (PipelineStep("llvm-request-c-wrappers", "", ("func.func",)), PipelineStep("cse"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("canonicalize", "expected a pipeline such as builtin.module"),
        ("func.func(cse)", "expected a pipeline such as builtin.module"),
        ("builtin.module(canonicalise)", "unknown pass canonicalise; did you mean canonicalize?"),
        ("builtin.module(oneflow-infertypes)", "unknown pass oneflow-infertypes; did you mean oneflow-infer-types?"),
        ("builtin.module(oneflow-infer-types{keep=1})", "unknown option 'keep'; expected one of keep-public"),
        ("builtin.module(oneflow-infer-types{keep-pubic=1})", "did you mean keep-public?"),
        ("builtin.module(oneflow-infer-types{keep-public=7})", "option keep-public: expected true or false, got '7'"),
        ("builtin.module(test-spoil{times=x})", "option times: expected int, got 'x'"),
        ("builtin.module(oneflow-decompose{a=1})", "unknown option 'a'; the pass has no options"),
        ("builtin.module(cse{a=1})", "pass cse: no such option a"),
        ("builtin.module(func.func(oneflow-infer-types))", "expected the pass at the module"),
        ("builtin.module(func.func(cse)", "expected as many ( as ) in a pipeline, got 2 and 1"),
        ("builtin.module(func.func(oneflow-to-llvm))", "expected no options and no nesting"),
        ("builtin.module(oneflow-infer-types{keep-public=1 keep-public=0})", "given twice"),
    ],
)
def test_malformed_pipelines_are_refused(text: str, message: str, context: ir.Context) -> None:
    """Each error states the fault of the text."""
    with pytest.raises(PipelineError, match=re.escape(message)):
        Pipeline.parse(text, context)


def test_split_options() -> None:
    """Quotes and braces hold values together."""
    assert split_options("a=1 b=\"x y\" c={p q} d e='z'") == {"a": "1", "b": "x y", "c": "p q", "d": "", "e": "z"}


def test_options_of_a_pass() -> None:
    """Fields become options; the printed text of a pass parses to an equal pass."""
    spoil = Spoil.from_options({"how": "emit", "times": "3", "laws": "a, b"})
    assert spoil == Spoil("emit", 3, ("a", "b"))
    assert str(spoil) == "test-spoil{how=emit times=3 laws=a,b}"
    assert str(Spoil()) == "test-spoil"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "f.mlir:3:8: error: expected less"),
        ("emit", "f.mlir:3:8: error: emitted before"),
        ("operator", "oneflow.relu: expected result 0 of type tensor<2x3xf32>, got tensor<7xf32>"),
        ("upstream", "terminator"),
    ],
)
@pytest.mark.parametrize("singly", [False, True])
def test_failing_pass_is_reproduced(
    how: str, message: str, singly: bool, context: ir.Context, tmp_path: Path
) -> None:
    """The message names the failing pass and the reproducing command; the program before the pass is written."""
    pipeline = Pipeline.parse(f"builtin.module(oneflow-infer-types,cse,test-spoil{{how={how}}},cse)", context)
    seen: list[str] = []
    watch = Watch(file="f.mlir", reproducers=tmp_path, timing=singly, report=lambda d: seen.append(d.message))
    with pytest.raises(PipelineFailure, match=re.escape(message)) as caught:
        pipeline.run(module_of(context), watch=watch)
    path = tmp_path / "f.test-spoil.reproducer.mlir"
    command = f"oneflow-opt {path} --pass-pipeline='builtin.module(test-spoil{{how={how}}})'"
    assert caught.value.step.name == "test-spoil"
    assert str(caught.value).endswith(f"reproduce with: {command}")
    assert path.read_text().startswith(f"// {command}\n")
    assert "tensor<*" not in path.read_text()
    assert len(seen) == (2 if how == "operator" else 1)


SCRIPT = """
import oneflow as flow

for name in ("of_a_script", "of_it_too"):
    flow.elementwise(f"{name}(x) -> y")(lambda x: x + 1.0)
"""


def test_reproducers_run_scripts_up_to_their_operators(tmp_path: Path) -> None:
    """The command names the operators of the program, so that the rest of the script does not run."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    exec(compile(SCRIPT, str(script), "exec"), {})
    context = create_context()
    kind = "tensor<2xf32>"
    call = f'%0 = "oneflow.of_it_too"(%x) : ({kind}) -> {kind}'
    module = read_module(f"func.func @f(%x: {kind}) -> {kind} {{ {call} return %0 : {kind} }}", context)
    with pytest.raises(PipelineFailure, match=re.escape(f"--load-ops={script}:of_it_too --pass-pipeline=")):
        Pipeline.parse("builtin.module(test-spoil{how=raise})", context).run(
            module, watch=Watch(reproducers=tmp_path)
        )


def test_failing_mlir_passes_are_reproduced(context: ir.Context, tmp_path: Path) -> None:
    """The pass that fails is named, also where MLIR ran several at once."""
    text = "builtin.module(cse,canonicalize,one-shot-bufferize,cse)"
    context.allow_unregistered_dialects = True
    module = read_module('func.func @f(%x: tensor<2xf32>) { "t.use"(%x) : (tensor<2xf32>) -> () return }', context)
    with pytest.raises(PipelineFailure) as caught:
        Pipeline.parse(text, context).run(module, watch=Watch(reproducers=tmp_path))
    assert caught.value.step.name == "one-shot-bufferize"


@pytest.mark.parametrize("error", [TimeoutError("took 5 s"), OSError(28, "No space left"), MemoryError("32 GiB")])
def test_machines_that_fail_are_no_failures_of_programs(
    error: Exception, context: ir.Context, monkeypatch: Any, tmp_path: Path
) -> None:
    """The error states what to do, and no reproducer is written."""
    runs: list[int] = []

    def run(*_: object) -> None:
        runs.append(1)
        raise error

    monkeypatch.setattr(Spoil, "run", run)
    text = re.escape(f"got {type(error).__name__}: {error}; the program is not at fault")
    with pytest.raises(MachineFailure, match=f"^test-spoil: expected the files, .*, {text}: .* run again$"):
        Pipeline.parse("builtin.module(test-spoil)", context).run(
            module_of(context), watch=Watch(reproducers=tmp_path)
        )
    assert len(runs) == 1 and not list(tmp_path.iterdir())


def test_unwritable_reproducer(context: ir.Context, tmp_path: Path) -> None:
    """The error is still the error of the pass."""
    (tmp_path / "missing").touch()
    with pytest.raises(PipelineFailure, match="the program could not be written"):
        Pipeline.parse("builtin.module(test-spoil)", context).run(
            module_of(context), watch=Watch(reproducers=tmp_path / "missing" / "folder")
        )


def test_verify_each_can_be_turned_off(context: ir.Context) -> None:
    """`verify_each=False` is the option --verify-each=0."""
    module = module_of(context)
    Pipeline.parse("builtin.module(oneflow-infer-types,test-spoil{how=operator})", context).run(
        module, watch=Watch(verify_each=False)
    )
    assert "tensor<7xf32>" in str(module)


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_during_passes(enabled: bool, context: ir.Context, monkeypatch: Any) -> None:
    """The collector would visit all objects repeatedly. The setting is restored, also after a failing pass."""
    seen: list[bool] = []
    module = module_of(context)
    monkeypatch.setattr(Spoil, "run", recorded(lambda *_: 1 / 0, seen, lambda *_: gc.isenabled()))
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with pytest.raises(PassError):
            Pipeline.parse("builtin.module(test-spoil)", context).run(module, watch=Watch(reproducers=None))
        assert not any(seen) and len(seen) == 2 and gc.isenabled() == enabled
    finally:
        gc.enable() if before else gc.disable()


def test_garbage_is_collected_after_passes_of_several_threads(context: ir.Context, monkeypatch: Any) -> None:
    """Passes of another thread end between the query of the collector's state and the start of these passes."""
    monkeypatch.setattr(gc, "isenabled", lambda: gc.enable())
    Pipeline.parse("builtin.module(test-spoil{how=nothing})", context).run(module_of(context))
    monkeypatch.undo()
    assert gc.isenabled()


def test_ir_printing_and_timing(context: ir.Context) -> None:
    """The program is printed around the named passes, and each pass is timed."""
    stream = io.StringIO()
    watch = Watch(before=frozenset({"cse"}), after=frozenset({"oneflow-infer-types"}), timing=True, stream=stream)
    Pipeline.parse("builtin.module(oneflow-infer-types,cse,canonicalize)", context).run(
        module_of(context), watch=watch
    )
    headings = [line for line in stream.getvalue().splitlines() if line.startswith("// -----//")]
    assert headings == [
        "// -----// IR Dump After oneflow-infer-types //----- //",
        "// -----// IR Dump Before cse //----- //",
    ]
    assert [name for name, _ in watch.seconds] == ["oneflow-infer-types", "cse", "canonicalize"]


def test_upstream_names_are_mlirs(context: ir.Context) -> None:
    """The pass manager knows all names in the table of MLIR's passes."""
    with context:
        for name in sorted(UPSTREAM):
            try:
                passmanager.PassManager.parse(f"any({name})")
            except ValueError as error:
                assert "does not refer to a registered pass" not in str(error), name


def test_pass_names_follow_from_files_and_classes() -> None:
    """`oneflow-infer-types` is the class InferTypes in infer_types.py; names of conversions state the source."""
    for name, cls in PASSES.items():
        if cls.__module__.startswith("oneflow."):
            words = name.removeprefix("oneflow-").split("-")
            assert cls.__name__ == "".join(w.title() for w in words), f"{name} is class {cls.__name__}"
            if cls.__module__.startswith("oneflow.passes."):
                assert cls.__module__ == f"oneflow.passes.{'_'.join(words)}", f"{name} is in {cls.__module__}"


def test_every_pass_shows_before_and_after() -> None:
    """Docstrings have a summary and an example."""
    for name, cls in PASSES.items():
        if cls.__module__.startswith("oneflow."):
            assert cls.summary().endswith("."), name
            assert len((cls.__doc__ or "").strip().splitlines()) > 2, f"{name} shows no program"


def test_a_second_pass_of_one_name_is_refused() -> None:
    """A second pass of one name is refused."""
    with pytest.raises(ValueError, match="registered twice"):
        register_pass(type("Other", (Spoil,), {"__doc__": "Another."}))


def test_pipelines_parse(context: ir.Context) -> None:
    """Every named pipeline and every stage is made of known passes."""
    for name in PIPELINES:
        assert Pipeline.parse(f"builtin.module({name})", context).steps
    for passes in STAGES.values():
        assert Pipeline.parse(f"builtin.module({','.join(passes)})", context).steps


def test_contexts_are_freed() -> None:
    """Reading, running and failing keep no context alive."""
    gc.collect()
    before = ir.Context._get_live_count()
    for text in ("builtin.module(oneflow-infer-types,cse,oneflow-canonicalize)", "builtin.module(test-spoil)"):
        context = create_context()
        pipeline = Pipeline.parse(text, context)
        with contextlib.suppress(PipelineFailure):
            pipeline.run(module_of(context), watch=Watch(reproducers=None))
        del context
    gc.collect()
    assert ir.Context._get_live_count() == before
