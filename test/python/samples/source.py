"""Samples of operators that make values."""

from math import nan

from oneflow.dialect.dtypes import FLOATS, bool_, float16, float32, int32
from oneflow.testing.sample import ALL, INTEGERS, NUMERIC, Bad, Sample, t

SAMPLES = [
    Sample("constant", [], {"dtype": "dtype", "shape": (2, 3), "integer_value": 1}, dtypes=ALL),
    Sample(
        "constant", [], {"dtype": "dtype", "shape": (5,), "is_floating_value": True, "floating_value": -2.5},
        dtypes=(int32, *FLOATS),
    ),
    Sample("constant", [], {"dtype": "dtype", "shape": (), "is_floating_value": True, "floating_value": nan}),
    Sample("constant", [], {"dtype": "dtype", "shape": (0, 3)}),
    Sample("empty", [], {"dtype": "dtype", "shape": (3, 2)}, dtypes=ALL),
    Sample("empty", [], {"dtype": "dtype", "shape": ()}),
    Sample("eye", [], {"dtype": "dtype", "rows": 3, "cols": 4}, dtypes=ALL),
    Sample("eye", [], {"dtype": "dtype", "rows": 3}),
    Sample(
        "arange", [], {"dtype": "dtype", "integer_start": 5, "integer_delta": -2, "integer_limit": 0},
        dtypes=INTEGERS[1:],
    ),
    Sample("arange", [], {"dtype": "dtype", "integer_delta": 3, "integer_limit": 10}, dtypes=INTEGERS),
    Sample("arange", [], {"dtype": "dtype", "integer_delta": 3}, dtypes=(int32,)),
    Sample(
        "arange", [], {"dtype": "dtype", "float_start": 1.0, "float_delta": 0.25, "float_limit": 2.6}, dtypes=FLOATS
    ),
    Sample("tensor_constant", [t()], {"dtype": "dtype", "shape": (3, 4)}, dtypes=(float32, int32, bool_)),
    Sample("tensor_constant", [t(1, dtype=float32)], {"dtype": float16, "shape": (2,)}, gradient=False, why="rounds"),
    Sample("zero_like", [t(2, 3)], dtypes=ALL),
    Sample("zero_like", [t()]),
    Sample("zero_like", [t(0, 2)]),
    Sample("ones_like", [t(3, 4)], dtypes=ALL),
    Sample("ones_like", [t()], dtypes=NUMERIC),
    Sample("dim_size", [t(3, 4)], dtypes=ALL),
    Sample("dim_size", [t(3, 0, 2)], {"dim": -2}),
    Sample("dim_size", [t(3, 1, 6)], {"dim": 2}),
    Sample("positions", [[t(3, 4)]], {"shape": "d0 * d1"}, dtypes=ALL),
    Sample("positions", [[t(3, 4)]], {"shape": "d1 // 2, 2, max(d0 - 1, 0)"}),
    Sample("positions", [[t(5), t(2)]], {"shape": "min(d0, 4) % 3, -(-d0 // d1)"}),
    Sample("positions", [[t(0, 2)]], {"shape": "d1, d0"}),
    Sample("positions", [[t(10, 29)]], {"shape": "trunc(d0 * 0.7), floor(d1 / 49 * 49), ceil(sqrt(d0 - 1.0) / 2)"}),
    Sample("positions", [[t(5, 36)]], {"shape": "round(d0 / 2), round(max(d1 / 8, min(d0, 1.5)))"}),
    Sample("positions", [[t(3)]], {"shape": ""}),
]  # fmt: skip
BAD = [
    Bad("tensor_constant", [t(2)], {"dtype": float32, "shape": ()}, match="expected in of one element"),
    Bad("constant", [], {"dtype": float32, "shape": (2,), "is_complex_value": True}, match="expected a complex"),
    Bad("constant", [], {"dtype": float32, "shape": (-1,)}, match="expected sizes of at least 0 in shape, got [-1]"),
    Bad(
        "constant", [], {"dtype": int32, "shape": (), "is_floating_value": True, "floating_value": float("inf")},
        match="expected a finite fill value for i32, got inf",
    ),
    Bad("empty", [], {"dtype": float32, "shape": (-1,)}, match="expected sizes of at least 0 in shape, got [-1]"),
    Bad("dim_size", [t(2, 3)], {"dim": 2}, match="expected dim in [-2, 2) of like, got 2"),
    Bad("positions", [[t(2, 3)]], {"shape": "d0 - d1"}, match="expected sizes of at least 0, got -1 of d0 - d1"),
    Bad("positions", [[t(2, 0)]], {"shape": "d0 // d1"}, match="shape: expected a divisor of a size other"),
    Bad("positions", [[t(2)]], {"shape": "d1"}, match="expected one of 1 sizes d0, d1, .., got d1"),
    Bad("positions", [[t(2)]], {"shape": "d0 **"}, match="expected sizes such as d0 * 2, 3, got 'd0 **'"),
    Bad("positions", [[t(2)]], {"shape": "d0 ** 2"}, match="floor ceil trunc round as sizes, got d0 ** 2"),
    Bad("positions", [[t(2)]], {"shape": "d0 * 0.5"}, match="expected whole numbers as sizes, got d0 * 0.5; floor"),
    Bad("positions", [[t(2)]], {"shape": "trunc(d0 * 0.5 // 2)"}, match="whole numbers as sizes, got d0 * 0.5;"),
    Bad("positions", [[t(2)]], {"shape": "trunc(d0 * 1e400)"}, match="a number is too large in"),
    Bad("dim_size", [t()], match="expected dim in [0, 0) of like, got 0"),
    Bad("eye", [], {"dtype": float32, "rows": -1}, match="expected rows and cols of at least 0, got -1 and 0"),
    Bad(
        "arange", [], {"dtype": int32, "integer_delta": -1, "integer_limit": 3},
        match="expected a delta that leads from 0 to 3, got -1",
    ),
    Bad("arange", [], {"dtype": float32, "float_limit": 3.0}, match="a delta that leads from 0.0 to 3.0, got 0.0"),
    Bad(
        "arange", [], {"dtype": float32, "float_limit": float("inf"), "float_delta": 1.0},
        match="expected a delta that leads from 0.0 to inf",
    ),
    Bad("arange", [], {"dtype": bool_, "integer_delta": 1}, match="expected dtype to be a number type, got i1"),
]  # fmt: skip
