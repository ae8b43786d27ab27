"""Cases of `onnx.backend.test` that are left out: a pattern of names and the reason."""

from __future__ import annotations

import re

EXCLUDED = (
    (r"strnorm|string_(concat|split)|regex_full_match|tfidfvectorizer|label_encoder", "strings"),
    (r"equal_string|identity_string|STRING|string", "strings"),
    (r"ai_onnx_ml_", "operators of ai.onnx.ml"),
    (r"image_decoder", "decoders of image files"),
    (r"bernoulli|training_dropout(?!.*zero_ratio)", "random numbers, which the standard does not define"),
    (r"bitcast_(scalar_|2d_)?(float|int(32|64)_to_float)", "bits of floats as integers (BitCast)"),
    (r"test_gradient_of", "the operator Gradient of ai.onnx.preview.training"),
    (r"dft_inverse(_opset19)?$", "expected values have rounding errors of 2e-7 where the result is 0"),
    (r"attention_4d_causal_fp16", "expected values are rounded to float16 after each step"),
    (r"loop16_seq_none", "the comparison of ONNX takes the length of scalars in a sequence"),
)


def reason(name: str) -> str:
    """The reason for the exclusion of a case; "" for included cases."""
    return next((why for pattern, why in EXCLUDED if re.search(pattern, name)), "")
