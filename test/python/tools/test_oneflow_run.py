"""oneflow-run: files, names, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from oneflow.tools import oneflow_run

PROGRAM = """
func.func @main(%x: tensor<2x3xf32> {oneflow.name = "x"}, %w: tensor<3x4xf32> {oneflow.name = "w"})
    -> (tensor<2x4xf32> {oneflow.name = "y"}, tensor<2x3xf32>) {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x3xf32>
}
func.func private @helper(%x: tensor<?xbf16>) -> tensor<?xbf16> {
  %0 = "oneflow.negative"(%x) : (tensor<?xbf16>) -> tensor<?xbf16>
  return %0 : tensor<?xbf16>
}
"""
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
W = np.arange(12, dtype=np.float32).reshape(3, 4)

Runner = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program and arrays."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.mlir").write_text(PROGRAM)
    np.save("x.npy", X)
    np.save("w.npy", W)
    np.savez("both.npz", x=X, w=W)
    save_file({"w": W}, "w.safetensors")
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Runs the command; returns the status, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = oneflow_run.main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    "inputs",
    [
        ["x=x.npy", "w=w.npy"],
        ["x=x.npy", "w.safetensors"],
        ["both.npz"],
        ["w=w.safetensors", "x=x.npy"],
    ],
)
def test_inputs(inputs: list[str], run: Runner) -> None:
    """Every kind of file supplies arrays; an archive supplies all arrays of the archive by name."""
    status, _, err = run("p.mlir", *(f"--input={i}" for i in inputs), "--output", "out.npz")
    assert status == 0, err
    with np.load("out.npz") as out:
        assert sorted(out.files) == ["out1", "y"]
        np.testing.assert_array_equal(out["y"], X @ W)
        np.testing.assert_array_equal(out["out1"], np.maximum(X, 0))


def test_outputs(run: Runner) -> None:
    """Safetensors files and standard output take results by name."""
    assert run("p.mlir", "--input=both.npz", "--output=out.safetensors")[0] == 0
    np.testing.assert_array_equal(load_file("out.safetensors")["y"], X @ W)
    status, out, _ = run("p.mlir", "--input=both.npz")
    assert status == 0
    assert out.startswith("y: float32[2, 4]\n[[")
    assert "out1: float32[2, 3]" in out


def test_bfloat16_and_dynamic_sizes(run: Runner, folder: Path) -> None:
    """bfloat16 is stored in .npy as raw bytes; `?` takes any size."""
    (folder / "p.mlir").write_text(PROGRAM.replace("private ", ""))
    np.save("b.npy", np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert run("p.mlir", "--entry-point=helper", "--input=arg0=b.npy", "--output=c.npy") == (0, "", "")
    np.testing.assert_array_equal(
        np.load("c.npy").view(ml_dtypes.bfloat16), np.array([-1.5, 2.0], ml_dtypes.bfloat16)
    )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits(name: str, run: Runner, folder: Path) -> None:
    """Arrays of these types are raw bytes in .npy, and keep the type in .safetensors."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    kind = f"tensor<2x{'f8E4M3FN' if 'e4' in name else 'f8E5M2'}>"
    body = f'%0 = "oneflow.flip"(%x) {{dims = [0 : si32]}} : ({kind}) -> {kind} return %0 : {kind}'
    (folder / "f8.mlir").write_text(f"func.func @main(%x: {kind}) -> {kind} {{ {body} }}")
    np.save("b.npy", np.array([1.5, -2.0], dtype).view("V1"))
    assert run("f8.mlir", "--input=x=b.npy", "--output=c.npy") == (0, "", "")
    np.testing.assert_array_equal(np.load("c.npy").view(dtype), np.array([-2.0, 1.5], dtype))
    save_file({"x": np.array([1.5, -2.0], dtype)}, "b.safetensors")
    assert run("f8.mlir", "--input=b.safetensors", "--output=c.npy") == (0, "", "")
    np.testing.assert_array_equal(np.load("c.npy").view(dtype), np.array([-2.0, 1.5], dtype))


@pytest.mark.parametrize("array", [X.astype(">f4"), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]])
def test_layouts(array: np.ndarray, run: Runner) -> None:
    """Big-endian and non-contiguous arrays are taken."""
    np.save("x2.npy", array)
    status, _, err = run("p.mlir", "--input=x=x2.npy", "--input=w=w.npy", "--output=out.npz")
    assert status == 0, err
    with np.load("out.npz") as out:
        np.testing.assert_array_equal(out["y"], X @ W)


