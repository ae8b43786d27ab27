"""Samples of regions of images and of convolutions with moved windows."""

from typing import Any

from oneflow.dialect.dtypes import float16, float32
from oneflow.testing.sample import Bad, Sample, t, v

BENDS = "the second derivative jumps at elements"
AGAIN = "its operators are operators of a gradient that is checked"
POOL: dict[str, Any] = {"pooled_h": 2, "pooled_w": 1, "spatial_scale": 0.5, "sampling_ratio": 2}
REGION = v([[0.25, 0.3, 0.1, 2.1, 3.3]])
ONE = {**POOL, "pooled_h": 1, "sampling_ratio": 1}
ROIS = v([[1.25, 0.37, 0.45, 3.1, 5.2], [0.25, -3.2, 1.0, 9.0, 2.5]])
MOVED = {
    "stride_h": 1, "stride_w": 2, "pad_h": 1, "pad_w": 0, "dilation_h": 1, "dilation_w": 2, "groups": 2,
    "offset_groups": 2, "use_mask": True,
}  # fmt: skip
PLAIN = {**MOVED, "groups": 1, "offset_groups": 1, "pad_h": 0, "use_mask": False}
FAR: dict[str, Any] = {"low": -1.4, "high": 1.4}
#: Operands of a convolution of kernels 2 x 2 on images 2 x 5, and of 1 x 1.
BOTH = [t(1, 2, 2, 4), t(1, 16, 3, 1, **FAR), t(2, 1, 2, 2), t(2), t(1, 8, 3, 1)]
SMALL = [t(2, 1, 2, 2), t(2, 2, 2, 1, **FAR), t(1, 1, 1, 1), t(2, 1, 2, 1)]

SAMPLES = [
    Sample("roi_align", [t(2, 2, 3, 4), ROIS], {**POOL, "aligned": True}, dtypes=(float32, float16),
           second_order=False, why=BENDS),
    Sample("roi_align", [t(2, 1, 3, 2), ROIS], POOL, second_order=False, why=BENDS),
    Sample("roi_align_grad", [t(1, 1, 1, 1), t(1, 1, 2, 2), REGION], ONE, gradient=False, why=AGAIN),
    Sample("deform_conv2d", BOTH, MOVED, second_order=False, why=BENDS),
    Sample("deform_conv2d", [*SMALL[:3], None, SMALL[3]], PLAIN, dtypes=(float32, float16),
           second_order=False, why=BENDS),
    *[
        Sample(f"deform_conv2d_{name}_grad", [t(2, 1, 2, 1), *SMALL], PLAIN, gradient=False, why=AGAIN)
        for name in ("input", "param")
    ],
]  # fmt: skip
BAD = [
    Bad("roi_align", [t(1, 1, 2, 2), t(1, 4)], POOL, match="expected rois of 5 columns"),
    Bad("roi_align", [t(1, 1, 2, 2), t(1, 5)], {**POOL, "sampling_ratio": 0}, match="sampling_ratio of at least 1"),
    Bad("deform_conv2d", [*SMALL[:2], t(1, 2, 1, 1), None, SMALL[3]], PLAIN, match="expected channels in 1 groups"),
    Bad("deform_conv2d", [SMALL[0], t(2, 3, 2, 1), SMALL[2], None, SMALL[3]], PLAIN, match="offset of shape 2x2x2x1"),
    Bad("deform_conv2d", [*SMALL[:3], t(2), SMALL[3]], PLAIN, match="expected the size of bias to be 1, got 2"),
]
