"""The page of results: each benchmark writes one section under a heading."""

from __future__ import annotations

import re


def with_part(page: str, part: str) -> str:
    """The page with the section of the same heading replaced, or with the section appended."""
    before, heading, after = page.partition(f"{part.splitlines()[0]}\n")
    rest = re.search(r"^## ", after, re.MULTILINE) if heading else None
    return before.rstrip() + "\n\n" + part.rstrip() + "\n" + ("\n" + after[rest.start() :] if rest else "")
