"""Capture of Python functions as programs: functionalization, guards, gradients of functions."""
