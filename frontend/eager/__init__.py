"""Eager mode: tensors with values, the tape, views."""
