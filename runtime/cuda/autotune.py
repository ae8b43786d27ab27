"""Autotuning: times the candidates of a kernel on this device once and stores the fastest on disk.

    found = tune(program, script, bases, device, stream)      the sources of kernels with a faster candidate

Candidates run on the memory of the run that is about to start, whose contents do not matter yet. A kernel that writes
to arguments keeps the candidate that the cost model chose.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oneflow.lowering.targets.gpu import GpuTarget
from oneflow.lowering.triton.launch.program import Program
from oneflow.lowering.triton.source import Source
from oneflow.runtime import cache
from oneflow.runtime.cuda import driver
from oneflow.runtime.cuda.compiler import CompileError
from oneflow.runtime.cuda.kernel_cache import VERSION, compile_kernel
from oneflow.runtime.cuda.script import OFFSET_BITS, Launch, Script
from oneflow.runtime.cuda.steps import Kernel, LaunchStep

#: The number of calls before the timing, and of timed calls.
WARM_UP_RUNS, TIMED_RUNS = 2, 10
#: The bytes written before each call, in L2 caches, to flush the cache, which holds other data when a program runs.
FLUSHED_L2_CACHES = 2
#: The kind of cache file that stores the fastest candidate of a kernel.
CACHE_KIND = "tuning"


def microseconds(call: Callable[[], None], target: GpuTarget, stream: Any) -> float:
    """The median time of a call on a device in microseconds, measured by events with flushed caches."""
    flushed_bytes = FLUSHED_L2_CACHES * target.l2_cache_bytes
    flushed = driver.allocate(flushed_bytes, stream)
    begin, end = (driver.call("cuEventCreate", 0) for _ in range(2))

    def once() -> float:
        driver.call("cuMemsetD8Async", flushed, 0, flushed_bytes, stream)
        driver.call("cuEventRecord", begin, stream)
        call()
        driver.call("cuEventRecord", end, stream)
        driver.synchronize(stream)
        return float(driver.call("cuEventElapsedTime", begin, end)) * 1e3

    try:
        return statistics.median([once() for _ in range(WARM_UP_RUNS + TIMED_RUNS)][WARM_UP_RUNS:])
    finally:
        driver.free(flushed, stream)
        for event in (begin, end):
            driver.call("cuEventDestroy", event)


def tune(
    program: Program, script: Script, bases: Sequence[int], device: driver.Device, stream: Any, cached: bool = True
) -> dict[str, Source]:
    """The sources of the kernels for which another candidate than the present one is fastest, by name.

    `bases` are the base addresses of the regions of the script. Equal kernels with equal sizes are timed once.
    """
    chosen = {}
    for launch in _first_launches(script):
        candidates = [program.sources[launch.kernel], *program.candidates.get(launch.kernel, ())]
        if len(candidates) > 1 and not _writes_arguments(launch, script):
            best = _fastest(candidates, launch, bases, device, stream, cached)
            if best:
                chosen[launch.kernel] = candidates[best]
    return chosen


def _first_launches(script: Script) -> Iterable[Launch]:
    """The first launch of each kernel."""
    launches = [c for c in script.commands if isinstance(c, Launch)]
    return {c.kernel: c for c in reversed(launches)}.values()


def _writes_arguments(launch: Launch, script: Script) -> bool:
    results = {i: r.argument for i, r in enumerate(script.results)}
    regions = [script.regions[launch.arguments[i] >> OFFSET_BITS] for i in launch.writes]
    return any(r.kind == "argument" or (r.kind == "result" and results[r.index] is not None) for r in regions)


def _fastest(candidates: Sequence[Source], launch: Launch, bases: Sequence[int], device: driver.Device, stream: Any,
             cached: bool) -> int:  # fmt: skip
    """The index of the fastest candidate, from the cache if it is known."""
    sizes = [a for i, a in enumerate(launch.arguments) if i not in launch.pointers]
    key = cache.digest_of(VERSION, CACHE_KIND, device.arch, json.dumps([sizes, *(s.to_dict() for s in candidates)]))
    known = cache.find(key, CACHE_KIND) if cached else None
    if known is not None and known[1].get("candidate") in range(len(candidates)):
        return int(known[1]["candidate"])
    times = [_time(source, launch, bases, device, stream, cached) for source in candidates]
    best = min(range(len(candidates)), key=times.__getitem__)
    if cached:
        cache.store(key, str(best).encode(), {"candidate": best, "microseconds": times}, CACHE_KIND)
    return best


def _time(source: Source, launch: Launch, bases: Sequence[int], device: driver.Device, stream: Any,
          cached: bool) -> float:  # fmt: skip
    """The time of a kernel in microseconds; infinity if it does not compile or launch."""
    count = len(source.parameters)
    values = dict(zip((p.name for p in source.parameters), launch.arguments, strict=False))
    programs, scratch = source.grid.value(values), 0
    try:
        binary = compile_kernel(source, device.arch, cached)
        scratch_bytes = binary.scratch * programs
        scratch = driver.allocate(scratch_bytes, stream) if scratch_bytes else 0
        command = Launch(
            launch.kernel, programs, (*launch.arguments[:count], 0, 0), launch.pointers[:-1], launch.writes
        )
        step = LaunchStep(command, Kernel(source, binary))
        step.resolve(bases)
        step.parameters.slots[count] = scratch
        return microseconds(lambda: step.launch(stream), device.target, stream)
    except (CompileError, driver.CudaError):
        return float("inf")
    finally:
        if scratch:
            driver.free(scratch, stream)
