"""The three kinds of arrays that the search computes with."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Marks = NDArray[np.bool_]