def test_time_and_ir(run: Runner) -> None:
    """Times go to standard error, the program at a stage or after a pass to standard output."""
    status, out, err = run("p.mlir", "--input=both.npz", "--time=2", "--print-ir-after=linalg", "--device=cpu")
    assert status == 0
    assert "(median of 2)" in err
    assert "IR at stage linalg" in out and "linalg.generic" in out
    status, out, _ = run("p.mlir", "--input=both.npz", "--print-ir-after=oneflow-infer-types")
    assert status == 0
    assert "IR Dump After oneflow-infer-types" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.mlir"], "cannot read missing.mlir: No such file or directory"),
        (["p.mlir", "--entry-point=man"], "no public function is called 'man'; did you mean main?"),
        (["p.mlir", "--input=x=x.npy"], "missing input for w: tensor<3x4xf32>"),
        (["p.mlir"], "missing input for x: tensor<2x3xf32>, w: tensor<3x4xf32>"),
        (["p.mlir", "--input=both.npz", "--input=z=x.npy"], "main has no argument 'z'; main takes x, w"),
        (["p.mlir", "--input=both.npz", "--input=x=x.npy"], "x is given twice"),
        (
            ["p.mlir", "--input=w=w.npy", "--input=x=w.npy"],
            "input x: expected tensor<2x3xf32>, got an array of shape 3x4",
        ),
        (
            ["p.mlir", "--input=w=w.npy", "--input=x=i.npy"],
            "input x: expected element type float32, got int64; convert the array",
        ),
        (["p.mlir", "--input=x.npy"], "expected NAME=x.npy"),
        (["p.mlir", "--input=x=both.npz"], "expected one array in both.npz, got x, w; leave out x="),
        (["p.mlir", "--input=x=nothing.npy"], "cannot read nothing.npy: no such file"),
        (["p.mlir", "--input=x=p.mlir"], "expected a file name that ends in .npy, .npz, .safetensors"),
        (
            ["p.mlir", "--input=x=broken.npy"],
            "cannot read broken.npy: expected a .npy file in NumPy's format, got a",
        ),
        (["p.mlir", "--input=broken.npz"], "cannot read broken.npz: expected a .npz file in NumPy's format, got a"),
        (["p.mlir", "--input=broken.safetensors"], "cannot read broken.safetensors: not a valid .safetensors file"),
        (["p.mlir", "--input=both.npz", "--output=out.npy"], "expected one result, got 2 (y, out1)"),
        (["p.mlir", "--input=both.npz", "--output=no/out.npz"], "cannot write no/out.npz"),
        (["p.mlir", "--input=both.npz", "--output=out.txt"], "expected a file name that ends in"),
        (
            ["p.mlir", "--input=both.npz", "--print-ir-after=linal"],
            "expected a stage, or a pass on the way to llvm, got 'linal'; did you mean linalg?",
        ),
        (["p.mlir", "--input=both.npz", "--time=0"], "--time: expected an integer from 1 to 1000000000, got '0'"),
        (["p.mlir", "--inputs=x"], "unknown argument --inputs=x; did you mean --input?"),
        (["p.mlir", "--device=gpu"], "--device: expected a device such as"),
        (["p.mlir", "--load-ops=ops.so"], "cannot load ops.so: no such file"),
        ([], "the following arguments are required: file"),
    ],
)
def test_errors(arguments: list[str], message: str, run: Runner, folder: Path) -> None:
    """Each message states the expected and the given value; the status is 1."""
    np.save("i.npy", np.ones((2, 3), np.int64))
    for suffix in ("npy", "npz", "safetensors"):
        (folder / f"broken.{suffix}").write_bytes(b"not an array")
    status, _, err = run(*arguments)
    assert (status, err.count("Traceback")) == (1, 0)
    assert err.startswith("oneflow-run: error: ")
    assert message in err


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(True,)", "cannot read odd.npy: not a valid .npy file"),
        ("(1000000000000,)", "cannot read odd.npy: "),
        ("(99999999999999999999,)", "cannot read odd.npy: "),
        ("(-1,)", "cannot read odd.npy: not a valid .npy file"),
        ("(2,", "cannot read odd.npy: not a valid .npy file"),
    ],
)
def test_headers_of_arrays(shape: str, message: str, run: Runner, folder: Path) -> None:
    """A header may say anything."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    (folder / "odd.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    status, _, err = run("p.mlir", "--input=x=odd.npy")
    assert (status, err.count("Traceback"), err.count("internal")) == (1, 0, 0)
    assert err.startswith(f"oneflow-run: error: {message}")


def test_entry_point_is_needed_where_it_is_ambiguous(run: Runner, folder: Path) -> None:
    """The public functions are named."""
    (folder / "p.mlir").write_text(PROGRAM.replace("private ", ""))
    assert "it has main, helper" in run("p.mlir")[2]


def test_program_errors_are_located(run: Runner, folder: Path) -> None:
    """Errors have the form of oneflow-opt's errors."""
    (folder / "p.mlir").write_text('func.func @f() {\n  "oneflow.rel"() : () -> ()\n  return\n}\n')
    status, _, err = run("p.mlir")
    assert status == 1
    assert err.startswith(
        'p.mlir:2:3: error: unknown operator oneflow.rel; did you mean oneflow.relu?\n  "oneflow.rel"'
    )


