"""From the loops of a kernel to Triton source: loop nests, matrix products, movement, scatter, expressions."""
