"""Programs for the tests of SBP: built from text, distributed, and compared with one device."""

import numpy as np

from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import write_nd_sbp
from oneflow.dialect.reader import read_module
from oneflow.passes.pipeline import Pipeline, Watch
from oneflow.testing.simulate import simulate


def run_passes(module: ir.Module, *passes: str) -> None:
    """Runs passes on a module; no reproducers are written."""
    text = f"builtin.module({','.join(passes)})"
    Pipeline.parse(text, module.context).run(module, watch=Watch(reproducers=None))


def annotate(nd) -> str:
    """The attributes of an argument or result with the layout `nd`."""
    return f"{{oneflow.nd_sbp = {write_nd_sbp(nd)}}}"


def distribute(text: str, context: ir.Context, mesh, options: str = "") -> ir.Module:
    """The program annotated and boxed on a mesh."""
    module = read_module(text, context)
    sizes = ",".join(map(str, mesh))
    run_passes(module, f"oneflow-infer-sbp{{mesh={sizes} {options}}}", "oneflow-insert-boxing")
    return module


def check_distributed(module: ir.Module, arrays, want, entry: str = "main", tolerance: float = 1e-9) -> None:
    """All ranks together compute the results of one device."""
    got = simulate(module, arrays, entry)
    assert len(got) == len(want)
    for index, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.shape == other.shape and one.dtype == other.dtype, f"result {index}"
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=f"result {index}\n{module}")
