"""Pictures of a report as SVG text, drawn by matplotlib (extra `report`) from a report's plain data.

No text of the user's rows is drawn. Colours are placeholders that become CSS variables of the page, so that
one picture serves light and dark.
"""

from __future__ import annotations

import io
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import import_extra
from pytest_longctx.report.axes import decorate, label_line, percent, tokens, window_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.figure import Figure

Data = dict[str, Any]
WIDTH = 4.8  # inches at 72 points: a phone shows it nearly in full size, a desk one and a half times
INK, MUTED, LINE, CARD = "#0b0c01", "#0b0c02", "#0b0c03", "#0b0c04"
FIRST, SECOND, BAD, SOFT = "#0b0c05", "#0b0c06", "#0b0c07", "#0b0c08"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    CARD: "--card",
    FIRST: "--first",
    SECOND: "--second",
    BAD: "--bad",
    SOFT: "--soft",
}
SETTINGS = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
}


def pictures(evidence: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    """(title, what it shows, SVG) of every picture that the evidence allows.

    Args:
        evidence: a contract's `evidence` in the JSON report.
        prefix: makes the ids inside the SVG unique within the page.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    matplotlib = import_extra("matplotlib", "report", "the pictures of the HTML report")
    for name, (title, draw, alike) in PICTURES.items():
        data = evidence.get(name.partition(" ")[0])
        if not data or not alike(data):
            continue
        with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": f"{prefix}{name}"}):
            caption, figure = draw(data)
            yield title, caption, _svg(figure, f"{prefix}{name.replace(' ', '-')}", f"{title}: {caption}")


def _figure(height: float, rows: int = 1, **keywords: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, 1, **keywords)


def _svg(figure: Figure, prefix: str, label: str) -> str:
    """The figure as an element for inside a page."""
    from xml.sax.saxutils import quoteattr

    stream = io.StringIO()
    figure.savefig(
        stream, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None}
    )
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{prefix}-", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", text, count=1)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text.replace("<svg ", f'<svg role="img" aria-label={quoteattr(label)} ', 1).strip()


def lengths(data: Data) -> tuple[str, Figure]:
    """Samples by length, with the window and the thresholds."""
    figure, axes = _figure(3.0)
    edges, counts = data["edges"], data["counts"]
    axes.bar(edges[:-1], counts, width=_widths(edges), align="edge", color=FIRST, linewidth=0)
    marks = {name: data[key] for name, key in _MARKS.items() if data[key]}
    window_axis(
        axes, min(edges[0], *marks.values()) if marks else edges[0], max(edges[-1], *marks.values(), 1)
    )
    top = max(counts) * 1.34
    axes.set_ylim(0, top)
    for row, (name, place) in enumerate(marks.items()):
        label_line(axes, place, f"{name} {tokens(place)}", INK if name == "window" else MUTED, row)
    decorate(axes, "tokens in a sample", "samples", LINE)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    spread = f"half of the samples have up to {data['p50']:,} tokens, 95 % up to {data['p95']:,}"
    return f"{spread}; the longest has {data['longest']:,}", figure


_MARKS = {"window": "window", "short": "short_threshold", "long": "long_threshold"}


def _widths(edges: list[int]) -> list[float]:
    return [0.94 * (after - before) for before, after in pairwise(edges)]


def what_if(data: Data) -> tuple[str, Figure]:
    """Kept supervision and overflow against window size."""
    figure, (upper, lower) = _figure(3.4, 2, sharex=True)
    curve, limits = data["curve"], data["limits"]
    windows = curve["windows"]
    for axes, name, limit, colour in (
        (upper, "kept_supervision_ratio", limits.get("min_kept_supervision_ratio"), FIRST),
        (lower, "overflow_ratio", limits.get("max_overflow_ratio"), SECOND),
    ):
        axes.plot(windows, curve[name], color=colour, linewidth=1.8, solid_capstyle="round")
        axes.set_ylim(-0.04, 1.06)
        axes.yaxis.set_major_formatter(lambda value, _: percent(value))
        decorate(axes, "", "", LINE)
        axes.set_title(_CURVES[name], loc="left", fontsize=10, color=colour, pad=4)
        if limit is not None:
            axes.axhline(limit, color=colour, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.axvline(data["window"], color=INK, linewidth=1.2)
    passing = data["smallest_passing"]
    window_axis(lower, windows[0], windows[-1])
    if passing is not None and passing != data["window"]:
        for axes in (upper, lower):
            axes.axvline(
                passing, color=BAD if passing > data["window"] else MUTED, linewidth=1.2, linestyle="--"
            )
    lower.set_xlabel("window in tokens")
    return _what_if_caption(data), figure


_CURVES = {"kept_supervision_ratio": "supervised tokens kept", "overflow_ratio": "samples that overflow"}


def _what_if_caption(data: Data) -> str:
    window, passing = data["window"], data["smallest_passing"]
    kept, limits = data["kept_supervision_ratio"], bool(data["limits"])
    here = f"line: the contract's window of {window:,}, {percent(kept)} of the supervised tokens kept"
    if passing is None:
        return f"{here}{'; no window meets the limits' if limits else ''}"
    if passing == window:
        return f"{here}; no smaller window meets the limits"
    return f"{here}; dashed: the smallest window in which the limits hold, {passing:,}"


def occupancy(data: Data) -> tuple[str, Figure]:
    """Packed rows by how full they are."""
    figure, axes = _figure(2.8)
    counts = data["occupancy"]
    axes.bar([5 * step for step in range(20)], counts, width=4.6, align="edge", color=FIRST, linewidth=0)
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    decorate(axes, f"tokens in a row / {data['capacity']:,}", "packed rows", LINE)
    filled = percent(data["utilization"])
    return f"{data['rows']:,} rows of at most {data['capacity']:,} tokens are {filled} full", figure


def mask(data: Data) -> tuple[str, Figure]:
    """One packed row: which token may see which."""
    figure, axes = _figure(3.3)
    width, segments = data["example"]["width"], data["example"]["segments"]
    axes.fill([0, 0, width], [0, width, width], color=SOFT, linewidth=0)
    for number, segment in enumerate(segments):
        start, end = segment["start"], segment["end"]
        colour = FIRST if number % 2 == 0 else SECOND
        axes.fill([start, start, end], [start, end, end], color=colour, linewidth=0)
        axes.fill(
            [start, end, end, start], [-width * 0.05] * 2 + [-width * 0.015] * 2, color=colour, linewidth=0
        )
    axes.set_xlim(0, width)
    axes.set_ylim(width, -width * 0.06)
    axes.set_aspect("equal")
    decorate(axes, "token seen", "token that looks", "none")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(_quarters(width))
        axis.set_major_formatter(lambda value, _: tokens(int(value)))
    many = "1 segment" if len(segments) == 1 else f"{len(segments)} segments"
    return (
        f"row {data['example']['row']:,} holds {many}; pale: what a plain causal mask would let be seen",
        figure,
    )


def _quarters(width: int) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator([0, width // 4, width // 2, 3 * width // 4, width])


def curriculum(data: Data) -> tuple[str, Figure]:
    """Scores of the stages."""
    figure, axes = _figure(2.4)
    stages = data["stages"]
    places = range(len(stages))
    for name, colour in (("long_context_score", FIRST), ("short_context_score", SECOND)):
        values = [stage[name] for stage in stages]
        axes.plot(places, values, color=colour, marker="o", markersize=5, linewidth=1.8)
        axes.annotate(
            name.split("_")[0], (places[-1], values[-1]), (8, -3), textcoords="offset points", color=colour
        )
    axes.set_xticks(list(places), [tokens(stage["target_context_len"] or 0) for stage in stages])
    axes.margins(x=0.16)
    decorate(axes, "window of the stage", "score", LINE)
    number = len(stages) - 1  # the first is the baseline
    many = "1 stage" if number == 1 else f"{number} stages, each"
    return f"{many} compared with the one before it; the first point is the baseline", figure


def gpu(data: Data) -> tuple[str, Figure]:
    """Step time and peak memory against sequence length."""
    figure, (upper, lower) = _figure(3.3, 2, sharex=True)
    for axes, name, title, colour in (
        (upper, "step_ms", "median step time, ms", FIRST),
        (lower, "peak_memory_gb", "peak memory, GB", SECOND),
    ):
        axes.plot(data["lengths"], data[name], color=colour, marker="o", markersize=4, linewidth=1.8)
        axes.set_ylim(bottom=0)
        decorate(axes, "", "", LINE)
        axes.set_title(title, loc="left", fontsize=10, color=colour, pad=4)
    window_axis(lower, data["lengths"][0], data["lengths"][-1])
    lower.set_xlabel("sequence length in tokens")
    return f"measured at {len(data['lengths'])} lengths", figure


def _has(*names: str) -> Callable[[Data], bool]:
    return lambda data: all(data.get(name) for name in names)


# The first word is the part of the evidence that the picture shows.
PICTURES: dict[str, tuple[str, Callable[[Data], tuple[str, Figure]], Callable[[Data], bool]]] = {
    "lengths": ("Lengths", lengths, _has("counts")),
    "window": ("What another window would do", what_if, _has("curve")),
    "packing rows": ("How full the packed rows are", occupancy, _has("occupancy")),
    "packing mask": ("Attention in one packed row", mask, _has("example")),
    "curriculum": ("Curriculum", curriculum, _has("stages")),
    "gpu": ("Length curve on the GPU", gpu, _has("lengths", "step_ms", "peak_memory_gb")),
}
