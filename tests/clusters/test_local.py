"""Test that the cluster of "local" accepts work only from the process that started it."""

import os
import shutil
import subprocess
import sys

import numpy as np
import psutil
import pytest

from portable.models import edm
from portable.models.shared.cluster import connect, connected, private
from portable.errors import InputError

from ..processes import python


ATTACK = """
import sys
from distributed import Client, Security
certain = Security.temporary() if sys.argv[2] == "key" else None
address = sys.argv[1] if certain else sys.argv[1].replace("tls:", "tcp:")
try:
    with Client(address, timeout=3, security=certain) as client:
        print("ran", client.run(max, 1, 2))
except (OSError, ValueError) as error:
    print("refused", type(error).__name__)
"""


@pytest.fixture(scope="module")
def local():
    with private(2) as client:
        yield client


def test_it_computes_the_bits_of_one_process(local):
    x = np.random.default_rng(1).random((60, 6))
    found = edm.cross_map(x, 2, space="serial", client=local)
    np.testing.assert_array_equal(found, edm.cross_map(x, 2, space="serial"))


def test_all_of_it_listens_on_the_loopback_device(local):
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {
        (process.pid, one.laddr.ip)
        for process in processes
        for one in process.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }
    assert len({pid for pid, _ in listening}) >= 3  # the scheduler's and those of two workers
    assert {address for _, address in listening} == {"127.0.0.1"}


@pytest.mark.parametrize("certainty", ["none", "key"])
def test_it_takes_nothing_from_others(local, certainty):
    """A client without a certificate, or with a different one, is refused by the scheduler and by workers."""
    known = local.scheduler_info(n_workers=-1)
    addresses = [known["address"], *known["workers"], *(one["nanny"] for one in known["workers"].values())]
    assert len(addresses) == 5 and all(address.startswith("tls://127.0.0.1:") for address in addresses)
    for address in addresses[:2]:
        done = python("-W", "ignore", "-c", ATTACK, address, certainty, timeout=120, check=False)
        assert done.stdout.startswith("refused"), done.stdout + done.stderr


def test_another_process_without_its_key_is_told_so(local):
    with pytest.raises(InputError, match="no scheduler answers at 'tls://.*TLS"):
        with connect(local.scheduler_info(n_workers=-1)["address"]):
            pass


@pytest.mark.skipif(os.name != "posix" or not shutil.which("ps"), reason="no list of processes here")
def test_no_key_is_in_the_list_of_processes(local):
    listed = subprocess.run(["ps", "axwwwe"], capture_output=True, text=True).stdout
    assert "PRIVATE KEY" not in listed


def test_threads_of_this_process_listen_to_none():
    with private(2, processes=False) as client:
        assert client.scheduler.address.startswith("inproc://")
        assert client.submit(max, 1, 2).result() == 2


def test_without_the_library_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match=r"'cryptography' is not installed\. pip install \"\.\[cluster\]\""):
        with connected("local"):
            pass
