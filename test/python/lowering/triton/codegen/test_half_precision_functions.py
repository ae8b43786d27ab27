"""Approximations of functions in 16-bit kernels are exact to the last place of the type, near zero and in tails."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from lowered import lower

from oneflow.testing.triton_interpreter import interpret_program

FUNCTIONS = {"erf": scipy.special.erf, "tanh": np.tanh, "exp": np.exp, "sigmoid": scipy.special.expit}
TYPES = {"f16": (np.float16, 1e-4), "bf16": (ml_dtypes.bfloat16, 1e-30)}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_below_one_unit_in_the_last_place(name, kind):
    """Half a unit for the rounding, and half a unit for the approximation."""
    dtype, smallest = TYPES[kind]
    sizes = np.concatenate([np.geomspace(smallest, 0.1, 500), np.linspace(0.1, 5, 500)])
    x = np.concatenate([sizes, -sizes]).astype(dtype)
    program = lower(
        f'func.func @main(%x: tensor<2000x{kind}>) -> tensor<2000x{kind}> {{\n'
        f'  %y = "oneflow.{name}"(%x) : (tensor<2000x{kind}>) -> tensor<2000x{kind}>\n'
        f"  return %y : tensor<2000x{kind}>\n}}\n"
    )  # fmt: skip
    got = interpret_program(program, x)[0].view(dtype).astype(np.float64)
    np.testing.assert_allclose(got, FUNCTIONS[name](x.astype(np.float64)), rtol=float(ml_dtypes.finfo(dtype).eps))
