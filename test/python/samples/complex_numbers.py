"""Samples of operators on complex numbers, and of Fourier transforms."""

import math

from oneflow.dialect.dtypes import bool_, complex64, complex128, float16, float32, float64, int32
from oneflow.testing.sample import Bad, Sample, t, v

WIDE = (float32, float64)
COMPLEX = (complex64, complex128)
ONE = (complex64,)
BACKWARD = {"norm_mode": 0, "norm_fct": 1.0}
ORTHO = {"norm_mode": 1, "norm_fct": 0.5}
#: Numbers with parts that are infinite or NaN.
EDGES = v([1 + 1j, complex(2, math.inf), complex(math.nan, 0), complex(-math.inf, math.nan)])
#: Numbers away from 0, where functions have poles, and from the negative real axis, where functions have cuts.
RIGHT = t(3, low=0.5, high=1.5)
#: Numbers of every quadrant away from the axes, where inverse functions have cuts.
QUADRANTS = v([0.6 + 0.7j, -1.4 + 0.3j, 0.4 - 1.8j, -0.5 - 0.2j])
#: The windows of a convolution of kernels of 2 elements.
WINDOWS = {
    "padding_before": [0], "data_format": "channels_first", "kernel_size": [2], "strides": [1], "dilation_rate": [1],
}  # fmt: skip

