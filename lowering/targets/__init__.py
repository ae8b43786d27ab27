"""What programs are compiled for: the records of processors, a table of them, and which one is chosen."""
