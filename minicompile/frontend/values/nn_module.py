"""nn.Module objects: parameters and buffers become graph inputs, `forward` is inlined.

In: modules from outside. Out: members read from nn.Module's own registries, cheaper than through `__getattr__`, with
guards that nothing hides them; calls as calls of `forward`, guarded by the absence of hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.modules.module as torch_module
from torch.nn.modules.lazy import LazyModuleMixin

from ...guards.kinds import AttrPresenceGuard, LengthGuard, NoModuleHooksGuard
from ..breaks import SkipFrame, UserError, unsupported_call
from ..class_lookup import static_lookup
from ..sources import AttrSource, ModuleMemberSource, RegistrySource
from .base import Args, Kwargs, Lazy, Value, fail
from .constant import ConstantValue
from .functions import is_method
from .objects import ObjectValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..sources import Source
    from ..tracer import Tracer

REGISTRIES = ("_parameters", "_buffers", "_modules")
_GLOBAL_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


class ModuleValue(ObjectValue):
    """An nn.Module."""

    plain_setattr_replay = True
    registries = REGISTRIES

    def __init__(self, module: torch.nn.Module, source: Source) -> None:
        super().__init__(type(module), module, source)

    def describe(self) -> str:
        assert self.source is not None
        return f"{self.source.describe()} (a {self.cls.__name__})"

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        if name in REGISTRIES:
            if any(owner == id(self.obj) for owner, _ in tr.stand_ins):
                raise self.cannot(f"reading {name!r}, within torch.func.functional_call(),")
            assert self.source is not None
            return Lazy(self.obj.__dict__[name], RegistrySource(self.source, name))
        return super().own_attribute(tr, name)

    def special(self, tr: Tracer, name: str) -> Value | None:
        """What nn.Module's `__getattr__` finds; a class with its own `__getattr__` is asked that way first."""
        if static_lookup(self.cls, "__getattr__") is not torch.nn.Module.__getattr__:
            return None
        return self.member(tr, name)

    def member(self, tr: Tracer, name: str) -> Value | None:
        """A parameter, buffer or submodule."""
        from ...guards.kinds import InstanceAttrAbsentGuard

        assert self.source is not None
        standing_in = tr.stand_ins.get((id(self.obj), name))
        if standing_in is not None:
            tr.guard(InstanceAttrAbsentGuard(self.source, name))
            return standing_in
        for registry in REGISTRIES:
            members = self.obj.__dict__.get(registry, {})
            tracked = tr.tracked_dict(members)
            if tracked is not None and name in tracked.entries:
                tr.guard(InstanceAttrAbsentGuard(self.source, name))
                return tracked.entries[name]
            if tracked is None and name in members:
                tr.guard(InstanceAttrAbsentGuard(self.source, name))
                return Lazy(members[name], ModuleMemberSource(self.source, registry, name))
        return None

    def missing(self, tr: Tracer, name: str, error: UserError) -> Value:
        if static_lookup(self.cls, "__getattr__") is not torch.nn.Module.__getattr__:
            return super().missing(tr, name, error)
        fail(AttributeError(f"'{self.cls.__name__}' object has no attribute '{name}'"), is_exact=True)

    def plain_setattr(self, tr: Tracer, name: str, value: Value) -> bool:
        """nn.Module's `__setattr__` registers parameters and modules; anything else it just sets."""
        if static_lookup(self.cls, "__setattr__") is not torch.nn.Module.__setattr__:
            return False
        known = any(name in self.obj.__dict__.get(registry, {}) for registry in REGISTRIES)
        if (id(self.obj), name) in tr.stand_ins:
            raise self.cannot(f"setting {name!r}, within torch.func.functional_call(),")
        value = value.realize(tr)
        registers = issubclass(value.python_type(), torch.nn.Module) or value.python_type() is torch.nn.Parameter
        if registers or (known and not (isinstance(value, TensorValue) and name in self.obj._buffers)):
            raise self.cannot(f"registering {name!r}")
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if static_lookup(self.cls, "__call__") is not torch.nn.Module.__dict__["__call__"]:
            return super().call(tr, args, kwargs)
        self._require_parameters(tr)
        if self.has_forward_hooks():
            return self.getattr(tr, "_call_impl").realize(tr).call(tr, args, kwargs)
        self.require_no_hooks(tr)
        return self.getattr(tr, "forward").realize(tr).call(tr, args, kwargs)

    def _require_parameters(self, tr: Tracer) -> None:
        """A lazy module makes its parameters in its first call: that is eager's, the next one is compiled."""
        if isinstance(self.obj, LazyModuleMixin) and "_initialize_hook" in self.obj.__dict__:
            assert self.source is not None
            tr.guard(AttrPresenceGuard(self.source, "_initialize_hook", True))
            raise SkipFrame(f"{self.describe()} is lazy, and makes its parameters in this call", all_below=True)

    def has_forward_hooks(self) -> bool:
        """Whether `_call_impl` has to be traced, for hooks that run before and after `forward` and nowhere else."""
        present = [hooks for hooks in NoModuleHooksGuard.HOOKS if getattr(self.obj, hooks)]
        present += [hooks for hooks in _GLOBAL_HOOKS if getattr(torch_module, hooks)]
        if not present or "_call_impl" in self.obj.__dict__ or self.obj._compiled_call_impl is not None:
            return False
        return all(hooks.endswith(("_forward_hooks", "_forward_pre_hooks")) for hooks in present)

    def require_no_hooks(self, tr: Tracer) -> None:
        """Guard that calling the module is calling `forward`. Raises Break if it is not."""
        assert self.source is not None
        has_hooks = any(getattr(self.obj, hooks) for hooks in NoModuleHooksGuard.HOOKS)
        if has_hooks or any(getattr(torch_module, hooks) for hooks in _GLOBAL_HOOKS):
            raise unsupported_call(f"{self.describe()}", "runs hooks")
        if "_call_impl" in self.obj.__dict__ or self.obj._compiled_call_impl is not None:
            raise unsupported_call(f"{self.describe()}", "was replaced by a compiled call")
        tr.guard(NoModuleHooksGuard(self.source))
        owner = tr.anchor(torch_module)
        for hooks in _GLOBAL_HOOKS:
            tr.guard(LengthGuard(AttrSource(owner, hooks), 0))


def make_module(tr: Tracer, module: torch.nn.Module, source: Source) -> Value:
    """The value of a module; one that is not ordinary Python is opaque."""
    from .base import OpaqueValue

    tr.guard_type(source, module)
    is_foreign = isinstance(module, torch.jit.ScriptModule) or type(module).__module__.startswith("torch._dynamo")
    if is_foreign or not is_method(static_lookup(type(module), "forward")):
        return OpaqueValue(module, source)
    tr.guard_names(type(module))
    return ModuleValue(module, source)


__all__ = ["ConstantValue", "ModuleValue", "make_module"]
