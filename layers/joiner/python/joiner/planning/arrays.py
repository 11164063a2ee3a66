"""The three kinds of arrays that the search computes with, and their distinct rows."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Marks = NDArray[np.bool_]


def distinct_rows(marks: Marks) -> tuple[Marks, Whole]:
    """Return the distinct rows, and for each row its position among them.

    >>> distinct, position = distinct_rows(np.array([[True, False], [False, True], [True, False]]))
    >>> distinct[position].tolist()
    [[True, False], [False, True], [True, False]]
    """
    if not marks.shape[1]:
        return marks[:1], np.zeros(len(marks), np.int64)
    packed = np.ascontiguousarray(np.packbits(marks, axis=1))
    _, first, position = np.unique(packed.view(f"V{packed.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    return marks[first], position


def distinct_columns(marks: Marks) -> tuple[Marks, Whole]:
    """Return the distinct columns, and for each column its position among them."""
    rows, position = distinct_rows(marks.T)
    return rows.T, position
