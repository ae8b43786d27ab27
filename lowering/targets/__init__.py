"""What programs are compiled for: a record and a table of CPUs, of GPUs, and the choice of the target of each."""
