"""The attributes of the `triton` stage, and names of MLIR in Python."""

import keyword
import re

#: A kernel's source and how it is launched; an entry's plan.
SOURCE, PLAN = "oneflow.triton", "oneflow.plan"
#: The attribute of a kernel that runs on the host: its program, and why.
HOST = "oneflow.host"
#: How f32 operands are multiplied, and the attribute of a module that says it.
PRECISIONS = ("ieee", "tf32", "tf32x3")
PRECISION = "oneflow.precision"
#: The attribute of a module that says "true" where ways to compute a kernel are timed; those of a kernel.
AUTOTUNE, CHOICES = "oneflow.autotune", "oneflow.choices"
#: The attribute of a module that says "true" where float additions have to keep their order.
DETERMINISTIC = "oneflow.deterministic"


def identifier(name: str) -> str:
    """The Python name for a symbol, which may have any characters."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{made}" if keyword.iskeyword(made) or not made or made[0].isdigit() else made
