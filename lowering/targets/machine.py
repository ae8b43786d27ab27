"""The target `native`: the processor of this machine, from what Linux tells of it.

Where nothing is told (other systems) it is the least level of the architecture.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from oneflow.lowering.targets.cpu import CPU_TARGETS, CpuTarget

#: Linux's names of features where LLVM's differ by more than dots.
_FLAGS = {"lzcnt": "abm", "neon": "asimd"}
#: Names of architectures that mean another.
_ARCHITECTURES = {"AMD64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@functools.cache
def processor_facts() -> dict[str, str]:
    """What the system tells of its first processor, by name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def architecture() -> str:
    """The machine's architecture."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def missing_features(target: CpuTarget) -> list[str]:
    """The features of a target that this machine does not have, by LLVM's names."""
    have = _features()
    return [name for name in target.llvm_features if _FLAGS.get(name, name.replace(".", "_")) not in have]


@functools.cache
def native() -> CpuTarget:
    """The target of this machine."""
    levels = [t for t in CPU_TARGETS.values() if t.arch == architecture()] or [CPU_TARGETS["aarch64-neon"]]
    level = ([t for t in levels if not missing_features(t)] or levels[:1])[-1]
    flags = _features()
    return replace(
        level,
        name="native",
        arch=architecture(),
        llvm_cpu="",
        llvm_features=(),
        l1_bytes=_cache_bytes(1) or level.l1_bytes,
        l2_bytes=_cache_bytes(2) or level.l2_bytes,
        l3_bytes=_cache_bytes(3) or level.l3_bytes,
        cores=os.cpu_count() or 1,
        has_bf16=_any(flags, "avx512_bf16", "bf16"),
        has_vnni=_any(flags, "avx512_vnni", "avx_vnni", "asimddp"),
        has_amx=_any(flags, "amx_tile", "sme"),
    )


def _features() -> frozenset[str]:
    facts = processor_facts()
    return frozenset(f"{facts.get('flags', '')} {facts.get('Features', '')}".split())


def _any(flags: Iterable[str], *wanted: str) -> bool:
    return not set(wanted).isdisjoint(flags)


def _cache_bytes(level: int) -> int:
    """The size of the data cache of a level; 0 where the system does not tell."""
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            facts = {name: (folder / name).read_text().strip() for name in ("level", "type", "size")}
        except OSError:
            continue
        size = facts["size"]
        if facts["level"] == str(level) and facts["type"] != "Instruction" and size[:-1].isdecimal():
            return int(size[:-1]) * _UNITS.get(size[-1], 0)
    return 0
