"""What a packer did, beside both reference packers and the fewest rows that are possible."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pytest_longctx.packing.bounds import minimum_rows
from pytest_longctx.packing.reference import best_fit_decreasing, first_fit_decreasing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from pytest_longctx.packing.reference import Packing

FIRST_FIT, BEST_FIT = "first-fit decreasing", "best-fit decreasing"


@dataclass(frozen=True)
class Comparison:
    """Rows of a packer beside those of the references over the same samples.

    rows: the packer's. first_fit: those of first-fit decreasing. fewest: the lower bound L2 of Martello and
    Toth for whole samples. exactly: the references that put the same samples together, row for row; None
    where it cannot be told, since samples were split or rows run together. in_order: whether the rows of the
    first of these also come in the order in which it opens them.
    """

    rows: int
    first_fit: int
    fewest: int
    exactly: tuple[str, ...] | None = None
    in_order: bool = False

    @property
    def packer(self) -> str:
        """What kind of packer it is: `exactly first-fit decreasing`, `uses 3 rows more than …`."""
        if self.exactly:
            order = "" if self.in_order else ", rows in another order"
            return f"exactly {' and '.join(self.exactly)}{order}"
        more = self.rows - self.first_fit
        if more == 0:
            return f"uses as many rows as {FIRST_FIT}{', filled otherwise' * (self.exactly is not None)}"
        return f"uses {_rows(abs(more))} {'more' if more > 0 else 'fewer'} than {FIRST_FIT}"

    @property
    def certificate(self) -> str:
        """How near to the fewest rows: `optimal`, or `within 3 rows of optimal`."""
        beyond = self.rows - self.fewest
        if beyond < 0:
            return "below what whole samples need"
        return "optimal" if beyond == 0 else f"within {_rows(beyond)} of optimal"


def _rows(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


def compare(
    rows: int,
    packed_row: NDArray[np.int32],
    lengths: NDArray[np.int64],
    capacity: int,
    same: Callable[[], NDArray[np.int64]],
    *,
    whole: bool,
) -> Comparison:
    """Compare what a packer did with both references.

    *Exactly* means: each row holds the samples that a row of the reference holds, no others, with ties by
    input order; the order of samples within a row is not looked at. That of the rows is told apart, since
    trainers shuffle them. Samples of equal tokens stand for each other: nobody can tell which is which.

    Args:
        rows: packed rows that came.
        packed_row: int32[n], the row of each sample.
        lengths: int64[n] tokens of each sample, from 1 to `capacity`.
        same: int64[n], one number for all samples of equal tokens; asked for only where it matters.
        whole: whether each sample lies whole in one row, and `packed_row` numbers these rows.
    """
    first_fit = first_fit_decreasing(lengths, capacity)
    fewest = minimum_rows(lengths, capacity)
    if not whole:
        return Comparison(rows, first_fit.count, fewest)
    references = {FIRST_FIT: first_fit, BEST_FIT: best_fit_decreasing(lengths, capacity)}
    exactly = [name for name, packing in references.items() if _alike(packed_row, packing, same)]
    in_order = bool(exactly) and _in_order(packed_row, references[exactly[0]].bins, same)
    return Comparison(rows, first_fit.count, fewest, tuple(exactly), in_order)


def _alike(packed_row: NDArray[np.int32], packing: Packing, same: Callable[[], NDArray[np.int64]]) -> bool:
    """Whether both put the same samples together."""
    if len(np.unique(packed_row)) != packing.count:
        return False
    pairs = np.unique(packed_row.astype(np.int64) * packing.count + packing.bins)
    if len(pairs) == packing.count:
        return True
    kinds = same()
    if len(np.unique(kinds)) == len(kinds):
        return False
    return Counter(_contents(packed_row, kinds)) == Counter(_contents(packing.bins, kinds))


def _in_order(
    packed_row: NDArray[np.int32], bins: NDArray[np.int32], same: Callable[[], NDArray[np.int64]]
) -> bool:
    if np.array_equal(packed_row, bins):
        return True
    kinds = same()
    return all(
        ours == theirs
        for ours, theirs in zip(_contents(packed_row, kinds), _contents(bins, kinds), strict=True)
    )


def _contents(bins: NDArray[np.int32], kinds: NDArray[np.int64]) -> Iterator[bytes]:
    """What each row holds, as bytes, row after row."""
    order = np.lexsort((kinds, bins))
    edges = np.flatnonzero(np.diff(bins[order], prepend=-1, append=-1))
    held = kinds[order]
    return (held[start:stop].tobytes() for start, stop in pairwise(edges.tolist()))
