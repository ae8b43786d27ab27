"""A kernel in Triton: its source, how it is launched, and what that needs."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oneflow.lowering.triton.names import identifier

#: The languages of kernels.
TRITON, GLUON = "triton", "gluon"
#: Fields that few sources have, and what they are for others.
RARE: dict[str, Any] = {"registers": 0, "language": TRITON, "special": {}}


@dataclass(frozen=True)
class Source:
    """The Triton form of a kernel.

    `parameters` are (name, type of a Triton signature); `grid` is the number of programs as a Python expression over
    parameter names (`cdiv` rounds up); `updates[i]` is the operand that result `i` is written over, if any, and
    `fills[i]` the number, as text, that result `i` has to hold before. A thread has at most `registers`, on average,
    if that is not 0. `special` are forms for one architecture each, in `gluon`.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    grid: str
    warps: int = 4
    stages: int = 3
    updates: dict[int, int] = field(default_factory=dict)
    fills: dict[int, str] = field(default_factory=dict)
    registers: int = 0
    language: str = TRITON
    special: dict[str, Source] = field(default_factory=dict)

    def on(self, arch: str) -> Source:
        """The form for an architecture."""
        return self.special.get(arch, self)

    @property
    def meaning(self) -> str:
        """What sources of one binary have alike: all but the name, and what comments say of where they come from."""
        text = re.sub("(?m)^#.*", "", self.text).replace(identifier(self.name), "kernel")
        return json.dumps(replace(self, name="", text=text).to_dict())

    def programs(self, arguments: dict[str, int]) -> int:
        """The number of programs for the values of the parameters."""
        return int(eval(self.grid, {"cdiv": cdiv, "max": max}, arguments))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, without those that few sources have."""
        return {k: v for k, v in asdict(self).items() if k not in RARE or v != RARE[k]}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Source:
        """The source that `to_dict` described."""
        parameters = tuple((n, t) for n, t in data["parameters"])
        maps = {name: {int(k): v for k, v in data[name].items()} for name in ("updates", "fills")}
        special = {arch: Source.from_dict(form) for arch, form in data.get("special", {}).items()}
        return Source(**{**data, "parameters": parameters, "special": special, **maps})


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)
