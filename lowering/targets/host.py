"""The target `native`: the processor of the host, from `/proc/cpuinfo` and sysfs of Linux.

On other systems `native` is the lowest level of the host's architecture.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from oneflow.lowering.targets.cpu import CPU_TARGETS, CpuTarget

#: Linux's names of CPU features by LLVM's, where the names differ by more than dots.
_FLAGS = {"avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni", "lzcnt": "abm", "neon": "asimd"}
#: Synonyms of architectures.
_ARCHITECTURES = {"AMD64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@functools.cache
def cpu_info() -> dict[str, str]:
    """The fields of the first processor in `/proc/cpuinfo`; empty on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def host_architecture() -> str:
    """The architecture of the host, such as `x86_64`."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def missing_features(target: CpuTarget, flags: Collection[str] | None = None) -> list[str]:
    """The features of a target that the host lacks, by LLVM's names; `flags` are the host's by Linux's names."""
    have = host_flags() if flags is None else flags
    return [name for name in target.llvm_features if _FLAGS.get(name, name.replace(".", "_")) not in have]


@functools.cache
def host_target() -> CpuTarget:
    """The target of the host."""
    levels = [t for t in CPU_TARGETS.values() if t.arch == host_architecture()] or [CPU_TARGETS["aarch64-neon"]]
    level = ([t for t in levels if not missing_features(t)] or levels[:1])[-1]
    return replace(
        level,
        name="native",
        arch=host_architecture(),
        llvm_cpu="",
        llvm_features=(),
        l1_bytes=_cache_bytes(1) or level.l1_bytes,
        l2_bytes=_cache_bytes(2) or level.l2_bytes,
        l3_bytes=_cache_bytes(3) or level.l3_bytes,
        cores=os.cpu_count() or 1,
    )


def host_flags() -> frozenset[str]:
    """The features of the host, by Linux's names."""
    fields = cpu_info()
    return frozenset(f"{fields.get('flags', '')} {fields.get('Features', '')}".split())


def _cache_bytes(level: int) -> int:
    """The size of the data cache of a level; 0 where unknown."""
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            fields = {name: (folder / name).read_text().strip() for name in ("level", "type", "size")}
        except OSError:
            continue
        size = fields["size"]
        if fields["level"] == str(level) and fields["type"] != "Instruction" and size[:-1].isdecimal():
            return int(size[:-1]) * _UNITS.get(size[-1], 0)
    return 0
