"""Tables of embeddings in the memory of the host: `flow.one_embedding`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.one_embedding import modules, optimizers, options, snapshots
from oneflow.frontend.one_embedding.modules import *  # noqa: F403
from oneflow.frontend.one_embedding.optimizers import *  # noqa: F403
from oneflow.frontend.one_embedding.options import *  # noqa: F403
from oneflow.frontend.one_embedding.snapshots import *  # noqa: F403

__all__ = [*modules.__all__, *optimizers.__all__, *options.__all__, *snapshots.__all__]
