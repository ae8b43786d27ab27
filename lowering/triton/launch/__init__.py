"""From kernels to a plan of launches: the entry, launches that become one, memory, kernels for the host."""
