"""The functional API: PyTorch's names and argument order, on the tensors of a function that is being traced.

Each module has one kind of functions and lists them. `rules.py` has the promotion of operands, `aliasing.py` has the
aliasing of results with operands.
"""

import inspect

from oneflow.frontend.functional import (
    activation,
    algebra,
    aliases,
    complex_numbers,
    contractions,
    data_dependent,
    distances,
    elementwise,
    gathering,
    images,
    losses,
    normalization,
    ordering,
    padding,
    positions,
    predicates,
    products,
    quantizing,
    random,
    reduction,
    resizing,
    sampling,
    scaled_products,
    scattering,
    sequences,
    shape,
    source,
    spectra,
    stacking,
    statistics,
    tensor_lists,
)
from oneflow.frontend.functional.activation import *  # noqa: F403
from oneflow.frontend.functional.algebra import *  # noqa: F403
from oneflow.frontend.functional.aliases import *  # noqa: F403
from oneflow.frontend.functional.aliasing import Alias, alias_of, clone, separated
from oneflow.frontend.functional.complex_numbers import *  # noqa: F403
from oneflow.frontend.functional.contractions import *  # noqa: F403
from oneflow.frontend.functional.data_dependent import *  # noqa: F403
from oneflow.frontend.functional.distances import *  # noqa: F403
from oneflow.frontend.functional.elementwise import *  # noqa: F403
from oneflow.frontend.functional.gathering import *  # noqa: F403
from oneflow.frontend.functional.images import *  # noqa: F403
from oneflow.frontend.functional.indexing import getitem
from oneflow.frontend.functional.keyword_aliases import keyword_aliases, with_all_names
from oneflow.frontend.functional.losses import *  # noqa: F403
from oneflow.frontend.functional.normalization import *  # noqa: F403
from oneflow.frontend.functional.ordering import *  # noqa: F403
from oneflow.frontend.functional.padding import *  # noqa: F403
from oneflow.frontend.functional.positions import *  # noqa: F403
from oneflow.frontend.functional.predicates import *  # noqa: F403
from oneflow.frontend.functional.products import *  # noqa: F403
from oneflow.frontend.functional.quantizing import *  # noqa: F403
from oneflow.frontend.functional.random import *  # noqa: F403
from oneflow.frontend.functional.reduction import *  # noqa: F403
from oneflow.frontend.functional.resizing import *  # noqa: F403
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.sampling import *  # noqa: F403
from oneflow.frontend.functional.scaled_products import *  # noqa: F403
from oneflow.frontend.functional.scattering import *  # noqa: F403
from oneflow.frontend.functional.sequences import *  # noqa: F403
from oneflow.frontend.functional.shape import *  # noqa: F403
from oneflow.frontend.functional.source import *  # noqa: F403
from oneflow.frontend.functional.spectra import *  # noqa: F403
from oneflow.frontend.functional.stacking import *  # noqa: F403
from oneflow.frontend.functional.statistics import *  # noqa: F403
from oneflow.frontend.functional.tensor_lists import *  # noqa: F403

__all__ = ["cast", "clone", "getitem"]
__all__ += activation.__all__
__all__ += algebra.__all__
__all__ += aliases.__all__
__all__ += predicates.__all__
__all__ += complex_numbers.__all__
__all__ += contractions.__all__
__all__ += data_dependent.__all__
__all__ += distances.__all__
__all__ += elementwise.__all__
__all__ += gathering.__all__
__all__ += images.__all__
__all__ += losses.__all__
__all__ += normalization.__all__
__all__ += ordering.__all__
__all__ += padding.__all__
__all__ += positions.__all__
__all__ += products.__all__
__all__ += quantizing.__all__
__all__ += random.__all__
__all__ += reduction.__all__
__all__ += resizing.__all__
__all__ += sampling.__all__
__all__ += scaled_products.__all__
__all__ += scattering.__all__
__all__ += sequences.__all__
__all__ += shape.__all__
__all__ += source.__all__
__all__ += spectra.__all__
__all__ += stacking.__all__
__all__ += statistics.__all__
__all__ += tensor_lists.__all__

for _name in __all__:
    _function = globals()[_name]
    if not inspect.isroutine(_function):
        continue
    _further = keyword_aliases(_name, _function)
    if alias_of(_name, _function) is Alias.COPY:
        _function, _further = separated(_function, _further), {}
    globals()[_name] = with_all_names(_name, _function, _further)
