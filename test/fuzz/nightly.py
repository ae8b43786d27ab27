"""All fuzzers at the length of a night: `python test/fuzz/nightly.py`.

The seed is the number of the day, so that every night has other cases; `--seed` repeats a night. The exit status is 1
after a fault, whose case is in the folder `--out`, reduced.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: The cases of a night by fuzzer.
CASES = {"files": 100_000, "programs": 10_000, "torch_programs": 10_000}
DAY = 24 * 60 * 60


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the fuzzers one after the other; 1 after a fault of any."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) // DAY, help="what the cases are made from")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the cases that is tried, such as 0.01")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="the folder for cases that fail")
    parser.add_argument("--fuzzers", nargs="+", choices=CASES, default=list(CASES), help="the fuzzers that run")
    arguments = parser.parse_args(argv)
    status = 0
    for name in arguments.fuzzers:
        if name == "torch_programs" and importlib.util.find_spec("torch") is None:
            print("torch_programs: left out, PyTorch is not installed", flush=True)
            continue
        count = max(1, round(CASES[name] * arguments.share))
        print(f"{name}: {count} cases of seed {arguments.seed}", flush=True)
        command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), "--count", str(count)]
        command += ["--seed", str(arguments.seed), "--out", str(arguments.out)]
        status |= subprocess.run(command, check=False).returncode != 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
