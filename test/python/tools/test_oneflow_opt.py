"""oneflow-opt: flags, files, diagnostics, lists."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oneflow.dialect.record import REGISTRY
from oneflow.passes.registry import PASSES, PIPELINES
from oneflow.tools import oneflow_opt
from oneflow.tools.arguments import FLAGS, parse_arguments
from oneflow.tools.command import UsageError

PROGRAM = """func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
"""
BAD = PROGRAM.replace("relu", "rely")

Runner = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Runs the command in a folder with programs; returns the status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    Path("bad.mlir").write_text(BAD)

    def call(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = oneflow_opt.main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    "flag", ["--oneflow-infer-types", "-oneflow-infer-types", "--oneflow-infer-types=keep-public=1"]
)
def test_passes_by_flag(flag: str, run: Runner) -> None:
    """Flags of passes have one or two dashes."""
    status, out, err = run("p.mlir", flag)
    assert (status, err) == (0, "")
    assert "-> tensor<2x3xf32>" in out


def test_standard_input_and_output_file(run: Runner) -> None:
    """`-` and no file are standard input."""
    for arguments in (["-"], []):
        status, out, _ = run(*arguments, "-o", "out.mlir", stdin=PROGRAM.encode())
        assert (status, out) == (0, "")
        assert "oneflow.relu" in Path("out.mlir").read_text()


def test_failure_leaves_the_output_file_alone(run: Runner) -> None:
    """Nothing is written after an error."""
    Path("out.mlir").write_text("old")
    assert run("bad.mlir", "-o", "out.mlir")[0] == 1
    assert Path("out.mlir").read_text() == "old"


def test_errors_are_located(run: Runner) -> None:
    """File, line, column, the line and a caret, as mlir-opt prints."""
    status, out, err = run("bad.mlir")
    assert (status, out) == (1, "\n") or (status, out) == (1, "")
    assert err == (
        "bad.mlir:2:8: error: unknown operator oneflow.rely; did you mean oneflow.relu?\n"
        '  %0 = "oneflow.rely"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>\n'
        "       ^\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a program, got an empty file"),
        (b" \n\n", "expected a program, got an empty file"),
        (b"// only\n // words", "expected a program, got nothing but comments"),
        (b"func\n\xff", "expected UTF-8, got the byte 0xff in line 2"),
        (b"ML\xefR\x01", "expected MLIR text, got MLIR bytecode"),
        (b"func.func \0", "expected MLIR text, got a zero byte"),
        (b"hello", "<stdin>:1:1: error:"),
        (b"module {", "error:"),
        (b"\xef\xbb\xbfmodule {}", "error:"),
        (("(" * 5000).encode(), "error:"),
    ],
)
def test_bad_programs(content: bytes, message: str, run: Runner) -> None:
    """For every malformed file the command states the error and prints no traceback."""
    status, _, err = run(stdin=content)
    assert status == 1
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.mlir"], "cannot read missing.mlir: No such file or directory"),
        (["."], "cannot read .: Is a directory"),
        (["p.mlir", "q.mlir"], "expected one input file, got p.mlir, q.mlir"),
        (
            ["p.mlir", "--oneflow-infertypes"],
            "unknown option or pass --oneflow-infertypes; did you mean --oneflow-infer-types?",
        ),
        (["p.mlir", "--split-input-fil"], "did you mean --split-input-file?"),
        (["p.mlir", "--canonicalise"], "did you mean --canonicalize?"),
        (["p.mlir", "--cse=a=1"], "pass cse: no such option a"),
        (["p.mlir", "--oneflow-infer-types=keep-publik=1"], "did you mean keep-public?"),
        (["p.mlir", "--pass-pipeline=builtin.module(cse", "--cse"], "got several of these"),
        (["p.mlir", "--pass-pipeline=builtin.module(ces)"], "unknown pass ces; did you mean cse?"),
        (["p.mlir", "--pass-pipeline"], "--pass-pipeline: expected TEXT"),
        (["p.mlir", "-o", "a", "-o", "b"], "-o: given twice"),
        (["p.mlir", "--mlir-timing=3"], "--mlir-timing: expected no value, got '3'"),
        (["p.mlir", "--stage=linal"], "got 'linal'; did you mean linalg?"),
        (["p.mlir", "-o", "no/out.mlir"], "cannot write no/out.mlir"),
        (["--show-op=rely"], "unknown operator oneflow.rely; did you mean oneflow.relu?"),
        (["p.mlir", "--load-ops=ops.so"], "cannot load ops.so: no such file"),
        (["p.mlir", "--load-ops=ops.py"], "cannot load ops.py: no such file"),
        (["p.mlir", "--load-ops=broken.py"], "cannot load broken.py: line 2: NameError"),
        (["p.mlir", "--load-ops=syntax.py"], "cannot load syntax.py: line 1: SyntaxError"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, run: Runner) -> None:
    """Each message states the expected usage; standard output is empty."""
    Path("broken.py").write_text("\nunknown\n")
    Path("syntax.py").write_text("def\n")
    status, out, err = run(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith("oneflow-opt: error: ")
    assert message in err


def test_load_ops(run: Runner) -> None:
    """A file's operators are known to the program."""
    Path("ops.py").write_text(
        "import numpy as np\n"
        "from oneflow.dialect.elementwise import elementwise\n"
        "elementwise('test_twice(x) -> y', 'x + x.', scalar=lambda x: x + x, reference=lambda x: x + x)\n"
    )
    Path("p.mlir").write_text(PROGRAM.replace("relu", "test_twice"))
    try:
        status, out, err = run("p.mlir", "--load-ops=ops.py", "--oneflow-infer-types")
        assert (status, err) == (0, "")
        assert '"oneflow.test_twice"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>' in out
    finally:
        REGISTRY.operators.pop("test_twice", None)


