"""Collectives: how ranks that run one program exchange tensors, over MPI, NCCL or within one process."""
