"""Test that the layer's own backends provide the contract, name by name."""

import inspect

import pytest

import portable as pk
from portable.core.machines import contract
from portable.core import registry
from portable.core.machines.cuda import driver
from portable.core.machines.host import Host


def members(protocol):
    return {
        name: value
        for name, value in vars(protocol).items()
        if not name.startswith("_") and (callable(value) or name in protocol.__annotations__)
    }


def assert_provides(offered, protocol):
    """Check that all names of a protocol exist, and that its functions have the same parameters in the same
    order.
    """
    for name, wanted in members(protocol).items():
        assert hasattr(offered, name), name
        given = getattr(offered, name)
        if inspect.isfunction(wanted) and not inspect.isbuiltin(given) and not hasattr(given, "restype"):
            plain = list(inspect.signature(wanted).parameters)[0 if inspect.isclass(offered) else 1 :]
            has = inspect.signature(given).parameters
            starred = any(p.kind is p.VAR_POSITIONAL for p in has.values())
            assert starred or list(has) == plain, (name, list(has), plain)


@pytest.mark.parametrize("name", "serial threads cuda checked".split())
def test_backends_and_what_launches(name):
    assert isinstance(registry.backend(name), contract.Backend)
    assert_provides(registry.backend(name), contract.Backend)
    assert_provides(registry.launches(name), contract.Launches)


@pytest.mark.parametrize("memory", [driver.Context, Host])
def test_memories(memory):
    assert contract.Memory in memory.__mro__ and not inspect.isabstract(memory)
    assert_provides(memory, contract.Memory)


@pytest.mark.parametrize("protocol", [contract.Backend, contract.Memory, contract.Launches])
def test_what_must_be_written_is_said(protocol):
    class Half(protocol):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()


class Complete(contract.Backend):
    def launches(self):
        raise AssertionError("nobody asks")


@pytest.mark.parametrize(
    "name, backend, words",
    [
        ("serial", Complete(), "none of serial, threads"),
        ("my:0", Complete(), "an identifier"),
        (3, Complete(), "name is 3"),
        ("mine", Complete, "an instance"),
        ("mine", object(), "contract.Backend"),
    ],
)
def test_register_refuses(name, backend, words):
    with pytest.raises(pk.InputError, match=words):
        pk.register(name, backend)
    assert "mine" not in registry.names()
