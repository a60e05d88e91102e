"""The report: what is found, and that right models are not accused."""

from __future__ import annotations

import json

import models
import pytest
import tensorflow as tf
from tensorflow.keras import Input, Model, layers
from test_trace import random_model

from autograder import explain
from autograder.graph.trace import read


def found(zoo, kind, **kwargs):
    report = explain(zoo["model"], zoo, **kwargs)
    return [finding for finding in report.findings if finding.kind == kind]


@pytest.mark.parametrize("build", models.RIGHT, ids=lambda build: build.__name__)
def test_right_models_are_not_accused(build):
    """A model in which nothing is wrong has no finding but `shared` and `frozen`."""
    zoo = build()
    report = explain(zoo["model"], zoo)
    assert [finding for finding in report.findings if finding.accuses] == []
    if build is models.vocabulary:  # strings can't be made up
        assert "takes strings" in report.note
    else:
        assert report.trained == report.graph.parameters.trainable


def test_a_dense_called_on_a_variable():
    """`denseSoftmax`: 22 parameters, called on a tf.Variable, no path from the outputs; its value is baked in."""
    zoo = models.untracked_subgraph()
    report = explain(zoo["model"], zoo)
    unreached, constant = report.findings
    assert (unreached.kind, unreached.name, unreached.parameters) == ("unreached-layer", "denseSoftmax", 22)
    assert "called on a tf.Variable" in unreached.why
    assert "no path leads to it from the outputs" in unreached.why
    assert (constant.kind, constant.where) == ("constant-branch", "multiply")
    assert "denseSoftmax" in constant.why
    assert report.trained == 0


def test_the_baked_value_really_does_not_follow():
    """What the finding says is so: changing the Dense's kernel leaves the model's output where it was."""
    zoo = models.untracked_subgraph()
    before = zoo["model"](tf.ones((1, 11))).numpy()
    zoo["dense_softmax"].kernel.assign_add(tf.random.normal((1, 11)))
    assert (zoo["model"](tf.ones((1, 11))).numpy() == before).all()


def test_a_baked_value_is_suspected_without_a_namespace_where_nothing_is_left_to_train():
    """Without a namespace nobody knows what made the constant, but 0 parameters accuse themselves."""
    report = explain(models.untracked_subgraph()["model"])
    assert [finding.kind for finding in report.findings] == ["constant-branch"]


def test_the_zero_trick_leaves_the_variable_outside():
    """22 of 23: the contract's example, name, shape, parameters and place."""
    zoo = models.zero_trick()
    report = explain(zoo["model"], zoo)
    assert report.to_dict()["parameters"] == {
        "total": 22,
        "trainable": 22,
        "frozen": 0,
        "state": 0,
        "trained": 22,
    }
    (finding,) = [finding for finding in report.findings if finding.accuses]
    assert (finding.kind, finding.name, finding.type) == ("untracked-variable", "Variable:0", "Variable")
    assert (finding.shape, finding.parameters, finding.where) == ((1, 1), 1, "tf.__operators__.add")


def test_a_variable_on_the_left_of_an_operator_is_baked_in():
    """`variable * tensor` reads the variable at once; the namespace tells whose value it is."""
    x = Input((3,))
    weight = tf.Variable([0.25, 0.5, 0.75], name="weight")
    model = Model(x, layers.Dense(1)(weight * x))
    (finding,) = [f for f in explain(model, {"weight": weight}).findings if f.accuses]
    assert (finding.kind, finding.name, finding.parameters) == ("untracked-variable", "weight:0", 3)
    assert "as a constant" in finding.why


def test_a_loose_variable():
    """`scale`: 3 values used in every forward pass, in no layer; 19 are trained."""
    zoo = models.loose_variable()
    report = explain(zoo["model"], zoo)
    (finding,) = report.findings
    assert (finding.kind, finding.name, finding.parameters) == ("untracked-variable", "scale:0", 3)
    assert finding.where == "tf.math.multiply"
    assert report.trained == 19


@pytest.mark.parametrize(
    ("build", "layer", "place", "parameters"),
    [
        (models.lambda_closure, "inner", "via_lambda", 20),
        (models.plain_object_hides_layer, "hidden", "block", 15),
    ],
)
def test_hidden_layers(build, layer, place, parameters):
    """A layer in a closure or a plain object is named with its parameters and the place that uses it."""
    zoo = build()
    findings = found(zoo, "untracked-variable")
    assert sum(finding.parameters for finding in findings) == parameters
    assert {finding.where for finding in findings} == {place}
    assert all(f"`{layer}`" in finding.why for finding in findings)
    assert found(zoo, "unreached-layer") == []


def test_a_branch_that_came_too_late():
    """`late` hangs on the input, and nothing made from it leads to the outputs."""
    (finding,) = found(models.list_grown_later(), "unreached-layer")
    assert (finding.name, finding.parameters) == ("late", 10)
    assert "nothing made from its result" in finding.why


