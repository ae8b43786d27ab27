"""Tables of embeddings in the memory of the host: options, modules, optimizers and snapshots."""
