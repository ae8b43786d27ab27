"""The attributes of the `triton` stage, and names of MLIR in Python."""

import keyword
import re

#: A kernel's source and how it is launched; an entry's plan.
SOURCE, PLAN = "oneflow.triton", "oneflow.plan"


def identifier(name: str) -> str:
    """The Python name for a symbol, which may have any characters."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{made}" if keyword.iskeyword(made) or not made or made[0].isdigit() else made
