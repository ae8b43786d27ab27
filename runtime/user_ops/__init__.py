"""Operators from C++ libraries: loading them, and their records."""