def test_split_and_printing_forms(run: Runner) -> None:
    """Parts are processed one by one; line numbers refer to the whole file."""
    Path("s.mlir").write_text(f"{PROGRAM}// -----\n{BAD}// -----\n{PROGRAM}")
    status, out, err = run("s.mlir", "--split-input-file", "--mlir-print-op-generic", "--mlir-print-debuginfo")
    assert status == 1
    assert out.count('"func.func"()') == 2 and out.count("// -----") == 2
    assert 'loc("' in out or "loc(#loc" in out or "#loc" in out
    assert err.startswith("s.mlir:7:8: error: unknown operator")


def test_print_ir_and_timing(run: Runner) -> None:
    """The IR and the timing are printed on standard error."""
    _, out, err = run("p.mlir", "--oneflow-infer-types", "--cse", "--mlir-print-ir-after-all", "--mlir-timing")
    assert "IR Dump" not in out
    assert re.findall(r"IR Dump (\w+) (\S+)", err) == [("After", "oneflow-infer-types"), ("After", "cse")]
    assert "Execution time report" in err and "Total" in err
    _, _, err = run("p.mlir", "--oneflow-infer-types", "--cse", "--mlir-print-ir-before=cse")
    assert re.findall(r"IR Dump (\w+) (\S+)", err) == [("Before", "cse")]
    assert len(re.findall("IR Dump Before", run("p.mlir", "--cse", "--sccp", "--mlir-print-ir-before-all")[2])) == 2


def test_unregistered_dialects(run: Runner) -> None:
    """Operations of unknown dialects need the flag; an unknown operator of this dialect is an error in any case."""
    program = b'"other.op"() : () -> ()'
    assert run("-", stdin=program)[0] == 1
    assert run("-", "--allow-unregistered-dialect", stdin=program)[0] == 0
    assert run("-", "--allow-unregistered-dialect", stdin=b'"oneflow.rely"() : () -> ()')[0] == 1


