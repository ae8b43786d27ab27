"""Ranks that make eager calls in different orders end with one message: the call and the line of each rank."""

import re

import job
import pytest

SMALL, LARGE, ALL = r"tensor<4x2xf32>", r"tensor<300x70xf32>", r"ranks \[0, 1, 2\]"
#: The call of ranks 0 and 2, and the call of rank 1.
WISHES = {
    "sizes": (rf"{SMALL} of rank 0 on {ALL} as S\(0\)", rf"{LARGE} of rank 0 on {ALL} as S\(0\)"),
    "layouts": (rf"{SMALL} of rank 0 on {ALL} as S\(0\)", rf"{SMALL} of rank 0 on {ALL} as B"),
    "moves": (rf"{SMALL} of rank 0 on {ALL} as S\(0\)", rf"{SMALL} moved from {ALL} as S\(0\) to {ALL} as B"),
    "sums": (rf"{SMALL} moved from {ALL} as S\(0\) to {ALL} as B", rf"{SMALL} moved from {ALL} as P to .* as B"),
    "local sums": (f"comm.all_reduce of {SMALL}", f"comm.all_reduce of {LARGE}"),
    "local and global": (f"comm.all_reduce of {SMALL}", rf"{SMALL} of rank 0 on {ALL} as S\(0\)"),
    "programs": (rf"{LARGE} of rank 0 on {ALL} as S\(0\)", "programs"),
}


@pytest.mark.parametrize("case", WISHES)
def test_different_call_orders_end_with_one_message(case: str) -> None:
    with job.start("order_cases.py", 3, case) as ranks:
        output, errors = ranks.communicate(timeout=120)
    one, other = WISHES[case]
    line = r"at \S*order_cases.py:\d+"
    wanted = (
        rf"expected all ranks to request the same, but ranks 0 and 2 request {one} {line},"
        rf" rank 1 requests {other} {line};"
    )
    assert ranks.returncode != 0
    assert re.search(wanted, errors), output + errors
    assert errors.count("Error:") == 1 and "trunc" not in errors.lower(), errors
