"""A grid is private: loopback, encrypted, without pages; an open scheduler elsewhere is refused."""

import json

import psutil
import pytest

from esacl.errors import ConfigError
from esacl.grid import cluster
from esacl.grid.cluster import check_safe, connect


def listening() -> set[tuple[int, str, int]]:
    """Process, address and port of everything that waits for connections here."""
    here = psutil.Process()
    return {
        (process.pid, found.laddr.ip, found.laddr.port)
        for process in (here, *here.children(recursive=True))
        for found in process.net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    }


def test_a_local_grid_listens_on_loopback_only_and_is_encrypted():
    before = listening()  # clusters of other tests
    with connect(1) as client:
        assert client.scheduler.address.startswith("tls://127.0.0.1:")
        opened = listening() - before
        assert opened
        assert {host for _, host, _ in opened} <= {"127.0.0.1", "::1"}
        assert not client.cluster.scheduler.http_application.applications


@pytest.mark.parametrize("address", ["tcp://host0:8786", "host0:8786", "tcp://10.0.0.1:8786", "ws://host0:1"])
def test_an_open_scheduler_elsewhere_is_refused_unless_told(address, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"address": address}))
    for given in (address, str(tmp_path / "s.json")):
        with pytest.raises(ConfigError, match="--insecure"):
            check_safe(given, insecure=False)
        assert check_safe(given, insecure=True) is None


@pytest.mark.parametrize("address", ["tls://host0:8786", "tcp://localhost:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_encrypted_schedulers_and_those_of_this_machine_are_allowed(address):
    assert check_safe(address, insecure=False) is None


def test_a_local_grid_without_the_package_for_encryption_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"'cryptography' is missing.*esacl\[sweep\].*--insecure"):
        check_safe(None, insecure=False)
    assert check_safe(None, insecure=True) is None
