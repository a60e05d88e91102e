"""Draw a model: one box for each call of a layer, data from top to bottom, shared weights in one colour."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Ellipse, FancyBboxPatch, Patch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path as Outline
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from autograder.graph.drawing import TIMES, Backward, Box, Drawing, Link, describe, sketch
from autograder.graph.layout import Layout, Point, Route, arrange
from autograder.graph.model import Graph

if TYPE_CHECKING:
    from autograder.graph.trace import Trace

__all__ = ["Picture", "describe", "draw", "drawing_of", "paint"]

# All lengths are CSS pixels, 96 to the inch, as a notebook shows them.
_INCH = 96
_SHARP = 2
"""Dots to a pixel, for screens that have them."""
_WIDTH = 860
"""What JupyterLab has for an output in a window of ordinary width."""
_HEIGHT = 560
"""A drawing that is higher is set in columns."""
_EDGE = 12
_PAD = 10
_LINE = 15.5
_FONT = 9.5
_TITLE = 11
_FRAME = 14
_ACROSS = 84
"""Room between the model and what is not in it."""
_ASIDE = 20
"""Room at the left for lines between boxes with the same weights."""
_DASHES: dict[str, Any] = {
    "tensor": "-",
    "value": (0, (4, 2)),
    "once": (0, (1.2, 1.6)),
}
_BACK = 7
"""How far the way back of a gradient is from the way forwards."""
_BADGE = 17
_FADED = 0.22
_NOT_IN = "Not in the model"

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
_BLACK, _GREY, _PALE = "#000000", "#6b6b6b", "#c4c4c4"
_BLUE, _SKY, _GREEN = "#0072B2", "#56B4E9", "#009E73"
_ORANGE, _VERMILLION, _PURPLE, _YELLOW = "#E69F00", "#D55E00", "#CC79A7", "#F0E442"
_BANDS = (_ORANGE, _GREEN, _PURPLE, _YELLOW, _SKY)
_OWNS, _PLAIN, _INPUT, _UNREACHED = "#e4f1fa", "#ffffff", "#f0f0f0", "#fbe6db"


class Picture(Figure):
    """A figure that shows itself in a notebook, sharp and with its content in words as alternative text.

    It belongs to no window, so it need not be closed.
    """

    alternative: str = ""
    """The content in words."""

    def savefig(self, fname: Any, **options: Any) -> None:
        """As `matplotlib.figure.Figure.savefig`; a PNG or SVG gets the content in words as its description."""
        suffix = Path(fname).suffix if isinstance(fname, str | os.PathLike) else ""
        kind = str(options.get("format") or suffix).lower().removeprefix(".")
        if kind in ("png", "svg"):
            options["metadata"] = {"Description": self.alternative, **(options.get("metadata") or {})}
        super().savefig(fname, **options)

    def png(self) -> bytes:
        """The picture as a PNG file, small and sharp, for a notebook."""
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        small = BytesIO()
        # There are only a few colours in it, so a palette loses nothing and saves three quarters.
        with Image.open(buffer) as picture:
            palette = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
        about = PngInfo()
        about.add_itxt("Description", self.alternative)
        palette.save(small, "PNG", optimize=True, pnginfo=about)
        return small.getvalue()

    def html(self) -> str:
        """The picture as HTML, its content in words as alternative text."""
        png = b64encode(self.png()).decode("ascii")
        width = round(self.get_figwidth() * _INCH)
        # Never shrunk until nobody can read it: what is wider than the page is scrolled.
        return (
            f'<div style="overflow-x:auto"><img width="{width}" style="width:{width}px;max-width:none" '
            f'alt="{escape(self.alternative)}" src="data:image/png;base64,{png}"></div>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            "text/html": self.html(),
            "image/png": b64encode(self.png()).decode("ascii"),
            "text/plain": self.alternative,
        }


def draw(
    model_or_graph: Any,
    *,
    gradients: bool = False,
    target: Any = None,
    beside: Iterable[Any] = (),
    loss: Any = None,
    data: Any = None,
) -> Picture:
    """Draw which calls a model consists of, what is shared, and what is baked in.

    Args:
        model_or_graph: a Keras model, or what `trace` gave.
        gradients: draw the backward pass too: which variables a gradient reaches, and where it ends.
        target: a second model or graph, drawn beside the first one, with what differs marked in both.
        beside: layers and variables that are not in the model, to be shown beside it.
        loss: for the gradients. Default: the one that the model was compiled with, else a mean of the outputs.
        data: for the gradients: inputs, or a pair (inputs, targets). Default: made from the model's inputs.

    Returns:
        A figure. As the last value of a notebook's cell it shows itself; `savefig` writes it into a file.

    Raises:
        TypeError: no model and no graph; or a graph where a live model is needed.
        ValueError: too large a model for a picture, or something beside it that is in it.
        ProbeError: the model does not run on the data, so there are no gradients to show.
    """
    panels = [drawing_of(model_or_graph, gradients=gradients, beside=beside, loss=loss, data=data)]
    if target is None:
        return paint(panels)
    panels.append(drawing_of(target, gradients=gradients, loss=loss, data=data))
    return paint(_marked(panels, model_or_graph, target), captions=("yours", "target"))


def _marked(panels: list[Drawing], mine: Any, theirs: Any) -> list[Drawing]:
    """The two drawings, with a mark on each call that a comparison finds different."""
    from autograder.graph.compare import compare

    try:
        differences = compare(mine, theirs).differences
    except ValueError:  # one of the two has no record of its calls, so there is nothing to mark
        return panels
    places = (
        {place for difference in differences for place in difference.calls},
        {place for difference in differences for place in difference.reference_calls},
    )
    return [
        replace(
            drawing,
            boxes=tuple(
                _with_mark(box, {f"call {at}" for owner, at in some if owner == -1}) for box in drawing.boxes
            ),
        )
        for drawing, some in zip(panels, places, strict=True)
    ]


def _with_mark(box: Box, differing: Collection[str]) -> Box:
    if box.key not in differing:
        return box
    return replace(box, lines=(*box.lines, "✕ differs"), differs=True)


def paint(
    drawings: Sequence[Drawing],
    *,
    captions: Sequence[str] = (),
    faded: Collection[str] = (),
    current: str | None = None,
) -> Picture:
    """Make a figure of one drawing, or of several side by side.

    Args:
        drawings: what to show.
        captions: a word above each.
        faded: keys of boxes to draw pale.
        current: the key of a box to stand out.
    """
    width = (_WIDTH - _FRAME * 2 * (len(drawings) - 1)) / len(drawings) - 2 * _EDGE
    panels = [_Panel(drawing, width) for drawing in drawings]
    top = _EDGE + (_LINE * 1.5 if captions else 0)
    across = sum(panel.width for panel in panels) + 2 * _EDGE + 2 * _FRAME * (len(panels) - 1)
    down = top + max(panel.height for panel in panels) + _EDGE
    # The Agg backend makes pictures of fewer than 2**16 dots a side.
    dots = min(_INCH * _SHARP, int(_INCH * 65_000 / max(across, down)))
    figure = Picture(figsize=(across / _INCH, down / _INCH), dpi=dots, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, across)
    axes.set_ylim(down, 0)
    axes.set_axis_off()

    left = float(_EDGE)
    for index, panel in enumerate(panels):
        if captions:
            axes.text(
                left, _EDGE + _LINE / 2, captions[index], font=_font("caption"), color=_BLUE, va="center"
            )
        painter = _Painter(axes, f"{captions[index]}/" if captions else "", frozenset(faded), current)
        panel.paint(painter, left, top)
        left += panel.width + 2 * _FRAME
        if index + 1 < len(panels):
            axes.plot([left - _FRAME] * 2, [_EDGE, down - _EDGE], color=_PALE, linewidth=1)
    words = [describe(drawing) for drawing in drawings]
    if captions:
        words = [f"{caption}:\n{word}" for caption, word in zip(captions, words, strict=True)]
    figure.alternative = "\n\n".join(words)
    return figure


# Live models ---------------------------------------------------------------------------------------------------


def drawing_of(
    model_or_graph: Any,
    *,
    gradients: bool = False,
    beside: Iterable[Any] = (),
    loss: Any = None,
    data: Any = None,
) -> Drawing:
    """What a picture of a model or graph shows; arguments and errors as in `draw`."""
    beside = list(beside)
    if isinstance(model_or_graph, Graph):
        if gradients or beside:
            what = "gradients=True" if gradients else "beside=…"
            raise TypeError(f"{what} needs the model itself. Received: a graph.")
        return sketch(model_or_graph)
    from autograder.graph.beside import with_beside
    from autograder.graph.trace import read

    trace = read(model_or_graph, configs=False)
    drawing = sketch(trace.graph, _backward(trace, loss, data) if gradients else None)
    return with_beside(drawing, trace, beside) if beside else drawing


def _backward(trace: Trace, loss: Any, data: Any) -> Backward:
    from autograder.graph.gradient import probe
    from autograder.graph.passing import passing

    probed = probe(trace, loss=loss, data=data)
    return Backward(
        reached=frozenset(index for index, reach in enumerate(probed.reach) if reach != "none"),
        calls=frozenset(probed.reached_calls),
        passed=passing(trace, data=data),
        cut_by=dict(enumerate(probed.cut_by)),
        loss=probed.loss,
    )


# Measures ------------------------------------------------------------------------------------------------------


@cache
def _font(style: str) -> FontProperties:
    # Comes with matplotlib, so a picture has the same measures everywhere.
    size = _TITLE if style in ("heading", "caption") else _FONT
    weight = "normal" if style == "line" else "bold"
    return FontProperties(family="DejaVu Sans", size=size, weight=weight)


@cache
def _renderer() -> Any:
    # The canvas's own method has no types.
    canvas: Any = FigureCanvasAgg(Figure(dpi=_INCH * _SHARP))
    return canvas.get_renderer()


def _wide(text: str, style: str) -> float:
    """The width of a line of text."""
    return float(_renderer().get_text_width_height_descent(text, _font(style), False)[0]) / _SHARP


def _wrapped(text: str, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and _wide(longer, "line") > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines if text else []


def _style(line: str) -> str:
    return "strong" if line.startswith(("↳", "✕")) else "line"


class _Page:
    """Boxes of a drawing, measured and arranged."""

    def __init__(self, boxes: Sequence[Box], links: Sequence[Link], width: float, height: float) -> None:
        self.boxes = boxes
        self.links = links
        self.inside = {
            box.key: _Page(box.inside.boxes, box.inside.links, width - 2 * _FRAME, height)
            for box in boxes
            if box.inside
        }
        self.sizes = [self._size(box) for box in boxes]
        place = {box.key: index for index, box in enumerate(boxes)}
        ends = [(place[link.source], place[link.target]) for link in links]
        if links:
            self.layout = arrange(self.sizes, ends, width=width, height=height)
        else:
            self.layout = _listed(self.sizes, width)

    def _size(self, box: Box) -> tuple[float, float]:
        wide = max([_wide(box.title, "strong"), *(_wide(line, _style(line)) for line in box.lines)])
        wide = max(wide, 50.0) + 2 * _PAD + (_BADGE if box.band is not None else 0)
        high = _LINE * (1 + len(box.lines)) + _PAD
        inside = self.inside.get(box.key)
        if inside:
            return max(wide, inside.layout.width + 2 * _FRAME), high + inside.layout.height + _FRAME + _PAD
        if box.kind == "variable":  # an ellipse
            return wide * 1.28, high * 1.42
        if box.kind in ("constant", "input"):
            return wide + 18, high
        return wide, high


def _listed(sizes: Sequence[tuple[float, float]], width: float) -> Layout:
    """Boxes of which nobody knows how they hang together: line by line, as text runs."""
    centres: list[Point] = []
    x = y = line = across = 0.0
    for wide, high in sizes:
        if x and x + wide > width:
            x, y, line = 0.0, y + line + _FRAME, 0.0
        centres.append((x + wide / 2, y + high / 2))
        x += wide + _FRAME
        line = max(line, high)
        across = max(across, x - _FRAME)
    return Layout(across, y + line, tuple(centres), ())


class _Panel:
    """A drawing with its title, arranged."""

    def __init__(self, drawing: Drawing, width: float) -> None:
        self._drawing = drawing
        apart_links = [link for link in drawing.apart_links if link.target.startswith("apart")]
        self._apart = _Page(drawing.apart, apart_links, width / 2, _HEIGHT) if drawing.apart else None
        room = width
        if self._apart:
            room -= max(self._apart.layout.width, _wide(_NOT_IN, "strong")) + 4 * _FRAME + _ACROSS
        self._aside = _ASIDE if any(drawing.shared()) else 0
        self._model = _Page(drawing.boxes, drawing.links, room - self._aside, _HEIGHT)
        self._note = _wrapped(drawing.note, max(self._model.layout.width, 0.6 * width))
        self._head = _LINE * 1.7 + _LINE * len(self._note) + (_LINE * 0.3 if self._note else 0)
        self._over, self._apart_over = self._levels()

        layout = self._model.layout
        words = max([_wide(drawing.title, "heading"), *(_wide(line, "line") for line in self._note)])
        self.width = max(layout.width + self._aside, words)
        self.height = self._head + layout.height
        if self._apart:
            apart = self._apart.layout
            self._inner = max(layout.width + self._aside, words)
            self._side = max(apart.width, _wide(_NOT_IN, "strong"))
            self.width = self._inner + self._side + 4 * _FRAME + _ACROSS
            lowest = max(self._over + layout.height, self._apart_over + apart.height)
            self.height = self._head + lowest + 2 * _FRAME

    def _levels(self) -> tuple[float, float]:
        """How far the model and what is apart are moved down, so that a link between them runs level."""
        if not self._apart:
            return 0.0, 0.0
        model = {
            box.key: y for box, (_, y) in zip(self._model.boxes, self._model.layout.centres, strict=True)
        }
        apart = {
            box.key: y for box, (_, y) in zip(self._apart.boxes, self._apart.layout.centres, strict=True)
        }
        for link in self._drawing.apart_links:
            if link.target in model:
                lower = apart[link.source] - model[link.target]
                return max(lower, 0.0), max(-lower, 0.0)
        return 0.0, 0.0

    def paint(self, painter: _Painter, left: float, top: float) -> None:
        """Draw it, its upper left corner there."""
        inset = _FRAME if self._apart else 0
        painter.text(left + inset, top + _LINE * 0.6 + inset, self._drawing.title, "heading", "title")
        for index, line in enumerate(self._note):
            painter.text(left + inset, top + inset + _LINE * (1.7 + index), line, "line", "note")
        top += self._head + inset
        if not self._apart:
            painter.page(self._model, left + self._aside, top)
        else:
            bottom = top - self._head - inset + self.height
            painter.frame(left, top - self._head - inset, self._inner + 2 * _FRAME, bottom, dashed=False)
            painter.page(self._model, left + inset + self._aside, top + self._over)
            at = left + self._inner + 2 * _FRAME + _ACROSS
            painter.frame(at, top - self._head - inset, self._side + 2 * _FRAME, bottom, dashed=True)
            painter.text(at + inset, top - self._head + _LINE * 0.6, _NOT_IN, "strong", "apart")
            painter.page(self._apart, at + inset, top + self._apart_over)
            for link in self._drawing.apart_links:
                painter.across(link, at - _ACROSS / 2)
        for pair in self._drawing.shared():
            painter.shared(*pair)


# Painting ------------------------------------------------------------------------------------------------------


class _Painter:
    """Puts boxes, links and words on the axes of one figure."""

    def __init__(self, axes: Axes, prefix: str, faded: frozenset[str], current: str | None) -> None:
        self._axes = axes
        self._prefix = prefix
        self._faded = faded
        self._current = current
        self._placed: dict[str, _Placed] = {}
        self._levels: dict[str, float] = {}

    def text(
        self,
        x: float,
        y: float,
        words: str,
        style: str,
        name: str,
        *,
        middle: bool = False,
        pale: bool = False,
    ) -> None:
        """One line of text, its middle at height y."""
        text = self._axes.text(
            x,
            y,
            words,
            font=_font(style),
            color=_BLACK,
            ha="center" if middle else "left",
            va="center",
            alpha=_FADED if pale else 1.0,
            parse_math=False,
            zorder=100,
        )
        text.set_gid(f"{self._prefix}{name}")

    def frame(self, x: float, y: float, width: float, bottom: float, *, dashed: bool) -> None:
        """The edge of the model, or of what is not in it."""
        self._patch(
            FancyBboxPatch((x, y), width, bottom - y, boxstyle="round,pad=0,rounding_size=8"),
            face="#fafafa" if dashed else _PLAIN,
            edge=_VERMILLION if dashed else _BLUE,
            dashed=dashed,
            thick=1.6,
            level=0,
        )

    def page(self, page: _Page, left: float, top: float, level: float = 1.0) -> None:
        """Arranged boxes and their links."""
        for box, size, (x, y) in zip(page.boxes, page.sizes, page.layout.centres, strict=True):
            placed = _Placed(box, left + x, top + y, *size)
            self._placed[box.key] = placed
            self._levels[box.key] = level + 2
            self._box(placed, level + 2)
            inside = page.inside.get(box.key)
            if inside:
                head = placed.top + _PAD + _LINE * (1 + len(box.lines))
                self.page(inside, placed.x - inside.layout.width / 2, head + _PAD / 2, level + 2)
        for link, route in zip(page.links, page.layout.routes, strict=True):
            self._link(link, route, left, top, level)

    def shared(self, one: str, other: str) -> None:
        """A dotted line between two boxes with the same weights."""
        a, b = sorted((self._placed[one], self._placed[other]), key=lambda placed: placed.x)
        if a.right < b.left:
            reach = (b.left - a.right) / 2
            points = [(a.right, a.y), (a.right + reach, a.y), (b.left - reach, b.y), (b.left, b.y)]
        else:
            reach = min(a.left, b.left) - 26
            points = [(a.left, a.y), (reach, a.y), (reach, b.y), (b.left, b.y)]
        codes = [Outline.MOVETO, Outline.CURVE4, Outline.CURVE4, Outline.CURVE4]
        line = PathPatch(Outline(points, codes), fill=False, edgecolor=_band(a.box), linewidth=2.2)
        line.set_linestyle((0, (1, 1.2)))
        line.set_alpha(_FADED if {one, other} & self._faded else 1.0)
        line.set_zorder(min(self._levels[one], self._levels[other]) - 0.2)
        line.set_gid(f"{self._prefix}shared {one} {other}")
        self._axes.add_patch(line)

    def across(self, link: Link, middle: float) -> None:
        """A value that came into the model from outside, once."""
        source, target = self._placed[link.source], self._placed[link.target]
        if link.target.startswith("apart"):
            return  # drawn with its page
        start, end = (source.left, source.y), (target.right + 2, target.y)
        half = (start[0] - end[0]) / 2
        points = [start, (start[0] - half, start[1]), (end[0] + half, end[1]), (end[0] + 5, end[1])]
        codes = [Outline.MOVETO, Outline.CURVE4, Outline.CURVE4, Outline.CURVE4]
        pale = bool({link.source, link.target} & self._faded)
        alpha = _FADED if pale else 1.0
        self._line(Outline(points, codes), link, _VERMILLION, 5, alpha)
        self._head(end, "left", _VERMILLION, 5, alpha)
        self.text(
            middle,
            (start[1] + end[1]) / 2 - _LINE * 1.45,
            "its value,",
            "line",
            "across",
            middle=True,
            pale=pale,
        )
        self.text(
            middle, (start[1] + end[1]) / 2 - _LINE * 0.6, "once", "line", "across", middle=True, pale=pale
        )

    # Boxes -----------------------------------------------------------------------------------------------------

    def _box(self, placed: _Placed, level: float) -> None:
        box = placed.box
        pale = box.key in self._faded
        face, edge, thick = _colours(box)
        if box.key == self._current:
            edge, thick = _ORANGE, 4.0
        dashed = box.kind in ("constant", "variable", "apart") and box.band is None
        outline = self._patch(
            placed.outline(), face, edge, dashed=dashed, thick=thick, level=level, pale=pale
        )
        outline.set_gid(f"{self._prefix}{box.key}")
        if box.frozen:
            # Hatching has the colour of the edge, which would make the words hard to read.
            outline.set_edgecolor(_PALE)
            outline.set_hatch("///")
            self._patch(placed.outline(), "none", edge, thick=thick, level=level, pale=pale)
        shift = 0.0
        lines = [(box.title, "strong"), *((line, _style(line)) for line in box.lines)]
        high = _PAD + _LINE * len(lines)
        if box.band is not None and box.kind != "variable":
            shift = _BADGE / 2
            strip = Rectangle(
                (placed.left + 1, placed.top + 1), _BADGE - 1, (high if box.inside else placed.height) - 2
            )
            self._patch(strip, _band(box), "none", thick=0, level=level + 0.1, pale=pale)
            letter = chr(ord("A") + box.band % 26)
            middle = placed.top + high / 2 if box.inside else placed.y
            self.text(
                placed.left + _BADGE / 2, middle, letter, "strong", f"badge {box.key}", middle=True, pale=pale
            )
        y = placed.y - _LINE * (len(lines) - 1) / 2
        if box.inside:
            y = placed.top + _PAD / 2 + _LINE / 2
        for line, style in lines:
            self.text(placed.x + shift, y, line, style, f"words {box.key}", middle=True, pale=pale)
            y += _LINE

    def _patch(
        self,
        patch: Patch,
        face: str,
        edge: str,
        *,
        dashed: bool = False,
        thick: float = 1.0,
        level: float,
        pale: bool = False,
    ) -> Patch:
        patch.set_facecolor(face)
        patch.set_edgecolor(edge)
        patch.set_linewidth(thick)
        patch.set_linestyle((0, (4, 2.5)) if dashed else "-")
        patch.set_alpha(_FADED if pale else 1.0)
        patch.set_zorder(level)
        self._axes.add_patch(patch)
        return patch

    # Links -----------------------------------------------------------------------------------------------------

    def _link(self, link: Link, route: Route, left: float, top: float, level: float) -> None:
        pale = bool({link.source, link.target} & self._faded)
        colour = _VERMILLION if link.kind == "once" else _GREY
        alpha = _FADED if pale else 1.0
        end = (left + route.end[0], top + route.end[1])
        if link.backward:
            # Beside the way forwards, on the same side all along.
            line = _outline(route, left + _BACK, top, 0.0)
            back = PathPatch(line, fill=False, edgecolor=_ORANGE, linewidth=3)
            back.set_zorder(level + 0.5)
            back.set_gid(f"{self._prefix}back {link.source} {link.target}")
            self._axes.add_patch(back)
            tip = (left + _BACK + route.start[0], top + route.start[1])
            self._head(tip, "up", _ORANGE, level + 0.6, alpha, 9)
        self._line(_outline(route, left, top, 5.0), link, colour, level + 0.7, alpha)
        self._head(end, "down", colour, level + 0.7, alpha)
        if link.count > 1:
            # Beside the start, on the side that the link does not turn to.
            words, aside = f"{TIMES}{link.count}", 5.0
            if route.end[0] > route.start[0] + 1:
                aside = -5.0 - _wide(words, "line")
            x, y = left + route.start[0] + aside, top + route.start[1] + 9
            self.text(x, y, words, "line", f"count {link.source} {link.target}", pale=pale)

    def _line(self, outline: Outline, link: Link, colour: str, level: float, alpha: float = 1.0) -> None:
        line = PathPatch(outline, fill=False, edgecolor=colour, linewidth=1.3)
        line.set_linestyle(_DASHES[link.kind])
        line.set_alpha(alpha)
        line.set_zorder(level)
        line.set_gid(f"{self._prefix}link {link.source} {link.target}")
        self._axes.add_patch(line)

    def _head(
        self,
        tip: Point,
        towards: Literal["down", "up", "left"],
        colour: str,
        level: float,
        alpha: float,
        size: float = 6.5,
    ) -> None:
        x, y = tip
        half = size * 0.55
        corners = {
            "down": [(x, y), (x - half, y - size), (x + half, y - size)],
            "up": [(x, y), (x - half, y + size), (x + half, y + size)],
            "left": [(x, y), (x + size, y - half), (x + size, y + half)],
        }[towards]
        self._axes.add_patch(
            Polygon(corners, closed=True, facecolor=colour, edgecolor="none", alpha=alpha, zorder=level + 0.1)
        )


@dataclass(frozen=True, slots=True)
class _Placed:
    """A box with its middle and its size."""

    box: Box
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    def outline(self) -> Patch:
        """The shape, which tells kinds of boxes apart also without colours."""
        corner = (self.left, self.top)
        if self.box.kind == "variable":
            return Ellipse((self.x, self.y), self.width, self.height)
        if self.box.kind == "constant":
            tip, half = 12, self.height / 2
            right = self.left + self.width
            return Polygon(
                [
                    (self.left, self.y),
                    (self.left + tip, self.y - half),
                    (right - tip, self.y - half),
                    (right, self.y),
                    (right - tip, self.y + half),
                    (self.left + tip, self.y + half),
                ],
                closed=True,
            )
        round_by = self.height / 2 if self.box.kind == "input" else 4
        return FancyBboxPatch(
            corner, self.width, self.height, boxstyle=f"round,pad=0,rounding_size={round_by}"
        )


def _colours(box: Box) -> tuple[str, str, float]:
    """Face, edge and thickness of the edge."""
    face, edge, thick = _PLAIN, _GREY, 1.0
    if box.kind == "input":
        face = _INPUT
    elif box.kind == "variable":
        edge = _GREY if box.band is not None else _VERMILLION
    elif box.kind in ("constant", "apart"):
        edge = _VERMILLION
    elif box.inside:
        face, edge = "#fafafa", _BLUE
    elif box.owns:
        face, edge = _OWNS, _BLUE
    if box.band is not None and box.kind == "variable":
        edge, thick = _band(box), 2.4
    if box.reach == "none":
        face = _UNREACHED
    if box.output:
        thick = 2.4
    if box.cut or box.differs:
        edge, thick = _VERMILLION, 2.4
    return face, edge, thick


def _band(box: Box) -> str:
    return _BANDS[(box.band or 0) % len(_BANDS)]


def _outline(route: Route, left: float, top: float, short: float) -> Outline:
    """A route as a path, ended before the arrow's point; corners are rounded."""
    points: list[Point] = [(left + route.start[0], top + route.start[1])]
    codes = [Outline.MOVETO]
    strokes = route.strokes
    for index, stroke in enumerate(strokes):
        x, y = left + stroke.end[0], top + stroke.end[1]
        here = points[-1]
        if index == len(strokes) - 1:
            y -= short
        if stroke.kind == "curve":
            half = (here[1] + y) / 2
            points += [(here[0], half), (x, half), (x, y)]
            codes += [Outline.CURVE4] * 3
            continue
        following = strokes[index + 1] if index + 1 < len(strokes) else None
        turns = following is not None and following.kind == "line"
        if turns and following is not None:
            next_end = (left + following.end[0], top + following.end[1])
            points += [_towards((x, y), here), (x, y), _towards((x, y), next_end)]
            codes += [Outline.LINETO, Outline.CURVE3, Outline.CURVE3]
        else:
            points.append((x, y))
            codes.append(Outline.LINETO)
    return Outline(points, codes)


def _towards(corner: Point, other: Point, by: float = 6.0) -> Point:
    """The point near a corner in the direction of another point."""
    across, down = other[0] - corner[0], other[1] - corner[1]
    length = max(abs(across), abs(down))
    part = min(1.0, by / length) / (1 if length > 2 * by else 2) if length else 0.0
    return corner[0] + across * part, corner[1] + down * part
