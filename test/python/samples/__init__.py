"""The sample table: one module per operator family, each with SAMPLES and BAD."""

import importlib
import pkgutil

from oneflow.testing.sample import Bad, Sample

_modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]

SAMPLES: list[Sample] = [s for m in _modules for s in m.SAMPLES]
#: Operators whose results say less than the reference's of NaN, infinities and large numbers, and why.
UNEDGED = {
    **dict.fromkeys(
        ("min_max_observer", "quantization", "fake_quantization"), "scales of such ranges are no numbers"
    ),
    **dict.fromkeys(("inv", "det", "lu_decomposition"), "LAPACK refuses such matrices"),
    "grid_sample": "positions that are NaN or infinite read no element",
    "grid_sample_grad": "as of grid_sample",
    **dict.fromkeys(
        ("roi_align", "roi_align_grad", "deform_conv2d", "deform_conv2d_input_grad"), "as of grid_sample"
    ),
    "deform_conv2d_param_grad": "as of grid_sample",
    **dict.fromkeys(
        ("fft_c2c", "fft_r2c", "fft_c2r", "fourier_of_pairs", "stft"),
        "pocketfft adds and multiplies in another order",
    ),
    "searchsorted": "rows of such values are not sorted",
    "searchsorted_scalar": "as of searchsorted",
    "attention": "weights that underflow in f32 do not in the reference's f64, so that 0 * inf is NaN",
    "attention_grad": "as of attention",
    "conv_data_grad": "places between strides and beyond the image are zeros, which an infinite weight makes NaN",
    "deconv1d": "as of conv_data_grad",
    "deconv2d": "as of conv_data_grad",
    "deconv3d": "as of conv_data_grad",
    "lamb_update": "squares of the whole parameter are added in f32",
    "normalization_add_relu_grad": "inv_variance and gamma that no normalization has are multiplied in another order",
    "upsample_bicubic_2d_grad": "shares of one element in positions at a border are added before dy is multiplied",
    "product_of_others": "the product of all is divided, so that it may not overflow",
}
BAD: list[Bad] = [b for m in _modules for b in m.BAD]
