"""The statements of docs/user-operators.md: the length of the full operator, and the test that uses each call."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
DOCUMENT = (HERE.parents[1] / "docs/user-operators.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in DOCUMENT.partition("## Where each call works")[2].splitlines()
    if line.startswith("| `")
]


def test_a_full_operator_takes_at_most_15_lines():
    block = next(b for b in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL) if "class Pull" in b)
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    for slot in ("types", "sbp", "kernel", "triton", "grad", "reference"):
        assert f"    {slot} = " in block


@pytest.mark.parametrize("calls, where, files", ROWS)
def test_each_call_is_used_by_a_test(calls, where, files):
    texts = [(HERE / name).read_text() for name in re.findall(r"`([^`]+)`", files)]
    for call in re.findall(r"`\.?([^`]+)`", calls):
        word = call.removesuffix("<T>")
        assert any(word in text for text in texts), f"{call} is not in {files}"


@pytest.mark.parametrize("library", sorted((HERE / "sdk/libraries").glob("*.c*")), ids=lambda path: path.name)
def test_libraries_belong_to_tests(library):
    used = [f for f in (HERE / "sdk").glob("*.py") if re.search(rf"\b{library.stem}\b", f.read_text())]
    assert used
