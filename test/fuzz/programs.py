"""Random programs of operators against the references: `python test/fuzz/programs.py --count 10000`.

A case is the text of a `Program`. The kind of a program is `cpu` (compiled), `gradient` (the compiled gradient, in
f64 also compared with finite differences), `triton` (kernels in Triton's interpreter), or `ranks` (tensors on a
mesh in random layouts). NaN and infinities have to agree in each.
"""

from __future__ import annotations

import functools
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from common import main
from noise import Expected
from program import Input, Program, Step
from program_generator import ERRORS_OF_VALUES, WITHOUT_SLOPE, Generator

from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir
from oneflow.dialect.nd_sbp import write_nd_sbp
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, OperatorError
from oneflow.dialect.sbp import B, P, S, Sbp
from oneflow.passes.inline import functions_of
from oneflow.passes.pipeline import Pipeline, PipelineFailure, Watch
from oneflow.runtime.cuda.size_specialization import compile_cuda_program
from oneflow.runtime.executable import Options
from oneflow.runtime.failures import SizeError
from oneflow.runtime.size_specialization import compile_program
from oneflow.testing.host_cuda import host_cuda
from oneflow.testing.simulate import simulate

MESHES = ((2,), (3,), (2, 2), (2, 3))
#: The relative step of finite differences, and the tolerance.
STEP, CLOSE = 1e-6, 1e-4
#: The error of a computed size, such as of a pool, that is 1 at run time and would be broadcast. Sizes of inputs of 1
#: are static.
BROADCAST_AT_RUN_TIME = re.compile(r"expected (1, got \d+|\d+, got 1); dimensions that are only known at run time")


def run_passes(module: ir.Module, *passes: str) -> None:
    """Runs passes on a module; no reproducers are written."""
    text = f"builtin.module({','.join(passes)})"
    Pipeline.parse(text, module.context).run(module, watch=Watch(reproducers=None))


def check_cpu(program: Program, module: ir.Module) -> None:
    """Checks that the compiled program has the results of the references."""
    expected = Expected(functions_of(module)["main"], program.arrays())
    expected.check(compile_program(module, "main", Options(cached=False))(*program.arrays()), made_by(program))


def check_triton(program: Program, module: ir.Module) -> None:
    """Checks that the program's kernels for a GPU have the results of the references."""
    expected = Expected(functions_of(module)["main"], program.arrays())
    with host_cuda():
        got = compile_cuda_program(module, "main")(*program.arrays())
        expected.check([np.asarray(x) for x in got], made_by(program))


def made_by(program: Program) -> list[str]:
    """The operators that give the results, or the inputs that are results, for messages."""
    makers = {name: step.op for step in program.steps for name in step.results}
    return [makers.get(name, name) for name in program.results]


def check_gradient(program: Program, module: ir.Module) -> None:
    """The compiled gradient equals the gradient of the references, and finite differences."""
    try:
        run_passes(module, "oneflow-infer-types", "oneflow-autodiff{func=main cotangents=true}")
    except PipelineFailure as error:
        if "did not foresee" in str(error):
            raise
        return
    values, rng = program.evaluate(), np.random.default_rng(1)
    floats = [values[name] for name in program.results if values[name].dtype.kind not in "biu"]
    cotangents = [np.asarray(rng.uniform(-1, 1, x.shape).astype(x.dtype)) for x in floats]
    arrays = [*program.arrays(), *cotangents]
    expected = Expected(functions_of(module)["main_grad"], arrays)
    got = compile_program(module, "main_grad", Options(cached=False))(*arrays)
    expected.check(got, [f"gradient by {x.dtype}" for x in got])
    sloped = not any(step.op in WITHOUT_SLOPE for step in program.steps)
    if sloped and {x.dtype for x in values.values() if x.dtype.kind not in "biu"} == {np.dtype(np.float64)}:
        check_differences(functions_of(module)["main"], program.arrays(), cotangents, expected.want)


def check_differences(
    function: ir.Operation,
    arrays: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    grads: Sequence[np.ndarray],
) -> None:
    """Compares the gradient with the slope along a random direction, if the slope is the same on both sides of the
    point and at half the step.

    Raises:
        AssertionError: the slope by the gradient differs.
    """
    rng = np.random.default_rng(2)
    moved = [x.dtype == np.float64 for x in arrays]
    along = [rng.uniform(-1, 1, x.shape) if m else np.zeros_like(x) for x, m in zip(arrays, moved, strict=True)]

    def loss(step: float) -> float:
        near = [x + step * d if m else x for x, d, m in zip(arrays, along, moved, strict=True)]
        floats = [x for x in Expected(function, near).want if x.dtype == np.float64]
        return float(sum(np.sum(c * x) for c, x in zip(cotangents, floats, strict=True)))

    middle, ends = loss(0.0), [loss(k * STEP) for k in (-1, -0.5, 0.5, 1)]
    slopes = [(middle - ends[0]) / STEP, (ends[3] - middle) / STEP, (ends[2] - ends[1]) / STEP]
    directions = [d for d, m in zip(along, moved, strict=True) if m]
    products = [g * d for g, d in zip(grads, directions, strict=True)]
    scale = sum(float(np.sum(np.abs(p))) for p in products) + 1e-9 * abs(middle) / STEP + 1e-3
    if not np.isfinite(slopes).all() or max(slopes) - min(slopes) > CLOSE / 4 * scale:
        return
    total = float(sum(np.sum(p) for p in products))
    assert abs(total - slopes[2]) <= CLOSE * scale, f"differences: expected a slope of {slopes[2]}, got {total}"


