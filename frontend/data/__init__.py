"""Data sets, samplers and loaders of batches: `flow.utils.data`."""
