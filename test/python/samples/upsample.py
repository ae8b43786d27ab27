"""Samples of images in another size."""

from typing import Any

from oneflow.dialect.dtypes import FLOATS, bool_, int32
from oneflow.testing.sample import NUMERIC, Bad, Sample, t

#: Attributes of every call, without the size.
PLAIN = {"output_size": [], "data_format": "channels_first"}
TWICE = PLAIN | {"scale_factor": 2.0}
CORNERS = {"align_corners": True}
#: A dimension: larger and smaller sizes, one element, fractional factors, the unchanged size.
SIZES = [{"output_size": [out]} for out in (1, 2, 3, 5, 7)]
FACTORS = [{"scale_factor": scale} for scale in (1.0, 2.0, 3.0, 0.5, 1.5, 1.3, 1.1, 0.7)]
LINES: list[Any] = [(3, attrs) for attrs in (*SIZES, *FACTORS)] + [
    (1, SIZES[3]),
    (5, SIZES[2]),
    (5, FACTORS[5]),
    (7, FACTORS[7]),
]
PLANES: list[Any] = [{"output_size": [3, 7]}, {"output_size": [5, 2]}, {"height_scale": 2.0, "width_scale": 1.5},
          {"height_scale": 1.1, "width_scale": 1.1}, {"height_scale": 1.4, "width_scale": 2.0}]  # fmt: skip
SPACE = {"depth_scale": 2.0, "height_scale": 1.5, "width_scale": 1.0}


def scaled(shape, attrs):
    """The shape of the result."""
    names = {
        3: ["scale_factor"],
        4: ["height_scale", "width_scale"],
        5: ["depth_scale", "height_scale", "width_scale"],
    }
    pairs = zip(shape[2:], names[len(shape)], strict=True)
    return (*shape[:2], *(attrs.get("output_size") or [int(n * attrs[name]) for n, name in pairs]))


def both(kind, shape, attrs, **more):
    """The operator and its gradient on images of a shape."""
    name, whole, attrs = f"upsample_{kind}_{len(shape) - 2}d", scaled(shape, attrs), PLAIN | attrs
    return [Sample(name, [t(*shape)], attrs, **more), Sample(f"{name}_grad", [t(*whole), t(*shape)], attrs, **more)]


SAMPLES = [
    *(s for size, attrs in LINES for s in both("nearest", (1, 2, size), attrs)),
    *(s for size, attrs in LINES for s in both("linear", (1, 2, size), attrs)),
    *(s for size, attrs in LINES for s in both("linear", (1, 2, size), attrs | CORNERS)),
    *(s for attrs in PLANES for kind in ("nearest", "bilinear") for s in both(kind, (2, 3, 3, 4), attrs)),
    *both("bilinear", (2, 3, 3, 4), PLANES[0] | CORNERS),
    *(s for kind in ("nearest", "trilinear") for s in both(kind, (1, 2, 2, 2, 3), SPACE)),
    *both("trilinear", (2, 1, 2, 1, 3), {"output_size": [3, 2, 2], **CORNERS}),
    *(s for kind in ("nearest", "linear") for s in both(kind, (1, 2, 3), {"scale_factor": 2.0}, dtypes=FLOATS)),
    *(
        s
        for kind in ("nearest", "bilinear")
        for s in both(kind, (1, 2, 2, 3), {"output_size": [4, 2]}, dtypes=FLOATS)
    ),
    *(s for kind in ("nearest", "trilinear") for s in both(kind, (1, 1, 2, 2, 1), SPACE, dtypes=FLOATS)),
    *(s for kind in ("nearest", "linear") for s in both(kind, (0, 2, 3), {"scale_factor": 2.0})),
    *(s for kind in ("nearest", "bilinear") for s in both(kind, (0, 2, 3, 3), {"output_size": [4, 2]})),
    *(s for kind in ("nearest", "trilinear") for s in both(kind, (0, 1, 2, 2, 2), SPACE)),
    *(s for size, attrs in LINES for s in both("nearest_exact", (1, 2, size), attrs)),
    *(s for attrs in PLANES for kind in ("nearest_exact", "bicubic") for s in both(kind, (2, 3, 3, 4), attrs)),
    *(s for attrs in PLANES[:2] for s in both("bicubic", (1, 2, 3, 4), attrs | CORNERS)),
    *both("bicubic", (1, 1, 1, 5), {"output_size": [3, 9]} | CORNERS),
    *both("nearest_exact", (1, 2, 2, 2, 3), SPACE),
    *(s for kind in ("nearest_exact", "bicubic") for s in both(kind, (0, 2, 3, 3), {"output_size": [4, 2]})),
    *(
        s
        for kind in ("nearest_exact", "bicubic")
        for s in both(kind, (1, 2, 2, 3), {"output_size": [4, 2]}, dtypes=FLOATS)
    ),
    Sample("upsample_nearest_exact_1d", [t(1, 2, 3)], TWICE, dtypes=NUMERIC),
    Sample("upsample_nearest_1d", [t(1, 2, 3)], TWICE, dtypes=NUMERIC),
    Sample("upsample_nearest_2d", [t(1, 2, 2, 2)], PLAIN | {"output_size": [3, 4]}, dtypes=(int32,)),
]
BAD = [
    Bad("upsample_nearest_1d", [t(1, 2, 3)], PLAIN, match="expected scale_factor above 0 without output"),
    Bad("upsample_nearest_1d", [t(1, 2, 3)], PLAIN | {"scale_factor": 0.3}, match="expected spatial sizes of at"),
    Bad("upsample_nearest_1d", [t(1, 2, 0)], TWICE, match="expected spatial sizes of at least 1"),
    Bad("upsample_nearest_2d", [t(1, 2, 3, 3)], PLAIN | {"output_size": [2]}, match="expected no or 2 numbers in"),
    Bad("upsample_nearest_2d", [t(2, 3, 3)], PLAIN | {"output_size": [2, 2]}, match="expected x of rank 4"),
    Bad(
        "upsample_linear_1d", [t(1, 2, 3)], PLAIN | {"scale_factor": 2.0, "data_format": "channels_last"},
        match="expected data_format channels_first",
    ),
    Bad("upsample_linear_1d", [t(1, 2, 3)], TWICE, dtype=int32, match="expected x of type f16"),
    Bad("upsample_nearest_1d", [t(1, 2, 3)], TWICE, dtype=bool_, match="expected x of type ui8"),
    Bad(
        "upsample_bicubic_2d", [t(1, 2, 3, 3)], PLAIN | {"output_size": [2, 2]}, dtype=int32,
        match="expected x of type f16",
    ),
    Bad(
        "upsample_bilinear_2d_grad", [t(1, 2, 3, 4), t(1, 2, 3, 3)], PLAIN | {"output_size": [3, 3]},
        match="expected dy of type tensor<1x2x3x3xf32>",
    ),
]  # fmt: skip
