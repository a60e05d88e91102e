"""Where the boxes of a layered drawing stand, and how the links between them run: geometry, no drawing.

Boxes are put into rows, each below all that lead to it, and ordered within a row by grandalf (Sugiyama's
method). A row that would be too wide becomes several. A long drawing is cut into columns where only one box
leads on, since a page has more room to the side than a notebook has downwards. Lengths are in any one unit,
with the origin at the top left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import networkx as nx
from grandalf.graphs import Edge, Vertex, graph_core
from grandalf.layouts import DummyVertex, SugiyamaLayout
from grandalf.layouts import Layer as Row

Point = tuple[float, float]
Size = tuple[float, float]

BESIDE = 22.0
"""Room between two boxes of one row."""
BELOW = 22.0
"""Room between two rows, where all links run straight down."""
SLANT = 36.0
"""Room between two rows, where a link runs to the side."""
LANE = 12.0
"""Room that a link takes which passes a row between its boxes."""
GUTTER = 46.0
"""Room between two columns."""
TURN = 18.0
"""Room that a link takes to leave a column or to enter one."""

_SAVING, _FILLED, _SPLIT = 0.85, 0.4, 0.85


@dataclass(frozen=True, slots=True)
class Stroke:
    """One piece of a route, from where the last one ended."""

    kind: Literal["line", "curve"]
    """A straight line, or a curve that is vertical at both ends."""
    end: Point


@dataclass(frozen=True, slots=True)
class Route:
    """How a link runs."""

    start: Point
    strokes: tuple[Stroke, ...]

    @property
    def end(self) -> Point:
        """Where it arrives, from above."""
        return self.strokes[-1].end


@dataclass(frozen=True)
class Layout:
    """A finished arrangement."""

    width: float
    height: float
    centres: tuple[Point, ...]
    """Of each box, in the order in which the sizes came."""
    routes: tuple[Route, ...]
    """Of each link, in the order in which they came."""


def arrange(
    sizes: Sequence[Size], links: Sequence[tuple[int, int]], *, width: float, height: float
) -> Layout:
    """Arrange boxes so that every link runs downwards or on to the next column, and nothing overlaps.

    Args:
        sizes: width and height of each box.
        links: pairs of positions in `sizes`, from and to; no pair twice, no circle.
        width: what there is to the side. Exceeded where a single box, or what can't be parted, is wider.
        height: from here on columns are made, as far as the width allows it.

    Raises:
        ValueError: the links lead in a circle.
    """
    if not sizes:
        return Layout(0.0, 0.0, (), ())
    ranks = _ranks(sizes, links, width)
    columns = _columns(sizes, links, ranks, width, height)
    return _Page(sizes, links, ranks, columns).layout()


# Rows ----------------------------------------------------------------------------------------------------------


def _ranks(sizes: Sequence[Size], links: Sequence[tuple[int, int]], width: float) -> list[int]:
    """The row of each box: below all that lead to it; what nothing leads to stands right above its first use."""
    before, after = _neighbours(len(sizes), links)
    order = _sorted(before, after)
    depth = [0] * len(sizes)
    for box in order:
        depth[box] = max((depth[other] + 1 for other in before[box]), default=0)
    for box in order:
        if not before[box] and after[box]:
            depth[box] = min(depth[other] for other in after[box]) - 1
    lowest = min(depth)

    need: dict[int, float] = {}
    for box in order:
        need[depth[box]] = need.get(depth[box], -BESIDE) + sizes[box][0] + BESIDE
    # Past a row that is split, links lead down between its boxes.
    full = width if max(need.values()) <= width else _SPLIT * width
    # A row takes boxes until it is full; what finds no place goes to the next, and what follows moves down too.
    ranks = [0] * len(sizes)
    taken: dict[int, float] = {}
    place = {box: index for index, box in enumerate(order)}
    for box in sorted(order, key=lambda box: (depth[box], place[box])):
        rank = max([depth[box] - lowest, *(ranks[other] + 1 for other in before[box])])
        room = sizes[box][0] + BESIDE
        while taken.get(rank, 0.0) and taken[rank] + room > full + BESIDE:
            rank += 1
        ranks[box] = rank
        taken[rank] = taken.get(rank, 0.0) + room
    used = {rank: index for index, rank in enumerate(sorted(set(ranks)))}
    return [used[rank] for rank in ranks]


def _neighbours(boxes: int, links: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    before: list[list[int]] = [[] for _ in range(boxes)]
    after: list[list[int]] = [[] for _ in range(boxes)]
    for source, target in links:
        before[target].append(source)
        after[source].append(target)
    return before, after


def _sorted(before: list[list[int]], after: list[list[int]]) -> list[int]:
    """The boxes, each after all that lead to it, otherwise in the order in which they came."""
    missing = [len(others) for others in before]
    ready = [box for box, count in enumerate(missing) if count == 0]
    order: list[int] = []
    for box in ready:
        order.append(box)
        for other in after[box]:
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
    if len(order) < len(before):
        raise ValueError("Expected links that lead downwards. Received: links that lead in a circle.")
    return order


# Columns -------------------------------------------------------------------------------------------------------


def _columns(
    sizes: Sequence[Size],
    links: Sequence[tuple[int, int]],
    ranks: Sequence[int],
    width: float,
    height: float,
) -> list[range]:
    """The rows of each column: as few columns as keep within the height, and no more than fit the width."""
    count = max(ranks) + 1
    heights, widths = [0.0] * count, [-BESIDE] * count
    for (box_width, box_height), rank in zip(sizes, ranks, strict=True):
        heights[rank] = max(heights[rank], box_height)
        widths[rank] += box_width + BESIDE
    crossing: list[set[int]] = [set() for _ in range(count)]
    for source, target in links:
        for rank in range(ranks[source], ranks[target]):
            crossing[rank].add(source)
            if rank > ranks[source]:
                widths[rank] += LANE
    tops = [0.0]
    for size in heights:
        tops.append(tops[-1] + size + BELOW)
    # Only where one box alone leads on, so that one line to the next column says it all.
    seams = [rank + 1 for rank in range(count - 1) if len(crossing[rank]) == 1]

    best = [range(count)]
    tallest = tops[-1] - BELOW
    wanted = 2
    while tallest > height and wanted <= count:
        cuts = (
            {min(seams, key=lambda seam: abs(tops[seam] - tops[-1] * k / wanted)) for k in range(1, wanted)}
            if (seams)
            else set()
        )
        bounds = [0, *sorted(cuts), count]
        columns = [range(start, end) for start, end in pairwise(bounds)]
        across = sum(max(widths[rank] for rank in column) for column in columns)
        if across + GUTTER * (len(columns) - 1) > width:
            break
        tall = [tops[column.stop] - tops[column.start] for column in columns]
        # A column costs a detour of the eye: it must save much, and not stand almost empty.
        if max(tall) < _SAVING * tallest and min(tall) > _FILLED * max(tall):
            best, tallest = columns, max(tall)
        wanted += 1
    return best


def _parts(nodes: Iterable[_Node], links: Iterable[tuple[_Node, _Node]]) -> list[list[_Node]]:
    """Nodes that hang together, in the order in which they came."""
    graph: nx.Graph[_Node] = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    place = {node: number for number, node in enumerate(graph)}
    return sorted(
        (sorted(part, key=place.__getitem__) for part in nx.connected_components(graph)),
        key=lambda part: place[part[0]],
    )


# Positions -----------------------------------------------------------------------------------------------------

_Node = tuple[Literal["box", "entry", "exit"], int]
_Start = Literal["near", "left", "right"]


class _View:
    """What grandalf wants to know of a box."""

    def __init__(self, width: float) -> None:
        self.w = width
        self.h = 1.0


class _Rows(SugiyamaLayout):  # type: ignore[misc]
    """Sugiyama's order within rows that are given."""

    def __init__(self, component: graph_core, ranks: Mapping[_Node, int]) -> None:
        super().__init__(component)
        self._given = ranks
        self.dw = LANE

    def setrank(self, v: Vertex) -> None:
        rank = self._given[v.data]
        while len(self.layers) <= rank:
            self.layers.append(Row([]))
        self.grx[v].rank = rank
        self.layers[rank].append(v)

    def put_in_order(self, start: _Start) -> None:
        """Order each row so that few links cross.

        Args:
            start: where links that pass a row stand at first: near their ends, or left or right of all boxes.
        """
        self.init_all(inverted_edges=[])
        first: dict[Vertex, tuple[int, int, int]] = {}
        for rank, row in enumerate(self.layers):
            boxes = [vertex for vertex in row if not isinstance(vertex, DummyVertex)]
            first.update({vertex: (0, slot, rank) for slot, vertex in enumerate(boxes)})
        for edge, lanes in self.ctrls.items():
            # A lane begins near that end of its link which has less to do with other links.
            source, target = edge.v
            near = target if len(target.e_in()) < len(source.e_out()) else source
            for vertex in lanes.values():
                if isinstance(vertex, DummyVertex):
                    side = {"near": 0, "left": -1, "right": 1}[start]
                    first[vertex] = (side, *first[near][1:])
        for row in self.layers:
            row.sort(key=lambda vertex: first[vertex])
            row.setup(self)
        for _ in range(_ROUNDS):
            for _ in self.ordering_step():
                pass

    def crossings(self) -> int:
        """How many pairs of links cross."""
        between: dict[int, list[tuple[int, int]]] = {}
        for _, way in self.ways():
            for upper, lower in pairwise(way):
                between.setdefault(self.grx[upper].rank, []).append(
                    (self.grx[upper].pos, self.grx[lower].pos)
                )
        return sum(
            (one[0] - other[0]) * (one[1] - other[1]) < 0
            for links in between.values()
            for one, other in combinations(links, 2)
        )

    def ways(self) -> Iterator[tuple[Edge, list[Vertex]]]:
        """Each link with all that it passes, from row to row."""
        for edge in self.g.E():
            lanes = self.ctrls.get(edge, {})
            between = [lanes[rank] for rank in sorted(lanes) if isinstance(lanes[rank], DummyVertex)]
            yield edge, [edge.v[0], *between, edge.v[1]]


