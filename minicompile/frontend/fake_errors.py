"""What an exception means that an operator raises on fake tensors.

In: the exception, and the name of what was called. Out: the exception to raise instead. Fake tensors refuse for three
reasons: the numbers would have to be known (a break, or a new attempt with symbols), torch has no shape rule (a break),
or the program is wrong about its arguments (its own mistake, which it may catch).
"""

from __future__ import annotations

from ..shape_env import depends_on_data
from .breaks import FACTS_HINT, Break, BreakKind, UserError, unsupported_call
from .data_dependent import NeedsSymbols


def translated(name: str, error: Exception, may_become_symbols: bool) -> Exception:
    """The exception that says so in the terms of tracing.

    Args:
        name: what was called.
        may_become_symbols: whether sizes that depend on data are captured once the graph has symbols.
    """
    from torch._subclasses import fake_tensor as fakes

    if isinstance(error, (fakes.DataDependentOutputException, fakes.DynamicOutputShapeException)):
        if may_become_symbols:
            return NeedsSymbols(data=True)
        return Break(BreakKind.VALUE, f"The result of {name}() depends on the numbers in its input.")
    if isinstance(error, (fakes.UnsupportedOperatorException, fakes.UnsupportedFakeTensorException)):
        return unsupported_call(f"{name}()", "has no shape rule")
    if depends_on_data(error):
        return Break(BreakKind.VALUE, f"{name}() has to know a size that depends on data.", FACTS_HINT)
    if isinstance(error, NotImplementedError):
        return unsupported_call(f"{name}()")
    return UserError(error, is_torch=True)
