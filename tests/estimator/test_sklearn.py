"""The classifier is one of scikit-learn's kind: its own battery says so, and its tools work with it."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from esacl import ContinualClassifier
from tests.estimator.samples import features, small


@parametrize_with_checks([ContinualClassifier(width=24, epochs=5, max_classes=10, buffer=50)])
def test_the_battery_of_scikit_learn_passes_without_an_exception(estimator, check):
    check(estimator)


def test_parameters_can_be_read_set_and_cloned():
    model = small(buffer=30)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.set_params(epochs=3).epochs == 3
    assert not hasattr(clone(model.fit(*features(range(2)))), "classes_")


def test_it_works_in_a_pipeline_a_search_and_a_cross_validation():
    x, y = features(range(3))
    piped = make_pipeline(StandardScaler(), small("er"))
    assert cross_val_score(piped, 1000 * x, y, cv=2).mean() > 0.9
    search = GridSearchCV(small("er"), {"buffer": [10, 20]}, cv=2).fit(x, y)
    assert search.best_params_["buffer"] in (10, 20)


@pytest.mark.parametrize("method", ["esacl-der++", "icarl"])
def test_a_pickled_copy_goes_on_with_the_same_bits(method):
    model = small(method).partial_fit(*features(range(2)))
    twin = pickle.loads(pickle.dumps(model))
    x, y = features(range(2, 4))
    assert np.array_equal(model.partial_fit(x, y).predict_proba(x), twin.partial_fit(x, y).predict_proba(x))