CONTRADICTION = """func.func @f(%x: tensor<2x3xf32>) -> tensor<?xf32> {
  %0 = "oneflow.tanh"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%0) : (tensor<*xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
"""


def test_failing_pass(run: Runner) -> None:
    """The reproducer's command fails in the same way."""
    Path("p.mlir").write_text(CONTRADICTION)
    status, _, err = run("p.mlir", "--oneflow-infer-types", "--reproducer-dir=.")
    assert status == 1
    message = "oneflow.relu: expected result 0 of type tensor<2x3xf32>, got tensor<?xf32>"
    assert message in err
    command = err.rstrip().rpartition("reproduce with: ")[2]
    assert command == (
        "oneflow-opt p.oneflow-infer-types.reproducer.mlir --pass-pipeline='builtin.module(oneflow-infer-types)'"
    )
    status, _, err = run(*command.replace("'", "").split()[1:])
    assert status == 1 and message in err


def test_a_reproducer_names_the_targets(run: Runner) -> None:
    Path("p.mlir").write_text(CONTRADICTION)
    targets = ["--target=x86-64-v2", "--gpu-arch=sm_80"]
    _, _, err = run("p.mlir", "--oneflow-infer-types", "--reproducer-dir=.", *targets)
    command = shlex.split(err.rstrip().rpartition("reproduce with: ")[2])
    assert command[2:4] == targets
    assert run(*command[1:])[0] == 1


DEFINED = """import oneflow as flow


@flow.operator("twice_and_wrong(x) -> y")
class Twice:
    types = "x"

    def decompose(ops, op):
        return ops.call("nothing_of_the_kind", op.x)
"""


def test_a_failing_pass_of_an_operator_that_was_loaded(run: Runner) -> None:
    """The reproducing command loads the operator, from a file whose name needs quotes."""
    Path("my ops.py").write_text(DEFINED)
    kind = "tensor<2xf32>"
    Path("p.mlir").write_text(
        f'func.func @f(%x: {kind}) -> {kind} {{ %0 = "oneflow.twice_and_wrong"(%x) : ({kind}) -> {kind} '
        f"return %0 : {kind} }}"
    )
    _, _, err = run("p.mlir", "--load-ops=my ops.py", "--oneflow-decompose", "--reproducer-dir=.")
    command = shlex.split(err.rstrip().rpartition("reproduce with: ")[2])
    assert command[2] == "--load-ops=my ops.py" and "nothing_of_the_kind" in err
    del REGISTRY.operators["twice_and_wrong"]
    status, _, again = run(*command[1:])
    assert status == 1 and "nothing_of_the_kind" in again
    registered = REGISTRY.operators.pop("twice_and_wrong").where
    assert "my ops.py" in registered


def test_a_script_is_run_up_to_the_operators(run: Runner) -> None:
    """Loading a script for an operator does not run the statements after the definitions."""
    header = "from __future__ import annotations\nimport oneflow as flow\n"
    Path("train.py").write_text(
        header + DEFINED.partition("import oneflow as flow\n")[2] + "\nraise SystemExit('trained')\n"
    )
    status, out, err = run("--load-ops=train.py:twice_and_wrong", "--show-op=twice_and_wrong")
    assert status == 0 and "twice_and_wrong" in out, err
    del REGISTRY.operators["twice_and_wrong"]
    _, _, err = run("--load-ops=train.py", "--show-op=twice_and_wrong")
    assert "cannot load train.py: line" in err and "trained" in err
    REGISTRY.operators.pop("twice_and_wrong", None)
    Path("other.py").write_text("x = 1\n")
    _, _, err = run("--load-ops=other.py:one:other", "--show-op=relu")
    assert "cannot load other.py: expected definitions of one, other, got none" in err


