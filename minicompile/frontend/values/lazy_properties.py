"""`torch.distributions.utils.lazy_property`, asked for on its class.

In: the call by which it then makes an object that is a property as well. Out: such an object. Its constructor is
`property`'s, in C. What it holds is a function of the class, so one object, made now, is as good as one a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.distributions.utils import _lazy_property_and_property

from ..breaks import unsupported_call
from .base import Value
from .callables import rule
from .functions import FunctionValue

if TYPE_CHECKING:
    from ..tracer import Tracer


@rule(_lazy_property_and_property)
def _made(tr: Tracer, wrapped: Value) -> Value:
    function = wrapped.realize(tr)
    if not isinstance(function, FunctionValue) or function.fn is None:
        raise unsupported_call("lazy_property.__get__()")
    made = _lazy_property_and_property(function.fn)
    return tr.wrap(made, tr.anchor(made))
