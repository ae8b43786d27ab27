"""The operators, one family per file; the registry (`oneflow.dialect.record`) imports a family at its first use."""