SAMPLES = [
    Sample("real", [t(2, 3)], dtypes=COMPLEX),
    Sample("imag", [t(2, 3)], dtypes=COMPLEX),
    Sample("real_grad", [t(2, 3)], dtypes=WIDE),
    Sample("imag_grad", [t(2, 3)], dtypes=WIDE),
    Sample("conj_physical", [t(2, 3)], dtypes=COMPLEX),
    Sample("view_as_complex", [t(3, 3, 2)], dtypes=WIDE),
    Sample("view_as_real", [t(3, 3)], dtypes=COMPLEX),
    Sample("fft_c2c", [t(3, 5)], {"dims": [1], "forward": True, **BACKWARD}, dtypes=COMPLEX),
    Sample("fft_c2c", [t(2, 3, 4)], {"dims": [2, 0], "forward": False, **ORTHO}, dtypes=ONE),
    Sample("fft_r2c", [t(3, 6)], {"dims": [-1], "onesided": True, **BACKWARD}, dtypes=WIDE),
    Sample("fft_r2c", [t(4, 3, 3)], {"dims": [0, 2], "onesided": True, **ORTHO}),
    Sample("fft_r2c", [t(5, 3)], {"dims": [0], "onesided": False, **ORTHO}),
    Sample("fft_c2r", [t(3, 4)], {"dims": [1], "last_dim_size": 6, **BACKWARD}, dtypes=COMPLEX),
    Sample("fft_c2r", [t(3, 3, 3)], {"dims": [1, 0], "last_dim_size": 5, **ORTHO}, dtypes=ONE),
    Sample(
        "fourier_of_pairs", [t(3, 4, 2)], {"dims": [1], "form": "c2c", "forward": True, "factor": 1.0}, dtypes=WIDE
    ),
    Sample("stft", [t(2, 3, 4), t(4)], {"onesided": True}, dtypes=WIDE),
    Sample("stft", [t(2, 3, 4), t(4)], dtypes=ONE),
    Sample("stft", [t(1, 3, 5)], {"n_fft": 5, "normalized": True, "return_complex": True}),
    Sample("broadcast_add", [t(2, 3), t(3)], dtypes=COMPLEX),
    Sample("broadcast_sub", [t(2, 3), t(3)], dtypes=ONE),
    Sample("broadcast_mul", [t(2, 3), t(2, 1)], dtypes=COMPLEX),
    Sample("broadcast_div", [t(2, 3), t(3)], dtypes=COMPLEX),
    Sample("broadcast_pow", [RIGHT, t(3)], dtypes=ONE),
    Sample("broadcast_equal", [v([1 + 1j, 2, 1j]), v([1 + 1j, 2j, 1j])], dtypes=ONE),
    Sample("broadcast_not_equal", [v([1 + 1j, 2, 1j]), v([1 + 1j, 2j, 1])], dtypes=ONE),
    Sample("add_n", [[t(3), t(3)]], dtypes=ONE),
    Sample("scalar_add", [t(3)], {"has_float_operand": True, "float_operand": 1.5}, dtypes=ONE),
    Sample("scalar_mul", [t(3)], {"has_int_operand": True, "int_operand": 3}, dtypes=ONE),
    Sample("scalar_div", [t(3)], {"has_float_operand": True, "float_operand": 1.5}, dtypes=ONE),
    Sample("scalar_pow", [t(3)], {"has_int_operand": True, "int_operand": 0}, dtypes=ONE),
    Sample("scalar_pow", [t(3)], {"has_int_operand": True, "int_operand": 3}, dtypes=ONE),
    Sample("scalar_mul_by_tensor", [t(3), t(1)], dtypes=ONE),
    Sample("scalar_logical_equal", [v([1.5, 1.5j])], {"has_float_operand": True, "float_operand": 1.5}, dtypes=ONE),
    Sample("negative", [t(3)], dtypes=ONE),
    Sample("isnan", [EDGES], dtypes=ONE),
    Sample("isinf", [EDGES], dtypes=ONE),
    Sample("isfinite", [EDGES], dtypes=ONE),
    Sample("abs", [v([3 + 4j, -1j, 2, -3 - 1j])], dtypes=COMPLEX),
    Sample("exp", [t(3)], dtypes=ONE),
    Sample("log", [t(3)], dtypes=ONE, rtol=1e-4, why="the logarithm of a magnitude near 1 is small"),
    Sample("sqrt", [v([3 + 4j, -1j, 2, -3 - 1j, -2 + 1e-3j])], dtypes=COMPLEX),
    Sample("rsqrt", [RIGHT], dtypes=ONE),
    Sample("reciprocal", [t(3)], dtypes=ONE),
    Sample("square", [t(3)], dtypes=ONE),
    Sample("sin", [t(3)], dtypes=ONE),
    Sample("cos", [t(3)], dtypes=ONE),
    Sample("tan", [RIGHT], dtypes=ONE),
    Sample("sinh", [t(3)], dtypes=ONE),
    Sample("cosh", [t(3)], dtypes=ONE),
    Sample("tanh", [RIGHT], dtypes=ONE),
    *(Sample(name, [QUADRANTS], dtypes=ONE) for name in (
        "asin", "acos", "atan", "asinh", "acosh", "atanh", "exp2", "expm1", "log2", "log10", "log1p", "sigmoid",
        "silu",
    )),
    Sample("log1p", [v([1e-4 + 1e-4j, 3e-5 - 2e-4j])], dtypes=ONE),
    Sample("expm1", [v([1e-4 + 1e-4j, 3e-5 - 2e-4j])], dtypes=ONE),
    Sample("identity", [t(3)], dtypes=ONE),
    Sample("where", [t(3, dtype=bool_), t(2, 3), t(3)], dtypes=ONE),
    Sample("masked_fill", [t(3), t(3, dtype=bool_)], {"has_float_operand": True, "float_operand": 2.0}, dtypes=ONE),
    Sample("cast", [t(3)], {"dtype": complex128}, dtypes=(complex64, float32)),
    Sample("cast", [t(3)], {"dtype": float64}, dtypes=ONE),
    Sample("cast", [v([0, 1j, 1])], {"dtype": bool_}, dtypes=ONE),
    Sample("constant", [], {"dtype": complex64, "shape": (3,), "is_complex_value": True, "complex_value": [1.0, -2]},
           dtypes=ONE),
    Sample("ones_like", [t(3)], dtypes=ONE),
    Sample("reshape", [t(2, 3)], {"shape": (3, 2)}, dtypes=ONE),
    Sample("transpose", [t(2, 3)], {"perm": [1, 0]}, dtypes=ONE),
    Sample("cat", [[t(2, 3), t(1, 3)]], {"axis": 0}, dtypes=ONE),
    Sample("slice", [t(5)], {"start": [1], "stop": [5], "step": [2]}, dtypes=ONE),
    Sample("pad", [t(3)], {"padding_before": [1], "padding_after": [2], "floating_constant_value": 2.0}, dtypes=ONE),
    Sample("gather", [t(4, 2), v([1, 3, 1], int32)], dtypes=ONE),
    Sample("tril", [t(3, 3)], {"is_floating_fill_value": True, "floating_fill_value": 2.0}, dtypes=ONE),
    Sample("diagonal", [t(3, 3)], dtypes=ONE),
    Sample("reduce_sum", [t(2, 3)], {"axis": [1]}, dtypes=COMPLEX),
    Sample("matmul", [t(3, 4), t(5, 4), t(3, 5)], {"transpose_b": True, "alpha": 2.0}, dtypes=COMPLEX),
    Sample("broadcast_matmul", [t(2, 3, 4), t(4, 3)], dtypes=ONE),
    Sample("matrix_vector_product", [t(3, 4), t(4)], dtypes=ONE),
    Sample("bias_add", [t(2, 3), t(3)], {"axis": 1}, dtypes=ONE),
    Sample("cumsum", [t(2, 3)], {"dim": 1}, dtypes=ONE),
    Sample("dim_scatter_update", [t(4), v([2, 0, 2], int32), t(3)], dtypes=ONE),
    Sample("dim_scatter_add_scalar", [t(4), v([2, 0, 2], int32)], {"src_scalar": 1.5}, dtypes=ONE),
    Sample("inv", [v([[1 + 1j, 0.5], [-2j, 3 - 0.5j]])], dtypes=ONE),
    Sample("cumprod", [t(2, 5)], {"dim": 1}, dtypes=ONE),
    Sample("cumprod_grad", [t(2, 3), t(2, 3), t(2, 3)], {"dim": -1}, dtypes=ONE),
    Sample("reduce_prod", [t(5, 2)], {"axis": [0]}, dtypes=ONE),
    Sample("reduce_prod", [t(3, 2)], {"axis": [], "keepdims": True}, dtypes=ONE),
    Sample("reduce_prod", [t(0, 2)], {"axis": [0]}, dtypes=ONE),
    Sample("product_of_others", [t(3, 2)], {"axis": [0]}, dtypes=ONE),
    Sample("reflection_pad1d", [t(1, 2, 4)], {"padding": [2, 1]}, dtypes=ONE),
    Sample("replication_pad1d_grad", [t(1, 2, 6)], {"padding": [2, 1]}, dtypes=ONE),
    Sample("conv1d", [t(1, 2, 4), t(3, 2, 2), t(3)], {"filters": 3, **WINDOWS}, dtypes=ONE),
    Sample("conv_data_grad", [t(1, 3, 3), t(3, 2, 2), t(1, 2, 4)], {"num_spatial_dims": 1, "groups": 1, **WINDOWS},
           dtypes=ONE),
    Sample("conv_filter_grad", [t(1, 3, 3), t(1, 2, 4)], {"num_spatial_dims": 1, "groups": 1, **WINDOWS}, dtypes=ONE),
    Sample("conv_bias_grad", [t(1, 3, 3)], {"num_spatial_dims": 1, "data_format": "channels_first"}, dtypes=ONE),
    Sample("deconv1d", [t(1, 3, 3), t(3, 2, 2)], {"filters": 2, "output_padding": [0], "groups": 1, **WINDOWS},
           dtypes=ONE),
]  # fmt: skip
_FOURIER = {"dims": [0], "forward": True, "factor": 1.0}
BAD = [
    Bad("real", [t(2)], match="expected x of type complex<f32>, complex<f64>, got f32"),
    Bad("imag_grad", [t(2)], dtype=complex64, match="expected dout of type f32, f64, got complex<f32>"),
    Bad("conj_physical", [t(2)], match="expected x of type complex<f32>"),
    Bad("view_as_complex", [t(2, 3)], match="expected a static size of 2 along the last axis of x"),
    Bad("fourier_of_pairs", [t(4, 3)], _FOURIER | {"form": "c2c"}, match="a static size of 2"),
    Bad("fourier_of_pairs", [t(4, 2)], _FOURIER | {"form": "r2r"}, match="form to be one of"),
    Bad("fourier_of_pairs", [t(4, 2)], _FOURIER | {"dims": [2], "form": "c2c"}, match="dims"),
    Bad(
        "fourier_of_pairs", [t(4, 2)], {"dims": [0], "form": "c2r", "forward": False, "factor": 1.0, "size": 9},
        match="half of a spectrum of 9",
    ),
    Bad("view_as_complex", [t(2, 2)], dtype=float16, match="expected x of type f32, f64, got f16"),
    Bad("fft_c2c", [t(2)], {"dims": [0], "forward": True, **BACKWARD}, match="expected input of type complex<f32>"),
    Bad("fft_c2c", [t(2)], {"dims": [], "forward": True, **BACKWARD}, match="at least one axis", dtype=complex64),
    Bad("fft_r2c", [t(2)], {"dims": [1], "onesided": True, **BACKWARD}, match="expected dims in [-1, 1), got 1"),
    Bad("fft_r2c", [t(0)], {"dims": [0], "onesided": True, **BACKWARD}, match="static sizes of at least 1"),
    Bad("fft_c2r", [t(4)], {"dims": [0], "last_dim_size": 5, **BACKWARD}, match="to be 3, got 4", dtype=complex64),
    Bad("stft", [t(2, 3, 4)], {"onesided": True}, match="onesided to be false", dtype=complex64),
    Bad("stft", [t(2, 3)], match="expected input of rank 3"),
    Bad("stft", [t(2, 3, 4)], {"n_fft": 5}, match="a static size that is n_fft"),
    Bad("stft", [t(2, 3, 4), t(3)], match="expected a window of 4 elements"),
    Bad("broadcast_greater", [t(2), t(2)], dtype=complex64, match="expected x of type i1, ui8"),
    Bad("softmax", [t(2, 2)], dtype=complex64, match="got complex<f32>"),
    Bad("reduce_max", [t(2)], {"axis": []}, dtype=complex64, match="got complex<f32>"),
    Bad("eye", [], {"dtype": complex64, "rows": 2, "cols": 2}, match="is not defined on complex numbers"),
    Bad("constant", [], {"dtype": complex64, "shape": (2,), "is_complex_value": True}, match="complex_value of two"),
]  # fmt: skip
