"""The compiled form of the search's innermost loops (``fill.c``), where there is one for this machine.

Three small libraries lie beside it, for Linux on arm64 and on x86-64, there with AVX2 as well, which every x86
processor of Lambda has. They call nothing and know nothing of Python, so any version of it loads them, and all of them
answer the same, to the bit. Elsewhere ``best`` answers None and the same loop runs in numpy: slower, so that less is
found in a second, but as right.
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

FOLDER: Final = __path__[0]
PROCESSORS: Final = {"x86_64": "x86_64", "avx2-x86_64": "x86_64_v3", "aarch64": "generic"}
"""The processors that libraries are made for, by what their names end in: what the compiler calls them."""
MOST_RESOURCES: Final = 64
MOST_MADE: Final = 24
MOST_VIEWS: Final = 6
"""All as in ``fill.c``."""


def library_path(machine: str) -> str:
    """Where the library for these processors lies."""
    return f"{FOLDER}/fill-{machine}.so"


def supported_processors() -> tuple[str, ...]:
    """For which processors a library can run here, the best first."""
    machine = platform.machine()
    plain = load_library(machine)
    if plain is None:
        return ()
    return ("avx2-x86_64", machine) if plain.has_avx2() and load_library("avx2-x86_64") else (machine,)


@cache
def load_library(machine: str) -> "ctypes.CDLL | None":
    """The library for these processors, if there is one that can be loaded here."""
    if sys.platform != "linux" or sys.byteorder != "little" or machine not in PROCESSORS:
        return None
    try:
        return ctypes.CDLL(library_path(machine))
    except OSError:
        return None


@cache
def best_library() -> "ctypes.CDLL | None":
    """The library that is the fastest here."""
    return next(map(load_library, supported_processors()), None)


def source_digest(library: ctypes.CDLL) -> str:
    """Of the source that a library was compiled from (sha256)."""
    return (ctypes.c_char * 64).in_dll(library, "source").value.decode()


class ProblemStruct(ctypes.Structure):
    """``struct problem`` of ``fill.c``."""

    _fields_ = (
        *((name, ctypes.c_longlong) for name in ("items", "resources", "caps", "width", "offers")),
        *(
            (name, ctypes.c_void_p)
            for name in ("room", "open", "need", "most", "rules", "part", "limit", "price", "domain")
        ),
    )


class Kernel:
    """One problem laid out for the compiled loop, with room for it to write on: O offers, K items, R resources, C
    caps.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        room: Floats,
        open_to: Marks,
        need: Floats,
        most: Floats,
        rules: Whole,
        part: NDArray[np.uint8],
        caps: Whole,
        price: Floats,
        domain: Whole,
    ) -> None:
        self._fill, self._seed, self._repack, self._dearest = (
            library.fill,
            library.seed,
            library.repack,
            library.dearest,
        )
        self._repack.restype, self._dearest.restype = ctypes.c_double, ctypes.c_longlong
        self._kept = [
            np.ascontiguousarray(one) for one in (room, open_to, need, most, rules, part, caps, price, domain)
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
        tilt: Floats | None,
        counts: Whole,
    ) -> None:
        """Fills rows in place (``counts``: rows x active items, at first what they hold already). ``demand`` and
        ``worth`` are of the active items, for all rows or by row; ``share`` is by row, ``tilt`` by row and resource.
        """
        held = [
            np.ascontiguousarray(offers),
            np.ascontiguousarray(active),
            np.ascontiguousarray(demand),
            np.ascontiguousarray(worth),
        ]
        share = np.ascontiguousarray(share)
        lean = None if tilt is None else np.ascontiguousarray(tilt)
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

    def seed(self, offers: Whole, active: Whole, mean: Floats, demand: Floats, dice: NDArray[np.uint64]) -> Whole:
        """What rows begin with (rows x active items): ``mean`` (the same shape) rounded at random, as far as demand,
        room and caps allow. ``mean`` is 0 where an item is closed to the row's offer: that is not asked again.
        """
        counts = np.empty(mean.shape, np.int64)
        held = [np.ascontiguousarray(one) for one in (offers, active, mean, demand)]
        self._seed(
            ctypes.byref(self._laid),
            *map(ctypes.c_longlong, counts.shape),
            *map(ctypes.c_void_p, map(_address, (*held, dice, counts))),
            ctypes.c_void_p(self._fixed[1]),
        )
        return counts

    def repack(
        self, plan: "KernelNodes", worth: Floats, lure: Floats, turns: int, slack: float = 0.0
    ) -> tuple[float, float]:
        """Empty a few nodes and pack their pods again, ``turns`` times; a result that is not more expensive stays, and
        at random one that is more expensive by less than ``slack`` ($/h). ``lure`` is what items are worth while some
        nodes are filled. Returns what was saved in $/h, and the work in cells of ``fill``.
        """
        nodes, cells = ctypes.c_longlong(plan.number), ctypes.c_double(0.0)
        worth, lure = np.ascontiguousarray(worth), np.ascontiguousarray(lure)
        saved = self._repack(
            ctypes.byref(self._laid),
            ctypes.byref(nodes),
            ctypes.c_longlong(len(plan.offer)),
            *map(ctypes.c_void_p, map(_address, (plan.offer, plan.counts, plan.loss, worth, lure))),
            ctypes.c_longlong(turns),
            ctypes.c_double(slack),
            ctypes.c_void_p(_address(plan.dice)),
            *map(ctypes.c_void_p, self._fixed),
            ctypes.byref(cells),
        )
        plan.number = nodes.value
        return float(saved), float(cells.value)

    def dearest(
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
        """The pods that are worth most on one node of this offer, if they are worth more than ``enough``. ``rates`` are
        prices of resources, of which the first MOST_VIEWS rows count: the better they fit, the less has to be tried.
        ``demand`` and ``worth`` are of the active items.
        """
        counts, found, proven = np.zeros((kept, len(active)), np.int64), ctypes.c_longlong(0), ctypes.c_double(0.0)
        held = [np.ascontiguousarray(one) for one in (active, demand, worth, rates[:MOST_VIEWS])]
        steps = self._dearest(
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
    """``counts``: rows of how many of each active item, each worth more than enough, the best among them. No node is
    worth more than ``proven`` (or than enough). It took so many ``steps``.
    """

    counts: Whole
    proven: float
    steps: int


@dataclass(slots=True)
class KernelNodes:
    """A plan that is being changed, node by node, with room for more of them: the offer, how many of each item, price
    less the worth of its pods. The first ``number`` count. ``dice`` is one number, never 0.
    """

    number: int
    offer: Whole
    counts: Whole
    loss: Floats
    dice: NDArray[np.uint64]

    def copy(self) -> "KernelNodes":
        """As it is now."""
        return KernelNodes(self.number, self.offer.copy(), self.counts.copy(), self.loss.copy(), self.dice.copy())


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])