_ROUNDS = 4
"""So often all rows are put in order, downwards and upwards."""
_SWEEPS = 24
"""So often all rows are moved to where their links pull them."""
_FAINT = 0.01
_MANY = 200
"""With more boxes than this, the first order that comes is taken."""


def _is_lane(vertex: Vertex) -> bool:
    return isinstance(vertex, DummyVertex)


def _best_order(
    build: Callable[[], graph_core], ranks: Mapping[_Node, int]
) -> tuple[_Rows, dict[Vertex, float]]:
    """The order, with positions, in which the fewest links cross and they run the least to the side."""
    best: tuple[tuple[int, float], _Rows, dict[Vertex, float]] | None = None
    starts: tuple[_Start, ...] = ("near", "left", "right") if len(ranks) <= _MANY else ("near",)
    for start in starts:
        rows = _Rows(build(), ranks)
        rows.put_in_order(start)
        middle = _middles(rows)
        cost = (
            rows.crossings(),
            round(
                sum(
                    abs(middle[upper] - middle[lower])
                    for _, way in rows.ways()
                    for upper, lower in pairwise(way)
                ),
                3,
            ),
        )
        if best is None or cost < best[0]:
            best = (cost, rows, middle)
    assert best is not None
    return best[1], best[2]


def _middles(rows: _Rows) -> dict[Vertex, float]:
    """The middle of everything, in the order given: as near as there is room to where the links pull it.

    Links pull first to the mean of their other ends, which spreads things evenly, then to the median, which
    makes as many links as possible run straight.
    """
    pulls: dict[Vertex, tuple[list[tuple[Vertex, float]], list[tuple[Vertex, float]]]] = {
        vertex: ([], []) for row in rows.layers for vertex in row
    }
    for _, way in rows.ways():
        for upper, lower in pairwise(way):
            lanes = _is_lane(upper) + _is_lane(lower)
            strength = (3.0, 1.0, 8.0)[lanes]
            # A long link is to be straight; but where it leaves and arrives it is not to bend a chain of boxes.
            pulls[lower][0].append((upper, _FAINT if lanes == 1 and not _is_lane(lower) else strength))
            pulls[upper][1].append((lower, _FAINT if lanes == 1 and not _is_lane(upper) else strength))

    middle: dict[Vertex, float] = {}
    offsets: dict[Vertex, float] = {}
    for row in rows.layers:
        x = 0.0
        for before, vertex in zip([None, *row], row, strict=False):
            x += _apart(before, vertex) if before else 0.0
            offsets[vertex] = x
        middle.update({vertex: offsets[vertex] - x / 2 for vertex in row})

    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows.layers if down else reversed(rows.layers):
            wanted, weights = [], []
            for vertex in row:
                above, below = pulls[vertex]
                # At first from one side only, which moves whole chains at once.
                sides = (
                    [*above, *below]
                    if sweep >= _SWEEPS // 2
                    else (above if down else below) or above or below
                )
                ends = [(middle[other], strength) for other, strength in sides]
                pick = _median if sweep >= _SWEEPS * 2 // 3 else _mean
                wanted.append(pick(ends, middle[vertex]) - offsets[vertex])
                # Where there is no room for both, a lane makes way for a box.
                weights.append(_FAINT if _is_lane(vertex) else sum(strength for _, strength in ends) or 0.1)
            for vertex, x in zip(row, _rising(wanted, weights), strict=True):
                middle[vertex] = x + offsets[vertex]
    _straighten(rows, middle)
    return middle


