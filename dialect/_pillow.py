"""Pillow, which operators that decode images import when they are first used: `pillow.Image`."""

from __future__ import annotations

from oneflow.dialect.lazy import OptionalPackage

pillow = OptionalPackage("PIL", "Pillow, which decodes images", "image")
