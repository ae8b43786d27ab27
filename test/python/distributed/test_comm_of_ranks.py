"""`flow.comm` on several ranks: values, and ranks whose calls differ."""

import re

import job
import pytest


@pytest.mark.parametrize("case", ["values", "orders", "messages"])
def test_collectives_and_messages_of_ranks(case: str) -> None:
    job.run("comm_cases.py", 3, case)


def test_a_receiver_without_a_sender_is_named() -> None:
    with job.start("comm_cases.py", 2, "waits", ONEFLOW_TIMEOUT="2") as ranks:
        output, errors = ranks.communicate(timeout=120)
    line = r"at \S*comm_cases.py:\d+"
    receiver = rf"comm.recv of tensor<4xf32> from rank 1 {line}"
    others = rf"comparing comm.all_reduce of tensor<4xf32> {line}"
    either = rf"rank 0 has waited 2 s at {receiver}; rank 1 is at {others}"
    either += rf"|rank 1 has waited 2 s at {others}; rank 0 is at {receiver}"
    assert ranks.returncode != 0
    assert re.search(either, errors), output + errors
