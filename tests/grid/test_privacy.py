"""A grid is private: on one machine it opens no socket, and an open scheduler elsewhere is refused."""

import json

import pytest

from esacl.errors import ConfigError
from esacl.grid.cluster import check_cluster


@pytest.mark.parametrize("address", ["tcp://host0:8786", "host0:8786", "tcp://10.0.0.1:8786", "ws://host0:1"])
def test_an_open_scheduler_elsewhere_is_refused_unless_told(address, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"address": address}))
    for given in (address, str(tmp_path / "s.json")):
        with pytest.raises(ConfigError, match="--insecure"):
            check_cluster(given, insecure=False)
        assert check_cluster(given, insecure=True) is None


@pytest.mark.parametrize("address", ["tls://host0:8786", "tcp://localhost:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_encrypted_schedulers_and_those_of_this_machine_are_allowed(address):
    assert check_cluster(address, insecure=False) is None
