"""The version of this project, and of the toolkits that it was built with: none."""

from oneflow import __version__

__all__ = ["__version__", "cuda", "hip"]

cuda: str | None = None
hip: str | None = None
