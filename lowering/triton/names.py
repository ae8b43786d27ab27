"""The attributes of the `triton` stage, and Python names for symbols of MLIR."""

import keyword

#: The attribute of a kernel that holds its source, and the attribute of an entry that holds its plan.
SOURCE, PLAN = "oneflow.triton", "oneflow.plan"
#: The attribute of a kernel that runs on the host: its program, and the reason.
HOST = "oneflow.host"
#: The attribute with the candidates of a kernel.
TUNING_CANDIDATES = "oneflow.tuning_candidates"


def identifier(name: str) -> str:
    """The Python name for a symbol, which may have any characters."""
    word = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"_{word}" if keyword.iskeyword(word) or not word or word[0].isdigit() else word
