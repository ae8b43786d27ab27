"""The page of results: each benchmark writes one section under a heading."""

from __future__ import annotations

import re

from foundation import RESULTS


def with_part(page: str, part: str) -> str:
    """The page with the section of the same heading replaced, or with the section appended."""
    before, heading, after = page.partition(f"{part.splitlines()[0]}\n")
    rest = re.search(r"^## ", after, re.MULTILINE) if heading else None
    return before.rstrip() + "\n\n" + part.rstrip() + "\n" + ("\n" + after[rest.start() :] if rest else "")


def write_part(part: str, is_printed: bool) -> None:
    """Prints a section, or else writes the section to the page."""
    if is_printed:
        print(part, end="")
    else:
        RESULTS.write_text(with_part(RESULTS.read_text(), part))
