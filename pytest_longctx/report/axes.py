"""How the axes of all pictures look, and how numbers are written on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 7


def tokens(count: float) -> str:
    """`512`, `4k`, `1.5k`, `1M`: 1k is 1,024 tokens, as windows are named; other counts keep their digits."""
    whole = int(count)
    for size, sign in ((1 << 20, "M"), (1 << 10, "k")):
        if whole >= size and whole * 2 % size == 0:
            return f"{whole / size:g}{sign}"
    return f"{whole:,}"


def percent(ratio: float) -> str:
    """`96.7 %`."""
    return f"{round(100 * ratio, 1):g} %"


def window_axis(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis of tokens with ticks at powers of two."""
    from matplotlib.ticker import FixedLocator, NullLocator

    first, last = math.ceil(math.log2(max(1, low))), math.floor(math.log2(max(2, high)))
    step = max(1, math.ceil((last - first + 1) / _SHOWN))
    axes.set_xscale("log", base=2)
    axes.set_xlim(max(0.9, low * 0.97), high * 1.03)
    axes.xaxis.set_major_locator(FixedLocator([2.0**power for power in range(first, last + 1, step)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: tokens(value))


def decorate(axes: Axes, x: str, y: str, line: str) -> None:
    """Only a base line, and pale lines at the ticks of y."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_axisbelow(True)
    if line != "none":
        axes.grid(axis="y", color=line, linewidth=0.8)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def label_line(axes: Axes, x: float, text: str, colour: str, row: int) -> None:
    """A vertical line with its name at the top, on the side where there is room; the first is drawn through.

    Args:
        row: names of other lines stand in other rows, so that they never run into each other.
    """
    axes.axvline(x, color=colour, linewidth=0.9 if row else 1.3, linestyle=(0, (2, 2)) if row else "-")
    low, high = axes.get_xlim()
    left = x > low and math.log(x / low) / math.log(high / low) > 0.6
    name = axes.annotate(
        text,
        (x, 1.0 - 0.085 * row),
        (-4 if left else 4, -2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        fontsize=9,
        color=colour,
    )
    name.set_in_layout(False)
