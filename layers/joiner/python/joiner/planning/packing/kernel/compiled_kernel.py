"""The compiled form of the innermost loops of the search (``fill.c``), for processors with a library.

The folder contains three small libraries for Linux: arm64, x86-64, and x86-64 with AVX2, which every x86 processor
of Lambda has. They call nothing and do not use Python's API, so any version of Python loads them. All of them
return bit-identical results. On other machines ``best_library`` returns None and the same loop runs in numpy: it is
as correct but slower, so the search finds less in a second.
"""

import ctypes
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from joiner.planning.arrays import Floats, Marks, Whole

FOLDER: Final = __file__.rpartition("/")[0]
PROCESSORS: Final = {"x86_64": "x86_64", "avx2-x86_64": "x86_64_v3", "aarch64": "generic"}
"""The processors with a library: the end of the library's name, and the compiler's name of the processor."""
MOST_RESOURCES: Final = 64
MOST_MADE: Final = 24
MOST_VIEWS: Final = 6
"""As in ``fill.c``."""


def library_path(machine: str) -> str:
    """Return the path of the library for these processors."""
    return f"{FOLDER}/fill-{machine}.so"


def supported_processors() -> tuple[str, ...]:
    """Return the processors whose library can run here, the fastest first."""
    machine = platform.machine()
    plain = load_library(machine)
    if plain is None:
        return ()
    return ("avx2-x86_64", machine) if plain.has_avx2() and load_library("avx2-x86_64") else (machine,)


@cache
def load_library(machine: str) -> "ctypes.CDLL | None":
    """Return the library for these processors, or None if it cannot be loaded here."""
    if sys.platform != "linux" or sys.byteorder != "little" or machine not in PROCESSORS:
        return None
    try:
        return ctypes.CDLL(library_path(machine))
    except OSError:
        return None


@cache
def best_library() -> "ctypes.CDLL | None":
    """Return the fastest library for this machine, or None."""
    return next(map(load_library, supported_processors()), None)


class ProblemStruct(ctypes.Structure):
    """``struct problem`` of ``fill.c``."""

    _fields_ = (
        *((name, ctypes.c_longlong) for name in ("items", "resources", "caps", "width", "offers")),
        *(
            (name, ctypes.c_void_p)
            for name in ("free", "open", "need", "most", "rules", "part", "limit", "price", "domain")
        ),
    )