def check_ranks(program: Program, module: ir.Module) -> None:
    """Checks that all ranks together have the results of one device for any layouts, if all values are finite.

    Operators of boxing state the layouts on a separate mesh.
    """
    if any("boxing" in REGISTRY[step.op].traits for step in program.steps):
        return
    if not all(np.isfinite(x.astype(np.float64)).all() for x in program.evaluate().values()):
        return
    draw = random.Random(str(program))
    one_axis = any(step.op == "parallel_cast" for step in program.steps)
    mesh = draw.choice([m for m in MESHES if len(m) == 1 or not one_axis])
    function = functions_of(module)["main"]
    expected = Expected(function, program.arrays(), absolute=8.0)
    kind = function.attributes["function_type"].value
    for name, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        layouts = [_layout(draw, mesh, ir.RankedTensorType(t)) for t in types]
        attributes = [ir.DictAttr.get({"oneflow.nd_sbp": write_nd_sbp(nd)} if nd else {}) for nd in layouts]
        function.attributes[name] = ir.ArrayAttr.get(attributes)
    sizes = ",".join(map(str, mesh))
    run_passes(module, f"oneflow-infer-sbp{{mesh={sizes}}}", "oneflow-insert-boxing", "oneflow-join-boxing")
    expected.check(simulate(module, program.arrays()), made_by(program))


def _layout(draw: random.Random, mesh: Sequence[int], type_: ir.RankedTensorType) -> tuple[Sbp, ...] | None:
    """A layout for a tensor, or None; only floats of at least 32 bits become partial sums."""
    kinds = [B, *(S(axis) for axis in range(type_.rank)), *([P] if str(type_.element_type) in ("f32", "f64") else [])]
    return None if draw.random() < 0.4 else tuple(draw.choice(kinds) for _ in mesh)


MODES: dict[str, Callable[[Program, ir.Module], None]] = {
    "cpu": check_cpu,
    "gradient": check_gradient,
    "ranks": check_ranks,
    "triton": check_triton,
}


@functools.cache
def context() -> ir.Context:
    """The context of all cases of a process."""
    return create_context()


def read(case: str) -> Program:
    """The program of a case."""
    numbers = {"nan": np.nan, "inf": np.inf, "nanj": complex(0, np.nan), "infj": complex(0, np.inf)}
    program: Program = eval(case, {"Program": Program, "Input": Input, "Step": Step, "oneflow": dtypes, **numbers})
    return program


class Programs:
    """Random programs of operators: compiled results equal the references, including NaN and infinities."""

    suffix = ".program"
    limit = 60.0

    def make(self, random: random.Random) -> str:
        """A program and its mode."""
        mode = random.choices(list(MODES), (6, 3, 2, 1))[0]
        seed = random.randrange(1 << 40)
        made = Generator(seed, edges=mode in ("cpu", "triton"), floats=mode == "gradient", static=mode == "ranks")
        return str(made.program(mode))

    def check(self, case: str) -> str | None:
        """The difference of a result, or the error of a program that should compile."""
        program = read(case)
        try:
            program.evaluate()
        except (OperatorError, *ERRORS_OF_VALUES):
            return None
        try:
            with context(), ir.Location.unknown():
                MODES[program.mode](program, program.module())
        except AssertionError as error:
            return f"{program.mode}: {' '.join(str(error).split())}"
        except (OperatorError, PipelineFailure) as error:
            message = " ".join(str(error).partition("\nnote:")[0].split())
            sizes = "static" in message and (program.loose or program.mode == "ranks")
            alone = "expected a program of one rank" in message and program.mode == "ranks"
            return None if sizes or alone else f"{program.mode}: {message}"
        except SizeError as error:
            if not (program.loose and BROADCAST_AT_RUN_TIME.search(str(error))):
                raise
        return None

    def smaller(self, case: str) -> Iterator[str]:
        """Simpler programs."""
        return map(str, read(case).smaller())


if __name__ == "__main__":
    sys.exit(main(Programs()))
