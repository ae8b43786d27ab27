import sys
from pathlib import Path

# The suite tests the sources of the checkout around the suite, whatever version is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from oneflow.testing import lit_config

config.name = "oneflow"  # noqa: F821  lit defines it
lit_config.setup(config)  # noqa: F821  lit defines it
