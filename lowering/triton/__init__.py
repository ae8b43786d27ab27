"""From kernels to Triton source, and from the entry to a plan of launches."""