class Kernel:
    """One problem in the memory layout of the compiled loop, with its working memory: O offers, K items, R resources,
    C caps."""

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        free: Floats,
        open_to: Marks,
        need: Floats,
        most: Floats,
        rules: Whole,
        part: NDArray[np.uint8],
        caps: Whole,
        price: Floats,
        domain: Whole,
    ) -> None:
        self._fill, self._seed, self._repack, self._best_node = (
            library.fill,
            library.seed,
            library.repack,
            library.best_node,
        )
        self._repack.restype, self._best_node.restype = ctypes.c_double, ctypes.c_longlong
        self._kept = [
            np.ascontiguousarray(one) for one in (free, open_to, need, most, rules, part, caps, price, domain)
        ]
        items, resources = need.shape
        self._laid = ProblemStruct(items, resources, len(caps), rules.shape[1], len(price), *map(_address, self._kept))
        self._reals = np.empty(items * (resources + 5))
        self._wholes = np.empty(items * (6 + MOST_MADE) + 2 * len(caps) + len(price), np.int64)
        self._fixed = (_address(self._reals), _address(self._wholes))
        self._tried = (np.empty(items * (resources + 3 + 2 * MOST_VIEWS) + MOST_VIEWS), np.empty(2 * items, np.int64))

    def fill(
        self,
        offers: Whole,
        active: Whole,
        demand: Floats,
        worth: Floats,
        *,
        share: Floats,
        weights: Floats | None,
        counts: Whole,
    ) -> None:
        """Fill rows in place.

        ``counts`` has rows x active items, and contains at first what the rows already hold. ``demand`` and
        ``worth`` are of the active items, for all rows or by row; ``share`` is by row, ``weights`` by row and
        resource.
        """
        held = [
            np.ascontiguousarray(offers),
            np.ascontiguousarray(active),
            np.ascontiguousarray(demand),
            np.ascontiguousarray(worth),
        ]
        share = np.ascontiguousarray(share)
        lean = None if weights is None else np.ascontiguousarray(weights)
        rows, width = counts.shape
        places = [_address(one) for one in held]
        reals, wholes = self._fixed
        self._fill(
            ctypes.byref(self._laid),
            *map(ctypes.c_longlong, (rows, width)),
            *map(ctypes.c_void_p, places[:3]),
            ctypes.c_longlong(width if demand.ndim > 1 else 0),
            ctypes.c_void_p(places[3]),
            ctypes.c_longlong(width if worth.ndim > 1 else 0),
            ctypes.c_void_p(_address(share)),
            ctypes.c_void_p(None if lean is None else _address(lean)),
            *map(ctypes.c_void_p, (_address(counts), reals, wholes)),
        )

    def seed(
        self, offers: Whole, active: Whole, mean: Floats, demand: Floats, random_state: NDArray[np.uint64]
    ) -> Whole:
        """Return the initial contents of rows (rows x active items): ``mean`` (the same shape) rounded at random, as
        far as demand, capacity and caps allow. ``mean`` must be 0 for an item that is closed to the row's offer:
        this is not checked again."""
        counts = np.empty(mean.shape, np.int64)
        held = [np.ascontiguousarray(one) for one in (offers, active, mean, demand)]
        self._seed(
            ctypes.byref(self._laid),
            *map(ctypes.c_longlong, counts.shape),
            *map(ctypes.c_void_p, map(_address, (*held, random_state, counts))),
            ctypes.c_void_p(self._fixed[1]),
        )
        return counts

    def repack(
        self, plan: "KernelNodes", worth: Floats, fill_worth: Floats, turns: int, slack: float = 0.0
    ) -> tuple[float, float]:
        """Empty a few nodes and pack their pods again, ``turns`` times.

        A result that is not more expensive is kept, and at random one that is more expensive by less than ``slack``
        ($/h). ``fill_worth`` is what items are worth while some nodes are filled. Returns the reduction of the price in
        $/h, and the work in cells of ``fill``.
        """
        nodes, cells = ctypes.c_longlong(plan.number), ctypes.c_double(0.0)
        worth, fill_worth = np.ascontiguousarray(worth), np.ascontiguousarray(fill_worth)
        saved = self._repack(
            ctypes.byref(self._laid),
            ctypes.byref(nodes),
            ctypes.c_longlong(len(plan.offer)),
            *map(ctypes.c_void_p, map(_address, (plan.offer, plan.counts, plan.loss, worth, fill_worth))),
            ctypes.c_longlong(turns),
            ctypes.c_double(slack),
            ctypes.c_void_p(_address(plan.random_state)),
            *map(ctypes.c_void_p, self._fixed),
            ctypes.byref(cells),
        )
        plan.number = nodes.value
        return float(saved), float(cells.value)

    def best_nodes(
        self,
        offer: int,
        active: Whole,
        demand: Floats,
        worth: Floats,
        *,
        rates: Floats,
        enough: float,
        patience: int,
        kept: int,
    ) -> "NodeSearchResult":
        """Return the pods with the highest total worth on one node of this offer, if they are worth more than
        ``enough``.

        ``rates`` are prices of resources, of which the first MOST_VIEWS rows count: the better they fit, the
        shorter the search. ``demand`` and ``worth`` are of the active items.
        """
        counts, found, proven = np.zeros((kept, len(active)), np.int64), ctypes.c_longlong(0), ctypes.c_double(0.0)
        held = [np.ascontiguousarray(one) for one in (active, demand, worth, rates[:MOST_VIEWS])]
        steps = self._best_node(
            ctypes.byref(self._laid),
            *map(ctypes.c_longlong, (offer, len(active))),
            *map(ctypes.c_void_p, map(_address, held)),
            ctypes.c_longlong(len(held[-1])),
            ctypes.c_double(enough),
            ctypes.c_longlong(patience),
            ctypes.c_void_p(_address(counts)),
            ctypes.c_longlong(kept),
            ctypes.byref(found),
            ctypes.byref(proven),
            *map(ctypes.c_void_p, map(_address, self._tried)),
        )
        return NodeSearchResult(counts[: found.value], proven.value, steps)


@dataclass(frozen=True, slots=True, eq=False)
class NodeSearchResult:
    """The result of ``best_nodes``. ``counts``: rows with the number of each active item, each worth more than
    ``enough``, including the best one. No node is worth more than ``proven`` (or than ``enough``). ``steps`` is the
    number of steps used."""

    counts: Whole
    proven: float
    steps: int


@dataclass(slots=True)
class KernelNodes:
    """A plan that is being changed, node by node, with memory for more nodes: the offer, the number of each item, and
    the price less the worth of the pods. Only the first ``number`` nodes count. ``random_state`` is the state of the
    random generator: one number, never 0."""

    number: int
    offer: Whole
    counts: Whole
    loss: Floats
    random_state: NDArray[np.uint64]

    def copy(self) -> "KernelNodes":
        """Return a copy of the current plan."""
        return KernelNodes(
            self.number, self.offer.copy(), self.counts.copy(), self.loss.copy(), self.random_state.copy()
        )


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])
