"""Every option of every command with invalid values: one line with the error, status 1, no traceback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneflow.passes.registry import PASSES
from oneflow.tools import oneflow_opt, oneflow_run, oneflow_translate
from oneflow.tools.arguments import FLAGS

PROGRAM = """func.func @main(%x: tensor<2xf32> {oneflow.name = "x"}) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
Failed = Callable[..., str]

#: Options and values that are refused, by command; `dir` is a folder and `junk.*` are bytes of no format.
OPT = """
-o= -o=dir -o=no/x --pass-pipeline= --pass-pipeline=builtin.module( --pass-pipeline=func.func(cse)
--pass-pipeline=builtin.module(,) --pass-pipeline=builtin.module(cse{a=1}) --stage= --stage=llvmm --dump-kernels=
--dump-kernels=dir --gpu-arch=90 --load-ops= --load-ops=dir --load-ops=junk.so --load-ops=junk.py
--load-ops=exit.py --load-ops=no.py --verify-diagnostics=bogus --verify-each=maybe --mlir-print-ir-before=
--mlir-print-ir-after=csee --mlir-print-ir-after=cse,nosuch --mlir-timing=1 --reproducer-dir= --reproducer-dir=p.mlir
--show-op= --show-op=rely --list-passes=1 --help=1 --nosuch -- ---cse --oneflow-autodiff=wrt=99999999999999999999
--oneflow-autodiff=func=no --oneflow-autodiff={ --oneflow-infer-sbp=strategy=x --oneflow-to-physical=rank=1e3
--oneflow-emit-triton --oneflow-emit-kernels --oneflow-form-kernels
""".split()
RUN = """
--input= --input== --input=x= --input==x.npy --input=y=x.npy --input=x.npy --input=x=junk.npy --input=junk.npz
--input=junk.safetensors --input=x=dir --input=x=dir.npy --input=x=f64.npy --input=x=long.npy --input=x=object.npy
--entry-point= --entry-point=man --output= --output=dir --output=no/x.npy --output=x.txt --output=dir.npy
--print-ir-after= --print-ir-after=linalgg --time=0 --time=x --time=1e3 --seed=x --seed=99999999999999999999
--load-ops= --seed=1.5 --load-ops=dir --load-ops=exit.py --nproc=0 --nproc=x --nproc=99999999 --mesh= --mesh=0
--mesh=x --mesh=2, --mesh=² --mesh=99999999 --mesh=2 --sbp=x --device= --device=gpu --device=cuda:x --nosuch extra
--simulate
""".split()
TRANSLATE = """
--gen-op-schema --gen-op-schema=no.td --gen-op-schema=dir --gen-op-schema=junk.td --gen-op-schema=p.mlir
--import-ods=empty.td --nosuch
""".split()


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Failed:
    """Runs a command that has to fail in a folder of good and bad files; returns the first line of the message."""
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PROGRAM)
    for folder in ("dir", "dir.npy"):
        Path(folder).mkdir()
    for suffix in ("npy", "npz", "safetensors", "so", "py", "td"):
        Path(f"junk.{suffix}").write_bytes(bytes(range(256)))
    Path("exit.py").write_text("raise SystemExit(3)")
    Path("empty.td").write_text("// nothing")
    np.save("x.npy", np.ones(2, np.float32))
    np.save("f64.npy", np.ones(2))
    np.save("long.npy", np.ones(3, np.float32))
    np.save("object.npy", np.array([{}], dtype=object))

    def call(main: Callable[[Sequence[str]], int], *words: str) -> str:
        status = main(words)
        captured = capsys.readouterr()
        lines = captured.err.strip().split("\n")
        assert status == 1, f"{words}: status {status}, {captured.out}"
        assert "Traceback" not in captured.err
        assert sum(": error: " in line for line in lines) == 1, captured.err
        assert "internal error" not in captured.err and "did not foresee" not in captured.err
        return lines[0]

    return call


@pytest.mark.parametrize("word", OPT)
def test_bad_options_of_opt(word: str, failed: Failed) -> None:
    """An option of oneflow-opt."""
    assert failed(oneflow_opt.main, "p.mlir", word)


def test_a_pipeline_nested_too_deeply(failed: Failed) -> None:
    """Not the end of Python's stack."""
    text = "builtin.module(" + 3000 * "func.func(" + "cse" + 3001 * ")"
    assert "expected at most 200 operations" in failed(oneflow_opt.main, "p.mlir", f"--pass-pipeline={text}")


@pytest.mark.parametrize("word", RUN)
def test_bad_options_of_run(word: str, failed: Failed) -> None:
    """An option of oneflow-run, with the program's input."""
    given = [] if word.startswith("--input") else ["--input=x=x.npy"]
    assert failed(oneflow_run.main, "p.mlir", *given, word).startswith("oneflow-run: error: ")


@pytest.mark.parametrize("word", TRANSLATE)
def test_bad_options_of_translate(word: str, failed: Failed) -> None:
    """An option of oneflow-translate."""
    assert failed(oneflow_translate.main, word).startswith("oneflow-translate: error: ")


@pytest.mark.parametrize("flag", [f for f in FLAGS.values() if f.value and not f.optional], ids=str)
def test_missing_value(flag: Any, failed: Failed) -> None:
    """A flag of oneflow-opt at the end of the line, without its value."""
    assert (
        failed(oneflow_opt.main, "p.mlir", str(flag))
        == f"oneflow-opt: error: {flag}: expected {flag.value}, got nothing"
    )


@pytest.mark.parametrize(
    "name", [n for n in oneflow_run.OPTIONS if n.startswith("--") and n not in ("--time", "--simulate", "--autotune")]
)
def test_missing_value_of_run(name: str, failed: Failed) -> None:
    """An option of oneflow-run at the end of the line, without its value."""
    assert (
        failed(oneflow_run.main, "p.mlir", name) == f"oneflow-run: error: {name}: expected one argument; see --help"
    )


@pytest.mark.parametrize("flag", FLAGS.values(), ids=str)
def test_flag_given_twice(flag: object, failed: Failed) -> None:
    """No flag of oneflow-opt is taken twice."""
    value = {"BOOL": "=1", "MODE": "=all", "FOLDER": "=dir", "ARCH": "=sm_90", "PASSES": "=cse"}
    word = f"{flag}{value.get(flag.value or '', '=x' if flag.value else '')}"  # type: ignore[attr-defined]
    assert failed(oneflow_opt.main, "p.mlir", word, word) == f"oneflow-opt: error: {flag}: given twice"


@pytest.mark.parametrize(
    "name", ["seed=1", "output=a.npy", "entry-point=main", "device=cpu", "time=1", "mesh=1", "sbp=auto"]
)
def test_option_of_run_given_twice(name: str, failed: Failed) -> None:
    """Only inputs and stages to print may be several."""
    message = failed(oneflow_run.main, "p.mlir", f"--{name}", f"--{name}")
    assert message == f"oneflow-run: error: --{name.partition('=')[0]} is given twice; see --help"


@pytest.mark.parametrize("value", ["bogus", "99999999999999999999", "a,b", "{", "-1"])
@pytest.mark.parametrize(("name", "option"), [(n, o) for n, c in sorted(PASSES.items()) for o in c.options()])
def test_options_of_passes(
    name: str, option: str, value: str, failed: Failed, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass accepts any value of an option or states the reason for the refusal."""
    status = oneflow_opt.main(["p.mlir", f"--{name}={option}={value}", "--reproducer-dir=dir"])
    err = capsys.readouterr().err
    assert status == (1 if err else 0)
    assert "did not foresee" not in err and "internal error" not in err
