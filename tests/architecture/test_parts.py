"""Test that the emitter is composed of classes of limited size, that operations are rows of a table, and that
no attribute's name is computed from strings."""

import ast
import importlib
import inspect
import pkgutil
import types

import pytest
from llvmlite import ir

from portable.core import machines
from portable.core.compiler import writing
from portable.core.compiler.reading.tree import Block, Operation
from portable.core.compiler.writing import emit, instructions
from portable.core.compiler.writing.lines import builder
from portable.core.compiler.writing.values import Value
from portable.core.machines.cpu.lanes import CpuTarget
from portable.watch import counts, debug

from .test_layers import SOURCES, tree, within

ROOMS = writing, machines, debug, counts
MOST, DEEP = 60, 2  # methods of a class, inherited ones included; depth of inheritance
ANYWHERE = machines.__name__ + ".contract"  # the interface of machines


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_classes_are_small(room):
    kinds = types.FunctionType, property, staticmethod, classmethod
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        for _, cls in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if cls.__module__ == found.name:
                lineage = [base for base in cls.__mro__ if base.__module__.startswith("portable")]
                own = {n for base in lineage for n, value in vars(base).items() if isinstance(value, kinds)}
                deep = sum(base.__module__ != ANYWHERE for base in lineage)
                assert len(own) <= MOST and (deep <= DEEP or room in (debug, counts)), cls


def made_up(node):
    """Return True if a node computes an attribute's name from strings, makes a class by a call, or defines
    attributes dynamically.
    """
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__getattribute__")
    called = ast.unparse(node.func)
    if called in ("getattr", "setattr", "hasattr"):
        return isinstance(node.args[1], (ast.BinOp, ast.JoinedStr))
    return called.endswith("__dict__.update") or called == "type" and len(node.args) == 3


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_attributes_have_names(room):
    for path in SOURCES:
        if within(path, *room.__name__.split(".")):
            assert [f"{path}:{n.lineno}" for n in ast.walk(tree(path)) if made_up(n)] == []


def emitter():
    return emit.Emitter(CpuTarget, 1, "float64", False, "toy")


def test_no_part_holds_its_owner():
    lower = emitter()
    for part in (lower.ops, lower.memory, lower.watch):
        for held in getattr(part, "__dict__", {}).values():
            assert lower not in (held, getattr(held, "__self__", None))


def test_an_operation_is_a_row_and_a_function(monkeypatch):
    monkeypatch.setitem(
        instructions.EMITTED,
        "doubled",
        lambda here, o, a: Value(a.dtype, a.kind, builder.fadd(here.ops.get(a), here.ops.get(a))),
    )
    number = Operation("input", dtype="float64", kind="uniform")
    toy = Operation("doubled", [number], dtype="float64", kind="uniform")
    module, double = ir.Module("toy"), ir.DoubleType()
    function = ir.Function(module, ir.FunctionType(double, [double]), "toy")
    lower = emitter()
    lower.begin(function, "begin")
    here = lower.make_place()._replace(scopes=[emit.Scope()])
    here.scope.values[number] = Value("float64", "uniform", function.args[0])
    here.block(Block(body=[toy]))
    builder.ret(here.ops.get(here.value(toy)))
    assert "fadd double" in str(module)
