"""The arrangement of boxes and links."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from autograder.graph.layout import Layout, arrange

Links = list[tuple[int, int]]


def random_graph(seed: int) -> tuple[list[tuple[float, float]], Links]:
    """Boxes of many sizes and links that lead from earlier to later ones, some far."""
    draw = random.Random(seed)
    count = draw.randint(2, 28)
    sizes = [(draw.uniform(40, 230), draw.uniform(30, 110)) for _ in range(count)]
    links = set()
    for target in range(1, count):
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
            near = draw.random() < 0.7
            links.add((draw.randrange(max(0, target - 3) if near else 0, target), target))
    return sizes, sorted(links)


def chain(count: int) -> tuple[list[tuple[float, float]], Links]:
    return [(150.0, 55.0)] * count, [(i, i + 1) for i in range(count - 1)]


def overlapping(sizes: list[tuple[float, float]], layout: Layout) -> list[tuple[int, int]]:
    found = []
    for a, b in combinations(range(len(sizes)), 2):
        (ax, ay), (bx, by) = layout.centres[a], layout.centres[b]
        apart_x = abs(ax - bx) - (sizes[a][0] + sizes[b][0]) / 2
        apart_y = abs(ay - by) - (sizes[a][1] + sizes[b][1]) / 2
        if apart_x < -0.01 and apart_y < -0.01:
            found.append((a, b))
    return found


def points(layout: Layout, number: int) -> list[tuple[float, float]]:
    """Places along a link, close to each other."""
    route = layout.routes[number]
    here, found = route.start, [route.start]
    for stroke in route.strokes:
        (x0, y0), (x1, y1) = here, stroke.end
        for part in [i / 20 for i in range(1, 21)]:
            if stroke.kind == "line":
                found.append((x0 + (x1 - x0) * part, y0 + (y1 - y0) * part))
            else:
                # A cubic curve whose handles stand halfway between the heights of its ends.
                share = 3 * part**2 - 2 * part**3
                half = (y0 + y1) / 2
                rest = 1 - part
                y = rest**3 * y0 + 3 * rest * part * half + part**3 * y1
                found.append((x0 + (x1 - x0) * share, y))
        here = stroke.end
    return found


@pytest.mark.parametrize("height", [200.0, 560.0, 10_000.0])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_overlaps(seed: int, height: float) -> None:
    """Whatever the graph, no two boxes overlap, and all stand on the page."""
    sizes, links = random_graph(seed)
    layout = arrange(sizes, links, width=860, height=height)
    assert overlapping(sizes, layout) == []
    for (x, y), (wide, high) in zip(layout.centres, sizes, strict=True):
        assert x - wide / 2 >= -0.01
        assert x + wide / 2 <= layout.width + 0.01
        assert y - high / 2 >= -0.01
        assert y + high / 2 <= layout.height + 0.01


@pytest.mark.parametrize("height", [200.0, 560.0, 10_000.0])
@pytest.mark.parametrize("seed", range(12))
def test_links_lead_from_box_to_box_past_all_others(seed: int, height: float) -> None:
    """A link starts at the bottom of its source, ends on top of its target, and runs through no box."""
    sizes, links = random_graph(seed)
    layout = arrange(sizes, links, width=860, height=height)
    for number, (source, target) in enumerate(links):
        route = layout.routes[number]
        x, y = layout.centres[source]
        assert route.start == pytest.approx((x, y + sizes[source][1] / 2))
        x, y = layout.centres[target]
        assert route.end[1] == pytest.approx(y - sizes[target][1] / 2)
        assert abs(route.end[0] - x) < sizes[target][0] / 2
        for box, ((bx, by), (wide, high)) in enumerate(zip(layout.centres, sizes, strict=True)):
            inside = [
                point
                for point in points(layout, number)
                if abs(point[0] - bx) < wide / 2 - 0.01 and abs(point[1] - by) < high / 2 - 0.01
            ]
            assert not inside, f"link {source}→{target} runs through box {box} at {inside[0]}"


def test_a_chain_runs_straight() -> None:
    """A short chain is one column, and all its links are vertical lines."""
    sizes, links = chain(4)
    layout = arrange(sizes, links, width=860, height=560)
    assert len({round(x) for x, _ in layout.centres}) == 1
    assert all(stroke.kind == "line" for route in layout.routes for stroke in route.strokes)


def test_a_long_chain_becomes_columns() -> None:
    """A long chain is set in columns of about equal height, in the width there is, each read downwards."""
    sizes, links = chain(24)
    layout = arrange(sizes, links, width=860, height=560)
    columns: dict[int, list[float]] = {}
    for x, y in layout.centres:
        columns.setdefault(round(x), []).append(y)
    assert len(columns) == 4
    assert list(columns) == sorted(columns)
    assert [len(column) for column in columns.values()] == [6, 6, 6, 6]
    assert all(column == sorted(column) for column in columns.values())
    assert layout.width <= 860


def test_no_column_for_little() -> None:
    """Where a side way runs all along, the drawing stays in one column, however high it gets."""
    sizes, links = chain(12)
    layout = arrange(sizes, [*links, (0, 11)], width=860, height=300)
    xs = sorted(x for x, _ in layout.centres)
    assert xs[-1] - xs[0] < 1


def test_a_chain_stays_straight_beside_a_side_way() -> None:
    """A link that jumps over boxes leads around them, and bends neither the chain nor itself."""
    sizes, links = chain(5)
    layout = arrange(sizes, [*links, (0, 4)], width=860, height=10_000)
    assert max(x for x, _ in layout.centres) - min(x for x, _ in layout.centres) < 0.1
    # One curve to the side, straight down past three boxes, one curve back.
    assert sum(stroke.kind == "curve" for stroke in layout.routes[-1].strokes) == 2


def test_a_wide_row_is_split() -> None:
    """Twelve branches side by side would be 2,000 wide: they are set in rows, and fit."""
    sizes = [(150.0, 55.0)] * 14
    links = [(0, i) for i in range(1, 13)] + [(i, 13) for i in range(1, 13)]
    layout = arrange(sizes, links, width=860, height=560)
    assert layout.width <= 860
    assert len({round(layout.centres[i][1]) for i in range(1, 13)}) > 2


def test_what_nothing_leads_to_stands_above_its_use() -> None:
    """A constant far down in the graph stands right above the call that uses it, not at the top."""
    sizes = [(100.0, 40.0)] * 5
    layout = arrange(sizes, [(0, 1), (1, 2), (2, 3), (4, 3)], width=860, height=10_000)
    assert layout.centres[4][1] == layout.centres[2][1]


def test_same_graph_same_layout() -> None:
    """The layout depends on nothing but the graph."""
    sizes, links = random_graph(3)
    assert arrange(sizes, links, width=860, height=300) == arrange(sizes, links, width=860, height=300)


def test_nothing_to_arrange() -> None:
    """No boxes make an empty layout."""
    assert arrange([], [], width=860, height=560) == Layout(0.0, 0.0, (), ())


def test_circle_is_refused() -> None:
    """Links that lead in a circle have no top: an error says so."""
    with pytest.raises(ValueError, match="in a circle"):
        arrange([(10.0, 10.0)] * 2, [(0, 1), (1, 0)], width=860, height=560)


def test_deep_graph() -> None:
    """A chain of 1,000 boxes is arranged without a recursion limit being hit."""
    sizes, links = chain(1000)
    layout = arrange(sizes, [*links, *((i, i + 5) for i in range(0, 990, 10))], width=860, height=560)
    assert overlapping(sizes[:50], Layout(0, 0, layout.centres[:50], ())) == []
