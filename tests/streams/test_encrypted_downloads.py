"""Downloads are encrypted from end to end unless the user says otherwise."""

from urllib.request import Request

import pytest

from esacl.errors import DataError
from esacl.streams.download import _StaysEncrypted
from esacl.streams.official import OFFICIAL


@pytest.mark.parametrize("data", OFFICIAL.values(), ids=list(OFFICIAL))
def test_every_official_address_is_encrypted(data):
    assert data.url.startswith("https://")


def test_a_server_that_leads_to_an_open_address_is_not_followed():
    def follow(address, to):
        return _StaysEncrypted().redirect_request(Request(address), None, 302, "Found", {}, to)

    with pytest.raises(DataError, match="not encrypted"):
        follow("https://a.org/x", "http://b.org/x")
    assert follow("https://a.org/x", "https://b.org/x").full_url == "https://b.org/x"
