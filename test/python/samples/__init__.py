"""The sample table: one module per operator family, each with SAMPLES and BAD."""

import importlib
import pkgutil

from oneflow.testing.sample import Bad, Sample

_modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]

SAMPLES: list[Sample] = [s for m in _modules for s in m.SAMPLES]
BAD: list[Bad] = [b for m in _modules for b in m.BAD]
