"""Every method by its name, and every composition of it with parts in the other slots."""

import pytest

from esacl import recipes
from tests.conformance.toys import COMPOSITIONS


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(recipes, "METHODS", COMPOSITIONS)


@pytest.fixture(params=sorted(COMPOSITIONS))
def method(request):
    return request.param