def _straighten(rows: _Rows, middle: dict[Vertex, float]) -> None:
    """Where there is room for it on its whole way, let a link pass all its rows at one place."""
    ways = sorted((way[1:-1] for _, way in rows.ways()), key=len, reverse=True)
    for lanes in [way for way in ways if len(way) > 1]:
        left, right = float("-inf"), float("inf")
        for lane in lanes:
            row, position = rows.layers[rows.grx[lane].rank], rows.grx[lane].pos
            if position > 0:
                left = max(left, middle[row[position - 1]] + _apart(row[position - 1], lane))
            if position + 1 < len(row):
                right = min(right, middle[row[position + 1]] - _apart(lane, row[position + 1]))
        if left <= right:
            mean = sum(middle[lane] for lane in lanes) / len(lanes)
            middle.update(dict.fromkeys(lanes, min(max(mean, left), right)))


def _apart(one: Vertex, other: Vertex) -> float:
    """How far the middles of two neighbours in a row must be from each other."""
    lanes = _is_lane(one) + _is_lane(other)
    return float(one.view.w + other.view.w) / 2 + (BESIDE, BESIDE / 2, 0.0)[lanes]


def _mean(ends: Sequence[tuple[float, float]], here: float) -> float:
    total = sum(weight for _, weight in ends)
    return sum(x * weight for x, weight in ends) / total if total else here


