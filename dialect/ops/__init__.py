"""The operators, one family per file; the registry (`oneflow.dialect.record`) imports a family when it is needed."""
