"""Samples of random operators: the same seed gives the same numbers everywhere."""

from oneflow.dialect.dtypes import FLOATS, bool_, float16, float32, float64, int8, int32, int64, uint8
from oneflow.testing.sample import ALL, INTEGERS, Bad, Sample, t, v

REAL = (float32, float64)
OFFSET = v(2**40, int64)
SAMPLES = [
    Sample("uniform", [], {"dtype": "dtype", "shape": (4, 5)}, dtypes=REAL),
    Sample("uniform", [], {"dtype": "dtype", "shape": (7,), "from": -3.0, "to": 5.0, "seed": -1}, dtypes=REAL),
    Sample("uniform", [], {"dtype": "dtype", "shape": (), "seed": 2**40 + 7}),
    Sample("uniform", [], {"dtype": "dtype", "shape": (0, 3)}),
    Sample("uniform", [OFFSET], {"dtype": "dtype", "shape": (4, 5), "seed": 3}, dtypes=REAL),
    Sample("normal", [], {"dtype": "dtype", "shape": (4, 5)}, dtypes=REAL),
    Sample("normal", [v([-7], int64)], {"dtype": "dtype", "shape": (4, 5)}),
    Sample("uniform_int", [OFFSET], {"dtype": "dtype", "shape": (4, 5), "to": 100}, dtypes=(int64,)),
    Sample("uniform", [OFFSET, t(4, 5, dtype=int8)], {"dtype": "dtype", "shape": (), "to": 3.0}, dtypes=REAL),
    Sample("normal", [OFFSET, t(3, 0)], {"dtype": "dtype", "shape": ()}),
    Sample("normal", [OFFSET, t(4, 5)], {"dtype": "dtype", "shape": (), "mean": 2.0, "seed": 3}, dtypes=REAL),
    Sample("uniform_int", [OFFSET, t(7)], {"dtype": "dtype", "shape": (), "to": 100}, dtypes=INTEGERS),
    Sample("bernoulli", [t(4, 5, low=0.0, high=1.0), OFFSET], {"dtype": float32, "seed": 5, "p": -1.0}),
    Sample("random_mask_like", [t(4, 5), OFFSET], {"rate": 0.5, "seed": 1}),
    Sample("normal", [], {"dtype": "dtype", "shape": (6,), "mean": 10.0, "std": 0.5, "seed": 3}, dtypes=REAL),
    Sample("normal", [], {"dtype": "dtype", "shape": (), "std": 0.0}),
    Sample("uniform_int", [], {"dtype": "dtype", "shape": (4, 5), "from": 3, "to": 100}, dtypes=INTEGERS),
    Sample(
        "uniform_int", [], {"dtype": "dtype", "shape": (9,), "from": -(2**31), "to": 2**31}, dtypes=(int32, int64),
    ),
    Sample("uniform_int", [], {"dtype": "dtype", "shape": (), "from": -5, "seed": 8}, dtypes=(int8,)),
    Sample("bernoulli", [t(4, 5, low=0.0, high=1.0)], {"dtype": float32, "seed": 5, "p": -1.0}, dtypes=FLOATS),
    Sample("bernoulli", [t(4, 5, dtype=float32)], {"dtype": "dtype", "p": 0.25}, dtypes=ALL),
    Sample("bernoulli", [v([0.0, 1.0, float("nan")])], {"dtype": bool_, "p": -1.0}),
    Sample("bernoulli", [t(3, 4)], {"dtype": float32}),
    Sample("bernoulli", [t(2, 2)], {"dtype": bool_, "p": 0.5, "logical_shape": (4, 6), "logical_begin": (2, 1)}),
    Sample("random_mask_like", [t(4, 5)], {"rate": 0.5, "seed": 1}, dtypes=ALL),
    Sample("random_mask_like", [t(6)], {"rate": 1.0}),
    Sample("random_mask_like", [t()]),
    Sample("dropout", [t(4, 5)], {"rate": 0.25, "seed": 9}, dtypes=FLOATS),
    Sample("dropout", [t(3, 4), t(3, 4)], {"rate": 0.5}, dtypes=FLOATS),
    Sample("dropout", [t(3, 4)], {"rate": 1.0}),
    Sample("dropout", [t(3, 4)]),
    Sample("dropout", [t()], {"rate": 0.5}),
    Sample("dropout", [t(0, 3)], {"rate": 0.5}),
    Sample("dropout_grad", [t(3, 4), t(3, 4, dtype=bool_)], {"scale": 2.0}, dtypes=FLOATS),
    Sample(
        "dropout_grad", [v([float("nan"), 1.0]), v([False, True], bool_)], {"scale": 2.0}, gradient=False, why="NaN",
    ),
]  # fmt: skip
BAD = [
    Bad(
        "normal", [OFFSET, t(2)], {"dtype": float32, "shape": (2,)},
        match="expected no sizes in shape, since like has the sizes, got [2]",
    ),
    Bad("normal", [t()], {"dtype": float32, "shape": ()}, match="expected offset of one element of i64"),
    Bad("uniform", [], {"dtype": float16, "shape": ()}, match="expected dtype of type f32, f64, got f16"),
    Bad(
        "uniform", [], {"dtype": float32, "shape": (), "from": 1.0},
        match="expected finite from < to, got 1.0 and 1.0",
    ),
    Bad(
        "uniform", [], {"dtype": float32, "shape": (), "to": float("inf")},
        match="expected finite from < to, got 0.0 and inf",
    ),
    Bad("uniform", [], {"dtype": float32, "shape": (-1,)}, match="expected sizes of at least 0 in shape, got [-1]"),
    Bad(
        "normal", [], {"dtype": float32, "shape": (), "std": -1.0},
        match="expected a finite mean and std of at least 0, got 0.0 and -1.0",
    ),
    Bad(
        "uniform_int", [], {"dtype": int32, "shape": (), "to": 0},
        match="expected from < to, with a distance of at most 2**32, got 0 and 0",
    ),
    Bad(
        "uniform_int", [], {"dtype": uint8, "shape": (), "to": 300},
        match="expected numbers of ui8, got from 0 to 300",
    ),
    Bad(
        "uniform_int", [], {"dtype": float32, "shape": ()},
        match="expected dtype of type ui8, ui16, ui32, ui64, i8, i16, i32, i64, got f32",
    ),
    Bad("bernoulli", [t(2)], {"dtype": bool_, "p": 1.5}, match="expected p of 0 to 1, or -1"),
    Bad("bernoulli", [t(2)], {"dtype": bool_}, dtype=int32, match="expected in of type f16, bf16, f32, f64, got i32"),
    Bad("random_mask_like", [t(2)], {"rate": -0.5}, match="expected a rate of 0 to 1, got -0.5"),
    Bad(
        "random_mask_like", [t(2)], {"logical_shape": (4, 4)},
        match="expected logical_shape and logical_begin of 1 sizes",
    ),
    Bad("dropout", [t(2)], {"rate": 1.5}, match="expected a rate of 0 to 1, got 1.5"),
    Bad("dropout", [t(2), t(3)], match="expected _add_to_output of type tensor<2xf32>, got tensor<3xf32>"),
    Bad("dropout_grad", [t(2), t(2)], match="expected mask of type tensor<2xi1>, got tensor<2xf32>"),
]  # fmt: skip
