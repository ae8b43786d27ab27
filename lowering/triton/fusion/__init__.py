"""Rewrites before emission, the one place in `lowering` that may name operators: which loops become one kernel."""