def _median(ends: Sequence[tuple[float, float]], here: float) -> float:
    """The weighted median; where a whole stretch is as good, the place on it that is nearest."""
    half = sum(weight for _, weight in ends) / 2
    passed = 0.0
    ordered = sorted(ends)
    for index, (x, weight) in enumerate(ordered):
        passed += weight
        if abs(passed - half) < 1e-9:
            return min(max(here, x), ordered[index + 1][0])
        if passed > half:
            return x
    return here


def _rising(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The numbers that never fall and differ least from those wanted (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, a_weight, a_size), (b, b_weight, b_size) = pools[-2:]
            pools[-2:] = [
                ((a * a_weight + b * b_weight) / (a_weight + b_weight), a_weight + b_weight, a_size + b_size)
            ]
    return [value for value, _, size in pools for _ in range(size)]


@dataclass
class _Placed:
    """A column: the middle of each of its nodes, and of each link in every row that the link passes."""

    left: float
    right: float
    middle: dict[_Node, float]
    lanes: dict[tuple[_Node, _Node], dict[int, float]]


class _Page:
    """Boxes with their rows and columns, on the way to a layout."""

    def __init__(
        self,
        sizes: Sequence[Size],
        links: Sequence[tuple[int, int]],
        ranks: Sequence[int],
        columns: Sequence[range],
    ) -> None:
        self._sizes = sizes
        self._links = links
        self._ranks = ranks
        self._columns = columns
        self._column_of = {rank: index for index, column in enumerate(columns) for rank in column}
        self._pieces = [list(self._cut(source, target)) for source, target in links]

    def layout(self) -> Layout:
        placed = [self._place(index) for index in range(len(self._columns))]
        left, lefts = 0.0, []
        for column in placed:
            lefts.append(left - column.left)
            left += column.right - column.left + GUTTER
        rows = [self._rows(index, column) for index, column in enumerate(placed)]
        first = max(column_rows[1][0] for column_rows in rows)
        for column_rows in rows:
            down = first - column_rows[1][0]
            column_rows[:] = [(top + down, bottom + down) for top, bottom in column_rows]
        height = max(bottom for column_rows in rows for _, bottom in column_rows)

        centres: list[Point] = []
        for box, rank in enumerate(self._ranks):
            index = self._column_of[rank]
            top, bottom = rows[index][rank - self._columns[index].start + 1]
            centres.append((lefts[index] + placed[index].middle["box", box], (top + bottom) / 2))
        arrivals = self._arrivals(placed, lefts, centres)
        routes = tuple(
            self._route(number, placed, lefts, rows, centres, arrivals[number])
            for number in range(len(self._links))
        )
        return Layout(left - GUTTER, height, tuple(centres), routes)

    def _cut(self, source: int, target: int) -> Iterable[tuple[int, _Node, _Node]]:
        """The pieces of a link, one for each column that it runs through."""
        first, last = self._column_of[self._ranks[source]], self._column_of[self._ranks[target]]
        for index in range(first, last + 1):
            start: _Node = ("box", source) if index == first else ("entry", index)
            end: _Node = ("box", target) if index == last else ("exit", index)
            yield index, start, end

    def _rank(self, node: _Node, column: range) -> int:
        """The row within a column, from 1; 0 is the entry's, the last one the exit's."""
        kind, position = node
        if kind == "box":
            return self._ranks[position] - column.start + 1
        return 0 if kind == "entry" else len(column) + 1

    def _place(self, index: int) -> _Placed:
        column = self._columns[index]
        pieces = list(dict.fromkeys((a, b) for part in self._pieces for i, a, b in part if i == index))
        nodes: dict[_Node, None] = {
            ("box", box): None for box, rank in enumerate(self._ranks) if rank in column
        }
        nodes.update(dict.fromkeys(node for piece in pieces for node in piece))
        placed = _Placed(0.0, 0.0, {}, {})
        for part in _parts(nodes, pieces):
            self._place_part(part, [piece for piece in pieces if piece[0] in part], column, placed)
        placed.right -= BESIDE
        return placed

    def _place_part(
        self, nodes: list[_Node], pieces: list[tuple[_Node, _Node]], column: range, placed: _Placed
    ) -> None:
        """Put one connected part to the right of what is placed already."""
        ranks = {node: self._rank(node, column) for node in nodes}
        top = min(ranks.values())

        def build() -> graph_core:
            vertices = {node: Vertex(node) for node in nodes}
            for (kind, position), vertex in vertices.items():
                vertex.view = _View(self._sizes[position][0] if kind == "box" else LANE)
            edges = [Edge(vertices[start], vertices[end], data=(start, end)) for start, end in pieces]
            return graph_core(list(vertices.values()), edges)

        rows, middle = _best_order(build, {node: rank - top for node, rank in ranks.items()})
        shift = placed.right - min(x - vertex.view.w / 2 for vertex, x in middle.items())
        placed.right = max(x + vertex.view.w / 2 for vertex, x in middle.items()) + shift + BESIDE
        for edge, (_, *between, _) in rows.ways():
            placed.lanes[edge.data] = {
                ranks[edge.data[0]] + number: middle[vertex] + shift
                for number, vertex in enumerate(between, 1)
            }
        placed.middle.update({v.data: x + shift for v, x in middle.items() if not _is_lane(v)})

    def _rows(self, index: int, placed: _Placed) -> list[Point]:
        """Top and bottom of each row of a column, with the entry's first and the exit's last."""
        column = self._columns[index]
        heights = [0.0] * (len(column) + 2)
        for box, rank in enumerate(self._ranks):
            if rank in column:
                row = rank - column.start + 1
                heights[row] = max(heights[row], self._sizes[box][1])
        slanted = [False] * (len(column) + 1)
        for piece in {(a, b) for part in self._pieces for i, a, b in part if i == index}:
            way = self._way(piece, placed, column)
            for (row, x), (_, next_x) in pairwise(way):
                if abs(x - next_x) > 1:
                    slanted[row] = True
        entered = any(node[0] == "entry" for node in placed.middle)
        left = any(node[0] == "exit" for node in placed.middle)
        y = TURN if entered else 0.0
        rows: list[Point] = []
        for row, height in enumerate(heights):
            rows.append((y, y + height))
            y += height
            if 0 < row < len(column):
                y += SLANT if slanted[row] else BELOW
            elif (row == 0 and entered) or (row == len(column) and left):
                y += SLANT if slanted[row] else TURN
        if left:
            rows.append((y, y + TURN))
        return rows

    def _way(self, piece: tuple[_Node, _Node], placed: _Placed, column: range) -> list[tuple[int, float]]:
        """Row and middle of all that a piece of a link passes."""
        start, end = piece
        lanes = placed.lanes.get(piece, {})
        first, last = self._rank(start, column), self._rank(end, column)
        return [
            (first, placed.middle[start]),
            *((row, lanes[row]) for row in range(first + 1, last)),
            (last, placed.middle[end]),
        ]

    def _arrivals(
        self, placed: Sequence[_Placed], lefts: Sequence[float], centres: Sequence[Point]
    ) -> list[float]:
        """Where on the top of its target each link arrives: side by side, in the order in which they come."""
        origin: list[float] = []
        for pieces in self._pieces:
            index, start, end = pieces[-1]
            way = self._way((start, end), placed[index], self._columns[index])
            origin.append(lefts[index] + way[-2][1])
        arrivals = [0.0] * len(self._links)
        coming: dict[int, list[int]] = {}
        for number, (_, target) in enumerate(self._links):
            coming.setdefault(target, []).append(number)
        for target, numbers in coming.items():
            numbers.sort(key=lambda number: origin[number])
            x, room = centres[target][0], self._sizes[target][0] * 0.35
            apart = min(14.0, 2 * room / len(numbers))
            # Straight down if it comes from above, else near the side that it comes from.
            wanted = [
                min(max(origin[number], x - room), x + room) - position * apart
                for position, number in enumerate(numbers)
            ]
            last = x + room - (len(numbers) - 1) * apart
            for position, at in enumerate(_rising(wanted, [1.0] * len(numbers))):
                arrivals[numbers[position]] = min(max(at, x - room), last) + position * apart
        return arrivals

    def _route(
        self,
        number: int,
        placed: Sequence[_Placed],
        lefts: Sequence[float],
        rows: Sequence[Sequence[Point]],
        centres: Sequence[Point],
        arrival: float,
    ) -> Route:
        source, target = self._links[number]
        x, y = centres[source]
        start = (x, y + self._sizes[source][1] / 2)
        strokes: list[Stroke] = []
        for index, begin, end in self._pieces[number]:
            if begin[0] == "entry":
                strokes.extend(self._turn(index, placed, lefts, rows, strokes[-1].end))
            way = self._way((begin, end), placed[index], self._columns[index])
            for (row, _), (next_row, next_x) in pairwise(way):
                at = lefts[index] + next_x
                if next_row == way[-1][0] and end[0] == "box":
                    at = arrival
                here = strokes[-1].end if strokes else start
                bottom = rows[index][row][1]
                strokes.append(Stroke("line", (here[0], bottom)))
                strokes.append(Stroke("curve", (at, rows[index][next_row][0])))
        top = centres[target][1] - self._sizes[target][1] / 2
        strokes.append(Stroke("line", (arrival, top)))
        return Route(start, _tidy(start, strokes))

    @staticmethod
    def _turn(
        index: int,
        placed: Sequence[_Placed],
        lefts: Sequence[float],
        rows: Sequence[Sequence[Point]],
        here: Point,
    ) -> list[Stroke]:
        """From the bottom of one column through the gutter to the top of the next."""
        gutter = lefts[index] + placed[index].left - GUTTER / 2
        low = rows[index - 1][-1][1] - TURN / 2
        entry = lefts[index] + placed[index].middle["entry", index]
        corners = [(here[0], low), (gutter, low), (gutter, 0.0), (entry, 0.0), (entry, rows[index][0][0])]
        return [Stroke("line", corner) for corner in corners]


def _tidy(start: Point, strokes: Iterable[Stroke]) -> tuple[Stroke, ...]:
    """Without pieces that lead nowhere; a curve straight down is a line."""
    tidied: list[Stroke] = []
    here = start
    for stroke in strokes:
        if abs(stroke.end[0] - here[0]) + abs(stroke.end[1] - here[1]) < 0.01:
            continue
        straight = abs(stroke.end[0] - here[0]) < 0.01
        tidied.append(Stroke("line", stroke.end) if straight else stroke)
        here = stroke.end
    return tuple(tidied)
