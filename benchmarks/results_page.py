"""The page of results, of which each benchmark writes a part under a heading of its own."""

from __future__ import annotations

import re


def with_part(page: str, part: str) -> str:
    """A page with its part of the same heading replaced, or with the part at its end."""
    before, heading, after = page.partition(f"{part.splitlines()[0]}\n")
    rest = re.search(r"^## ", after, re.MULTILINE) if heading else None
    return before.rstrip() + "\n\n" + part.rstrip() + "\n" + ("\n" + after[rest.start() :] if rest else "")