NAMED = """func.func @main(%left: tensor<2x3xf32>, %1: tensor<2x3xf32>,
    %a.b: tensor<2x3xf32>, %c: tensor<2x3xf32> {oneflow.name = "own"}) -> tensor<2x3xf32> {
  %0 = "oneflow.add_n"(%left, %1, %a.b, %c) : (
    tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize("names", [("left", "arg1", "a.b", "own"), ("arg0", "arg1", "arg2", "arg3")])
def test_arguments_have_the_names_of_the_program(names: tuple[str, ...], run: Runner, folder: Path) -> None:
    """Names are names of the attribute, else of the text; `arg<n>` is the n-th argument in any case."""
    (folder / "p.mlir").write_text(NAMED)
    assert run("p.mlir", *(f"--input={n}=x.npy" for n in names), "--output=out.npy") == (0, "", "")
    np.testing.assert_array_equal(np.load("out.npy"), 4 * X)


@pytest.mark.parametrize(
    "inputs, message",
    [
        ([], "missing input for left: tensor<2x3xf32>, arg1: tensor<2x3xf32>, a.b: tensor<2x3xf32>, own: "),
        (["lefft=x.npy"], "main has no argument 'lefft'; did you mean left?"),
        (["q=x.npy"], "main has no argument 'q'; main takes left, arg1, a.b, own"),
        (["left=x.npy", "arg0=x.npy"], "main: argument left is given twice, by left and by arg0"),
    ],
)
def test_messages_have_the_names_of_the_program(inputs: list[str], message: str, run: Runner, folder: Path) -> None:
    (folder / "p.mlir").write_text(NAMED)
    status, _, err = run("p.mlir", *(f"--input={i}" for i in inputs))
    assert status == 1
    assert err.startswith(f"oneflow-run: error: {message}"), err


def test_reproducers_are_named_like_the_program(run: Runner, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(folder))
    (folder / "own.mlir").write_text(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "  %0 = tosa.add %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "  return %0 : tensor<2x3xf32>\n}"
    )
    status, _, err = run("own.mlir", "--input=x=x.npy")
    assert status == 1
    assert err.startswith("oneflow-run: error: own.mlir:2:8: error: expected operators of oneflow"), err
    assert (folder / "own.oneflow-emit-kernels.reproducer.mlir").exists()


def test_errors_of_called_functions_have_locations(run: Runner, folder: Path) -> None:
    (folder / "p.mlir").write_text(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "  %0 = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "  return %0 : tensor<2x3xf32>\n}"
    )
    status, _, err = run("p.mlir", "--input=x=x.npy")
    assert (status, err.partition(": it")[0]) == (1, "oneflow-run: error: p.mlir:2:8: error: cannot inline @main")


@pytest.mark.parametrize(
    "results, name, message",
    [
        ("tensor<2xf32>, i32", '"a"', "oneflow-run: error: main: result out1: expected a tensor, got i32"),
        (
            "tensor<2xf32>, tensor<2xi7>",
            '"a"',
            "oneflow-run: error: main: result out1: expected a tensor of i1, ui8, ui16, ui32, ui64, i8, i16",
        ),
        (
            "tensor<2xf32>, tensor<2xindex>",
            '"a"',
            "oneflow-run: error: main: result out1: expected a tensor of i1, ui8,",
        ),
        ("tensor<2xf32>, tensor<2xf32>", "3 : i64", "p.mlir:1:1: error: expected oneflow.name of argument 0 to be"),
    ],
)
def test_entries_that_cannot_be_run(results: str, name: str, message: str, run: Runner, folder: Path) -> None:
    other = results.partition(", ")[2]
    (folder / "p.mlir").write_text(
        f"func.func @main(%x: tensor<2xf32> {{oneflow.name = {name}}}, %y: tensor<2xf32>) -> ({results}) {{\n"
        f"  %0 = ub.poison : {other}\n  return %x, %0 : {results}\n}}"
    )
    status, _, err = run("p.mlir")
    assert status == 1
    assert err.startswith(message), err
