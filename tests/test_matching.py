"""Laying one normal form over another."""

from __future__ import annotations

import sys

import pytest
from tensorflow.keras import Input, Model, layers

from autograder import trace
from autograder.graph.matching import alignments, same
from autograder.graph.normal import normal_form


class Pair(layers.Layer):
    """Uses the variables of two other layers. Output shape: that of the input."""

    def __init__(self, one: layers.Layer, other: layers.Layer) -> None:
        super().__init__()
        self.one, self.other = one, other

    def call(self, x):
        return x * self.one.bias + self.other.bias


def ring(*sizes):
    """Pairs of layers that are tied in rings of these sizes, all called on one input and added."""
    x = Input((3,))
    pairs = []
    for size in sizes:
        parts = [layers.Dense(3) for _ in range(size)]
        for part in parts:
            part.build((None, 3))
        pairs += [Pair(parts[i], parts[(i + 1) % size]) for i in range(size)]
    return normal_form(trace(Model(x, layers.Add()([pair(x) for pair in pairs]))))


def test_what_looks_alike_from_everywhere_is_matched_part_by_part():
    """One ring of six and two rings of three have the same colours, and are not the same."""
    assert same(ring(6), ring(6))
    assert same(ring(3, 3), ring(3, 3))
    assert not same(ring(6), ring(3, 3))


def test_the_recursion_limit_stays():
    """The recursion limit that networkx raises is put back."""
    limit = sys.getrecursionlimit()
    assert same(ring(4), ring(4))
    assert sys.getrecursionlimit() == limit


def branches(*units, order=None):
    x, y = Input((3,), name="x"), Input((3,), name="y")
    outputs = [layers.Dense(units[0])(x), layers.Dense(units[1])(y)]
    return normal_form(
        trace(Model([[x, y], [y, x]][order == "inputs"], outputs[:: -1 if order == "outputs" else 1]))
    )


def test_an_alignment_of_equals_is_complete():
    """Every step has a partner that does the same, inputs and outputs in order."""
    first, second = branches(2, 4), branches(2, 4)
    (way,) = alignments(first, second)
    assert way.inputs == way.outputs == (0, 1)
    assert len(way.partner) == len(first.steps) == len(second.steps)
    assert all(first.steps[i].does == second.steps[j].does for i, j in way.partner.items())


@pytest.mark.parametrize("order", ["inputs", "outputs"])
def test_an_alignment_without_the_order(order):
    """Where inputs or outputs stand in another order, one alignment sees that."""
    ways = list(alignments(branches(2, 4, order=order), branches(2, 4)))
    assert (1, 0) in [getattr(way, order) for way in ways]
    assert (0, 1) in [getattr(way, order) for way in ways]


def test_a_step_of_another_kind_has_no_partner():
    """What has nothing in common is missing on both sides."""
    x, y = Input((3,)), Input((3,))
    first = normal_form(trace(Model(x, layers.Dense(2)(x))))
    second = normal_form(trace(Model(y, layers.Reshape((1, 3))(layers.Reshape((3, 1))(y)))))
    (way,) = alignments(first, second)
    assert way.partner == {0: 0}
