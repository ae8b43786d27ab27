"""Which of several ways to compute a kernel is fastest on this device: timed once, then known from the disk.

    found = tune(program, script, bases, device, stream)      sources by kernel, of those that are faster

Kernels run on the memory of the run that is about to begin, whose contents do not matter: those that would write to
arguments keep the way that the cost model chose.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oneflow.lowering.triton.launch.program import Program
from oneflow.lowering.triton.source import Source
from oneflow.runtime import cache
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.cached import VERSION, compile_kernel
from oneflow.runtime.cuda.compiler import CompileError
from oneflow.runtime.cuda.script import SHIFT, Launch, Script
from oneflow.runtime.cuda.steps import Kernel, LaunchStep

#: How often a kernel is called before it is timed, and while it is.
BEFORE, TIMES = 2, 10
#: Bytes that are written before each call, more than caches hold: in a program other data is there.
COLD = 128 << 20
#: The kind of file that stands for a choice on the disk.
KIND = "choice"


def microseconds(call: Callable[[], None], stream: Any) -> float:
    """The time of one call on the device, by events: the median of several, each with a cold cache."""
    cold = driver.allocate(COLD, stream)
    begin, end = (driver.call("cuEventCreate", 0) for _ in range(2))

    def once() -> float:
        driver.call("cuMemsetD8Async", cold, 0, COLD, stream)
        driver.call("cuEventRecord", begin, stream)
        call()
        driver.call("cuEventRecord", end, stream)
        driver.synchronize(stream)
        return float(driver.call("cuEventElapsedTime", begin, end)) * 1e3

    try:
        return statistics.median([once() for _ in range(BEFORE + TIMES)][BEFORE:])
    finally:
        driver.free(cold, stream)
        for event in (begin, end):
            driver.call("cuEventDestroy", event)


def tune(
    program: Program, script: Script, bases: Sequence[int], device: driver.Device, stream: Any, cached: bool = True
) -> dict[str, Source]:
    """The sources of kernels for which another than the present one was fastest.

    `bases` are where the script's regions lie. Equal kernels on equal sizes are timed once on a device.
    """
    found = {}
    for launch in _first_launches(script):
        ways = [program.sources[launch.kernel], *program.choices.get(launch.kernel, ())]
        if len(ways) > 1 and not _writes_arguments(launch, script):
            best = _fastest(ways, launch, bases, device, stream, cached)
            if best:
                found[launch.kernel] = ways[best]
    return found


def _first_launches(script: Script) -> Iterable[Launch]:
    """The first launch of each kernel."""
    launches = [c for c in script.commands if isinstance(c, Launch)]
    return {c.kernel: c for c in reversed(launches)}.values()


def _writes_arguments(launch: Launch, script: Script) -> bool:
    results = {i: r.argument for i, r in enumerate(script.results)}
    regions = [script.regions[launch.arguments[i] >> SHIFT] for i in launch.writes]
    return any(r.kind == "argument" or (r.kind == "result" and results[r.number] is not None) for r in regions)


def _fastest(ways: Sequence[Source], launch: Launch, bases: Sequence[int], device: driver.Device, stream: Any,
             cached: bool) -> int:  # fmt: skip
    """The number of the fastest way, from the disk where it is known there."""
    sizes = [a for i, a in enumerate(launch.arguments) if i not in launch.pointers]
    key = cache.digest_of(VERSION, KIND, device.arch, json.dumps([sizes, *(s.to_dict() for s in ways)]))
    known = cache.find(key, KIND) if cached else None
    if known is not None and known[1].get("way") in range(len(ways)):
        return int(known[1]["way"])
    times = [_time(source, launch, bases, device, stream, cached) for source in ways]
    best = min(range(len(ways)), key=times.__getitem__)
    if cached:
        cache.store(key, str(best).encode(), {"way": best, "microseconds": times}, KIND)
    return best


def _time(source: Source, launch: Launch, bases: Sequence[int], device: driver.Device, stream: Any,
          cached: bool) -> float:  # fmt: skip
    """How long a kernel takes; infinitely long where it does not compile or start."""
    count = len(source.parameters)
    given = dict(zip((name for name, _ in source.parameters), launch.arguments, strict=False))
    programs, scratch = source.programs(given), 0
    try:
        binary = compile_kernel(source, device.arch, cached)
        room = binary.scratch * programs
        scratch = driver.allocate(room, stream) if room else 0
        command = Launch(
            launch.kernel, programs, (*launch.arguments[:count], 0, 0), launch.pointers[:-1], launch.writes
        )
        step = LaunchStep(command, Kernel(source, binary))
        step.set(bases)
        step.parameters.slots[count] = scratch
        return microseconds(lambda: step.launch(stream), stream)
    except (CompileError, driver.CudaError):
        return float("inf")
    finally:
        if scratch:
            driver.free(scratch, stream)
