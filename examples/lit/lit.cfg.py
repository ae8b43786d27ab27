from oneflow.testing import lit_config

lit_config.setup(config)  # noqa: F821  lit defines it
