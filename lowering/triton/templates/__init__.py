"""Kernels written by hand: attention, matrix products and long rows on Hopper, gradients of norms."""
