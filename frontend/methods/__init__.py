"""The methods of tensors: indexing, assignment, updates in place, `backward`."""
