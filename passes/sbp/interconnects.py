"""Interconnects between devices: named records for the cost model of layouts, and the choice of one.

with using_interconnect(NVLINK):
    pipeline.run(module)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from oneflow.dialect.record import suggestion


@dataclass(frozen=True)
class Interconnect:
    """The links of one device to the others.

    Attributes:
        name: the name in the option `interconnect` of `oneflow-infer-sbp`.
        bandwidth: GB/s that a device receives.
        latency: microseconds of a collective of few bytes.
        joined_bytes: the most bytes of several tensors in one collective. Larger collectives are no faster, and
            start later: the first of many gradients are sent while the last are computed.
    """

    name: str
    bandwidth: float
    latency: float
    joined_bytes: int = 32 << 20


#: Giga multiply-adds per second of a server's processor, which is no fact of the host: all ranks have to choose the
#: same layouts.
SERVER_COMPUTE = 1000.0

#: 100 Gb/s Ethernet, 400 Gb/s InfiniBand, PCIe 4 with 16 lanes, and NVLink 4.
ETHERNET = Interconnect("ethernet", 10.0, 10.0)
INFINIBAND = Interconnect("infiniband", 45.0, 5.0)
PCIE = Interconnect("pcie", 25.0, 10.0)
NVLINK = Interconnect("nvlink", 400.0, 10.0)
INTERCONNECTS = {record.name: record for record in (ETHERNET, INFINIBAND, PCIE, NVLINK)}
_chosen: ContextVar[Interconnect | None] = ContextVar("interconnect", default=None)


def interconnect(default: Interconnect = ETHERNET) -> Interconnect:
    """The interconnect that layouts are chosen for, `default` if none has been chosen."""
    return _chosen.get() or default


def interconnect_named(name: str) -> Interconnect:
    """The interconnect of a name.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in INTERCONNECTS:
        known = ", ".join(INTERCONNECTS)
        raise ValueError(f"expected one of {known}, got {name!r}{suggestion(name, INTERCONNECTS)}")
    return INTERCONNECTS[name]


@contextmanager
def using_interconnect(chosen: Interconnect) -> Iterator[None]:
    """Chooses layouts for an interconnect inside, in this thread."""
    before = _chosen.set(chosen)
    try:
        yield
    finally:
        _chosen.reset(before)
