"""The sample table: one module per operator family, each with SAMPLES and BAD."""

import importlib
import os
import pkgutil
from itertools import groupby

from oneflow.testing.sample import Bad, Sample

#: Modules with further samples of other families' operators, whose first samples are those of the families.
_FURTHER = ("complex_numbers", "float8", "integers")
_names = sorted((m.name for m in pkgutil.iter_modules(__path__)), key=lambda name: (name in _FURTHER, name))
_modules = [importlib.import_module(f"{__name__}.{name}") for name in _names]

SAMPLES: list[Sample] = [s for m in _modules for s in m.SAMPLES]
#: Whether every check runs with all samples, in place of the samples that the check's module names.
EVERY = "ONEFLOW_TEST_ALL" in os.environ
#: The largest number of an operator's samples in `SPREAD`.
MAX_SAMPLES = 8


def _spread(samples: list[Sample]) -> list[Sample]:
    """At most `MAX_SAMPLES` of the samples, from the first to the last at even distances."""
    step = max(1, -(-len(samples) // MAX_SAMPLES))
    return samples if EVERY else samples[::step]


#: Some samples of each operator, for checks that depend on ranks and forms rather than on values.
SPREAD: list[Sample] = [
    s for _, group in groupby(sorted(SAMPLES, key=lambda s: s.op), key=lambda s: s.op) for s in _spread(list(group))
]
#: Operators whose results say less than the reference's of NaN, infinities and large numbers, and why.
UNEDGED = {
    **dict.fromkeys(
        ("min_max_observer", "moving_average_min_max_observer", "quantization", "fake_quantization"),
        "scales of such ranges are NaN",
    ),
    **dict.fromkeys(
        ("inv", "det", "slogdet", "slogdet_of_pairs", "lu_decomposition"), "LAPACK refuses such matrices"
    ),
    "image_decode": "such bytes are not files of images",
    "object_segmentation_polygon_to_mask": "such points are run-time errors",
    "roi_align": "indices of images out of range are run-time errors",
    "roi_align_grad": "as of roi_align",
    "multinomial_with_replacement": "such weights are run-time errors",
    "roc_auc_score": "scores that are NaN have no order",
    **dict.fromkeys(
        ("fft_c2c", "fft_r2c", "fft_c2r", "fourier_of_pairs", "stft"),
        "pocketfft adds and multiplies in another order",
    ),
    "searchsorted": "rows of such values are not sorted",
    "searchsorted_scalar": "as of searchsorted",
    "attention": "weights that underflow in f32 do not in the reference's f64, so that 0 * inf is NaN",
    "attention_grad": "as of attention",
    "fused_multi_head_attention_inference": "as of attention",
    **dict.fromkeys(
        ("scaled_dot_product_flash_attention", "scaled_dot_product_flash_attention_grad"), "as of attention"
    ),
    "conv_data_grad": "elements between strides and beyond the image are zeros, which an infinite weight makes NaN",
    "deconv1d": "as of conv_data_grad",
    "deconv2d": "as of conv_data_grad",
    "deconv3d": "as of conv_data_grad",
    "lamb_update": "squares of the whole parameter are added in f32",
    "normalization_add_relu_grad": "inv_variance and gamma that no normalization has are multiplied in another order",
    "cudnn_fused_normalization_add_relu_grad": "as of normalization_add_relu_grad",
    "upsample_bicubic_2d_grad": "shares of one element in positions at a border are added before dy is multiplied",
    "product_of_others": "the product of all is divided, so that it may not overflow",
}
BAD: list[Bad] = [b for m in _modules for b in m.BAD]
