"""A rank that fails, dies, leaves or does not come ends all ranks; one message names the rank and the step."""

import re
import sys
import threading
import time
from pathlib import Path

import job
import pytest

from oneflow.runtime.collectives import mpi, watchdog
from oneflow.runtime.collectives.transport import WorldError

MESSAGES = {
    "die": r"oneflow: error: rank 1 (process",
    "raise": "ValueError: no such batch\noneflow: error: rank 1 failed; all ranks are ended",
    "catch": "but the run of rank 1 has failed; all ranks are ended",
    "leave": "but rank 1 has ended after",
    "sleep": "oneflow: error: rank 0 has waited 2 s at step",
    "other": "expected all ranks to have the same programs, but rank 1 has '%",
    "stages": "after step 1, oneflow.ccl_send_recv between ranks [0, 1] (",
}


@pytest.mark.parametrize("act", MESSAGES)
def test_one_message_ends_all_ranks(act: str, tmp_path: Path) -> None:
    limit, failed = "2" if act == "sleep" else "60", tmp_path / "failed"
    with job.start(
        "fault_cases.py", 2 if act == "stages" else 3, act, ONEFLOW_TIMEOUT=limit, FAILED_AT=str(failed)
    ) as ranks:
        output, errors = ranks.communicate(timeout=120)
    end = time.monotonic()
    assert ranks.returncode != 0
    assert MESSAGES[act] in errors, output + errors
    assert errors.count("error:") == 1
    assert act in ("raise", "other") or "oneflow.ccl_" in errors or "moving a tensor" in errors
    assert act == "other" or end - float(failed.read_text()) < 10


@pytest.mark.parametrize("act", ["die", "raise", "leave", "catch"])
def test_messages_are_written_to_files(act: str, tmp_path: Path) -> None:
    """The launcher, which writes to the same file at an offset, does not overwrite the messages."""
    log = tmp_path / "log"
    with log.open("w") as file, job.start("fault_cases.py", 2, act, output=file, ONEFLOW_TIMEOUT="60") as ranks:
        ranks.wait(timeout=120)
    limit = time.monotonic() + 10
    while "error:" not in log.read_text() and time.monotonic() < limit:
        time.sleep(0.05)
    text = log.read_text()
    assert MESSAGES[act] in text, text
    assert text.count("oneflow: error:") == 1


def test_messages_name_the_rank_at_another_step() -> None:
    """The message gives the step of a rank that waits at another step than the other ranks."""
    with job.start("fault_cases.py", 2, "shape", ONEFLOW_TIMEOUT="2") as ranks:
        _, errors = ranks.communicate(timeout=120)
    here = r"comparing programs at \S*fault_cases.py:\d+"
    assert re.search(rf"rank 0 has waited 2 s at step .*ccl_.*; rank 1 is at {here};", errors), errors


def test_ranks_with_different_programs_are_refused() -> None:
    """The message shows the difference between the programs."""
    with job.start("fault_cases.py", 2, "other") as ranks:
        _, errors = ranks.communicate(timeout=120)
    assert re.search(r"rank 1 has '.*float_operand = 2.*' where rank 0 has '.*'; all ranks have to make", errors), (
        errors
    )


def test_ranks_do_not_end_while_a_message_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message would be lost with the rank that prints the message."""
    assert watchdog.claim_report(tmp_path)
    found: list[bool] = []

    def other() -> None:
        watchdog.report(tmp_path, "another message", sys.stderr)
        found.append((tmp_path / "said").exists())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(0.2)
    (tmp_path / "said").touch()
    thread.join()
    assert found == [True] and not capsys.readouterr().err


def test_a_timeout_is_a_positive_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEFLOW_TIMEOUT", "-1")
    with pytest.raises(WorldError, match=r"expected .ONEFLOW_TIMEOUT to be a positive number of seconds, got '-1'"):
        mpi.timeout()