DIAGNOSED = """
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error@below {{unknown operator oneflow.rely}}
  "oneflow.rely"(%x) : (tensor<2x3xf32>) -> ()
  "oneflow.rely"(%x) : (tensor<2x3xf32>) -> () // expected-error {{did you mean oneflow.relu?}}
  "oneflow.rely"(%x) : (tensor<2x3xf32>) -> ()
  // expected-error@above {{unknown}}
  // expected-error@+1 {{unknown}}
  "oneflow.rely"(%x) : (tensor<2x3xf32>) -> ()
  "oneflow.rely"(%x) : (tensor<2x3xf32>) -> ()
  // expected-error-re@-1 {{unknown operator {{[a-z]+}}.rely}}
  return
}
"""


def test_verify_diagnostics(run: Runner) -> None:
    """Every way of saying where a diagnostic is expected."""
    assert run("-", "--verify-diagnostics", stdin=DIAGNOSED.encode())[::2] == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{{did you mean oneflow.relu?}}",
            "{{something else}}",
            '<stdin>:5:51: error: expected error "something else"',
        ),
        ("expected-error@above {{unknown}}", "", "<stdin>:6:3: error: unexpected error: unknown operator"),
        ("expected-error@above", "expected-warning@above", 'expected warning "unknown" was not produced'),
        ("@+1", "@+2", "unexpected error"),
        ("{{[a-z]+}}", "{{[0-9]+}}", "was not produced"),
        ("{{[a-z]+}}", "{{[}}", "invalid regular expression"),
    ],
)
def test_verify_diagnostics_fails(old: str, new: str, message: str, run: Runner) -> None:
    """A missing or unexpected diagnostic is an error at the line of the diagnostic."""
    status, _, err = run("-", "--verify-diagnostics", stdin=DIAGNOSED.replace(old, new).encode())
    assert status == 1
    assert message in err


def test_lists(run: Runner) -> None:
    """Everything registered is listed."""
    assert all(
        name in run("--list-passes")[1] for name in (*PASSES, *PIPELINES, "canonicalize", "one-shot-bufferize")
    )
    assert all(f"  {record.signature}" in run("--list-ops")[1] for record in list(REGISTRY)[:5])
    out = run("--help")[1]
    assert all(f"--{name}" in out for name in (*FLAGS, *PASSES))
    assert "keep-public=<bool>" in out
    assert run("--version")[1].startswith("oneflow-mlir ")
    assert "oneflow, " in run("--show-dialects")[1]


@pytest.mark.parametrize("record", list(REGISTRY), ids=lambda r: r.name)
def test_show_op(record: object, run: Runner) -> None:
    """Every operator can be shown, with the location of each slot or the reason for an empty slot."""
    status, out, err = run(f"--show-op=oneflow.{record.name}")  # type: ignore[attr-defined]
    assert (status, err) == (0, "")
    for slot in ("types", "sbp", "grad", "reference"):
        assert re.search(rf"^{slot}: \S", out, re.MULTILINE), out
    assert " at 0x" not in out, "expected the location of a rule, got the representation of an object"


def test_stage(run: Runner) -> None:
    """`--stage` runs the passes up to the stage."""
    status, out, _ = run("p.mlir", "--stage=linalg")
    assert status == 0
    assert "linalg.generic" in out and "oneflow.relu" not in out


def test_flag_values_follow_an_equals_sign_or_a_space() -> None:
    """`--flag=value` and `--flag value`."""
    assert parse_arguments(["-o", "x"]).flags == parse_arguments(["--o=x"]).flags == {"o": "x"}
    with pytest.raises(UsageError):
        parse_arguments(["--nothing-of-the-kind"])


def test_closed_pipe() -> None:
    """`oneflow-opt .. | head -0` ends without a traceback."""
    environment = {**os.environ, "PYTHONPATH": str(Path(oneflow_opt.__file__).parents[2])}
    command = f'"{sys.executable}" -m oneflow.tools.oneflow_opt --list-ops | true'
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