def test_gradients_cut_off():
    """`cut` (9 parameters) gets none, by tf.stop_gradient; `b` and `c` are not accused."""
    zoo = models.stopped_gradients()
    (finding,) = found(zoo, "no-gradient")
    assert (finding.name, finding.parameters, finding.where) == ("cut", 9, "tf.stop_gradient")
    assert explain(zoo["model"], zoo).trained == 40


def test_a_hard_choice():
    """Argmax is named as what lets no gradient through."""
    (finding,) = found(models.hard_choice(), "no-gradient")
    assert (finding.name, finding.parameters, finding.where) == ("scores", 15, "tf.math.argmax")


def test_frozen_by_the_user_and_state_by_design():
    """Only what the user switched off is `frozen`; moving statistics are no finding."""
    assert found(models.batch_normalization(), "frozen") == []
    (finding,) = found(models.batch_normalization(frozen=True), "frozen")
    assert (finding.name, finding.parameters) == ("norm", 6)


def test_sliced_layers_are_shared_not_copied():
    """`h1`'s 15 parameters are in both models."""
    (finding,) = found(models.sliced_sequential(), "shared")
    assert (finding.name, finding.parameters, finding.where) == ("h1", 15, "first")


def test_a_list_multiplied_holds_one_layer():
    """Two calls of `twin`, 20 parameters once."""
    (finding,) = found(models.list_of_one_layer_twice(), "shared")
    assert (finding.name, finding.parameters) == ("twin", 20)
    assert "2 times" in finding.why


def test_cells_and_samplers_are_not_accused():
    """A decoder's cell and output layer have no call of their own, and belong to it."""
    zoo = models.basic_decoder()
    report = explain(zoo["model"], zoo)
    assert not any(finding.accuses for finding in report.findings)
    assert report.trained == 3700


def test_three_models_of_one_graph():
    """Nothing is lost by rebinding a name: 38, 80 and 42; the decoder says where it was cut."""
    zoo = models.rebound_name()
    reports = {name: explain(zoo[name], zoo) for name in ("encoder", "model", "decoder")}
    assert [report.trained for report in reports.values()] == [38, 80, 42]
    accused = {name: [f.kind for f in report.findings if f.accuses] for name, report in reports.items()}
    assert accused == {"encoder": [], "model": [], "decoder": ["cut-input"]}
    shared = [f for f in reports["decoder"].findings if f.kind == "shared"]
    assert {f.name for f in shared} == {"d1", "d2"}


def test_an_outer_layer_is_no_business_of_the_inner_model():
    """What was made on another graph is not reported as unreached."""
    zoo = models.inner_tensor_exposed()
    assert [f for f in explain(zoo["inner"], zoo).findings if f.accuses] == []


def test_unbuilt_is_unknown_and_not_zero():
    """Counts of variables that do not exist are null."""
    report = explain(models.never_built()["model"])
    assert [finding.kind for finding in report.findings] == ["unbuilt"]
    assert report.to_dict()["parameters"]["total"] is None
    assert report.findings[0].parameters is None


def test_a_layer_never_called():
    """It is named, and its number of parameters is unknown."""
    zoo = models.nobody_added_it() | {"forgotten": layers.Dense(3, name="forgotten")}
    (finding,) = found(zoo, "unreached-layer")
    assert (finding.name, finding.parameters) == ("forgotten", None)


def test_notebook_history_is_not_a_namespace():
    """IPython's `_`, `__`, `_12` hold results, and layers in them are not what a learner named."""
    zoo = models.nobody_added_it() | {"_3": layers.Dense(3)}
    assert found(zoo, "unreached-layer") == []


@pytest.mark.parametrize("batch", range(5))
def test_everything_unreached_is_absent_from_the_model(batch):
    """Over 100 random models: what is reported unreached is in model.layers at no depth."""
    for seed in range(2000 + batch * 20, 2020 + batch * 20):
        model = random_model(seed)
        dead = layers.Dense(1, name="dead_branch")(model.inputs[0])
        report = explain(model, {"dead": dead}, gradients=False)
        inside = {layer.name for layer in read(model).layers}
        unreached = [f.name for f in report.findings if f.kind == "unreached-layer"]
        assert unreached == ["dead_branch"], seed
        assert inside.isdisjoint(unreached), seed


@pytest.mark.parametrize(
    "build", [models.untracked_subgraph, models.autoencoder, models.never_built, models.stopped_gradients]
)
def test_reports_read_well(build):
    """Data for JSON, text with counts, and HTML without anything unescaped."""
    zoo = build()
    report = explain(zoo["model"], zoo)
    data = json.loads(json.dumps(report.to_dict()))
    assert set(data) == {"keras", "parameters", "findings"}
    assert data["keras"].startswith("2.15")
    for finding in report.findings:
        assert finding.why in str(report)
        assert finding.why.endswith(".")
    html = report._repr_html_()
    assert html.count("<tr>") == len(report.findings) + bool(report.findings)
    assert "`" not in html


def test_hostile_names_are_escaped():
    """A layer's name comes from the learner and is not markup."""
    layer = layers.Dense(1, name="<b>bold</b>")
    html = explain(models.nobody_added_it()["model"], {"layer": layer})._repr_html_()
    assert "<b>bold" not in html
    assert "&lt;b&gt;bold" in html
