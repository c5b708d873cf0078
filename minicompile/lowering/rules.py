"""The registry of lowering rules: one small function per ATen operator or family of operators.

A rule is called as `rule(c, *args, **kwargs)`, where `c` is the Converter (see convert.py), and the arguments are the
call's, with Nodes for tensors and Dims for symbolic ints. It returns the result's Node, a list of Nodes (None for a
result nobody uses) where ATen returns several, or raises NotConvertible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Rule = Callable[..., Any]

RULES: dict[Any, Rule] = {}
"""OpOverload → rule."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register for ATen overloads, `"add.Tensor"`, or for all overloads of a name, `"abs"`; prims as `"prims::name"`.

    Overloads that write into an `out` argument never reach a rule: tracing has made everything functional.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            for overload in _overloads(name):
                RULES[overload] = function
        return function

    return register


def has_operator(name: str) -> bool:
    """Whether this release's ATen has an operator of the name."""
    return hasattr(torch.ops.aten, name)


def _overloads(name: str) -> list[Any]:
    space, _, name = name.rpartition("::")
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, space or "aten"), name)
    names = [overload] if overload else [o for o in packet.overloads() if not o.endswith("out")]
    return [getattr(packet, overload) for overload in names]
