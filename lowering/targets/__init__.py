"""Targets: records and tables of CPUs and GPUs, and the choice of the target of a program."""
