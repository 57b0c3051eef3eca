"""The type of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = Any  # only annotations use it: most processes compute nothing, and NumPy takes 12 MB and 0.1 s
"""One vector, shape `(dimensions,)`, or one in each row, shape `(n, dimensions)`; of unit length."""
