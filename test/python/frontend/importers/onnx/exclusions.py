"""Cases of `onnx.backend.test` that are left out: a pattern of names and the reason."""

from __future__ import annotations

import re

EXCLUDED = (
    (r"^test_(strnormalizer|string_|regex_full_match|tfidfvectorizer|ai_onnx_ml_label_encoder)", "strings"),
    (r"string|STRING", "strings"),
)


def reason(name: str) -> str:
    """Why a case is left out; "" if it is not."""
    return next((why for pattern, why in EXCLUDED if re.search(pattern, name)), "")
