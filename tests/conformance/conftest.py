"""Every method by its name, and every composition of it with parts in the other slots."""

import pytest

from esacl.methods import METHODS
from tests.conformance.toys import COMPOSITIONS


@pytest.fixture(autouse=True)
def known(monkeypatch):
    for name in COMPOSITIONS.keys() - METHODS.keys():
        monkeypatch.setitem(METHODS, name, COMPOSITIONS[name])


@pytest.fixture(params=sorted(COMPOSITIONS))
def method(request):
    return request.param
