"""The two ways in which lowering says no.

`LoweringError` reaches the caller: the graph as a whole has no functional form here and is run by eager.
`NotConvertible` never leaves this folder: a rule raises it, and its one call becomes an extern node.
"""

from __future__ import annotations


class LoweringError(RuntimeError):
    """The graph cannot be lowered; the message names the construct. The caller runs the graph in eager instead."""


class NotConvertible(Exception):
    """A rule does not cover these arguments (dtype, device, mode): the call stays ATen's."""
