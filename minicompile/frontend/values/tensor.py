"""Tensors: nodes of the graph, with a fake tensor that knows everything but the numbers.

In: graph inputs and results of torch calls. Out: more graph nodes; constants for what the fake tensor knows (shape,
dtype, device…); a break for what only the numbers tell.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ...guards.kinds import AttrPresenceGuard, ConstantGuard
from ..breaks import Break, BreakKind, UserError, unsupported_call
from ..computed_sources import CallSource
from ..sources import AttrSource
from .base import Args, BoundMethod, Kwargs, Lazy, NotConstant, Value, fail
from .constant import ConstantValue
from .containers import SequenceValue
from .functions import MethodValue
from .indexing import put_at, select_symbolic, take_at, torch_key
from .tensor_data import read_data, set_data

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

FACTS = frozenset(
    {
        "dtype", "device", "layout", "ndim", "requires_grad", "is_cuda", "is_cpu", "is_sparse", "is_sparse_csr",
        "is_quantized", "is_nested", "is_meta", "is_mkldnn", "is_mps", "is_xpu", "is_leaf", "itemsize",
        "output_nr", "is_ipu", "is_vulkan", "is_maia", "is_mtia", "is_xla",
    }
)  # fmt: skip
"""Attributes that are constants once the fake tensor is known."""

_HISTORY = frozenset({"is_leaf", "output_nr"})
"""Facts about where a tensor comes from, which no guard on tensors covers."""

COMPUTED = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""Attributes that are tensors computed from this one."""

READS_NUMBERS = frozenset(
    {
        "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__",
        "__contains__", "__format__", "__repr__", "__str__", "is_nonzero", "equal", "allclose",
    }
)  # fmt: skip
"""Methods whose result depends on the numbers: the graph ends here."""

FOR_REAL = frozenset(
    {
        "backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_", "detach_",
        "data_ptr", "storage", "untyped_storage", "typed_storage", "_typed_storage", "share_memory_", "apply_", "map_",
        "map2_", "set_", "resize_", "resize_as_", "as_strided_", "unsqueeze_", "squeeze_", "t_", "transpose_",
        "swapaxes_", "swapdims_", "rename_", "rename", "align_to", "refine_names", "__setstate__", "__reduce__",
        "__reduce_ex__", "__deepcopy__", "__dlpack__", "__hash__", "storage_type", "to_sparse", "is_shared", "resize",
        "record_stream", "module_load",
    }
)  # fmt: skip
"""Methods that change what a tensor is, or reach for its memory: called for real between two graphs."""


TURNS = frozenset({"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "detach_"})
"""Methods that change how the tensor object itself lies or what it remembers, and write nothing: nodes of the graph for
tensors that the graph has made."""


class TensorValue(Value):
    """A tensor. `node` computes it, `fake` describes it; `real` is the tensor seen while tracing, for inputs only."""

    def __init__(
        self, node: torch.fx.Node, fake: torch.Tensor, source: Source | None = None, real: torch.Tensor | None = None
    ) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.real = real
        self.attributes: dict[str, Value] = {}
        """What the frame has set on it: `grad`, `data`, and names of the program's own."""
        self.is_new_leaf = False
        self.data: Value | None = None
        """What `data` gives, where that is an input of its own."""

    @property
    def graph_source(self) -> Source | None:
        """Where the graph reads it."""
        return self.source

    def python_type(self) -> type:
        return torch.nn.Parameter if isinstance(self.fake, torch.nn.Parameter) else torch.Tensor

    def describe(self) -> str:
        return self.source.describe() if self.source is not None else "a tensor"

    def truth(self, tr: Tracer) -> bool:
        raise Break(BreakKind.BRANCH, f"A branch depends on the numbers in {self.describe()}.")

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "shape":
            return self.shape(tr)
        if name in FACTS:
            return self._fact(tr, name)
        if name == "data":
            return read_data(tr, self)
        if name == "grad_fn" and not self._fact(tr, "requires_grad").truth(tr):
            return ConstantValue(None)
        if name in COMPUTED:
            return tr.torch_call(getattr, [self, ConstantValue(name)], {})
        if name == "nbytes":
            return tr.number(self.fake.numel() * self.fake.element_size())
        if name == "__class__":
            return tr.constant(self.python_type())
        if self.real is not None and (name in vars(self.real) or name == "grad"):
            assert self.source is not None
            return Lazy(getattr(self.real, name), AttrSource(self.source, name))
        return self._method(tr, name)

    def _fact(self, tr: Tracer, name: str) -> Value:
        if name in ("requires_grad", "is_leaf") and any(body.is_transform for body in tr.graph.bodies):
            raise self.cannot(f"reading {name!r}, which a transform of torch.func changes,")
        if name in _HISTORY and self.real is not None and self.real.requires_grad:
            assert self.source is not None
            tr.guard(ConstantGuard(AttrSource(self.source, name), getattr(self.real, name)))
        try:
            return tr.constant(getattr(self.fake, name))
        except Exception as error:  # torch's answer to this tensor
            raise UserError(error, is_torch=True) from error

    def _method(self, tr: Tracer, name: str) -> Value:
        found = getattr(torch.Tensor, name, None)
        if found is None:
            fail(AttributeError(f"'{self.python_type().__name__}' object has no attribute '{name}'"), is_exact=True)
        if isinstance(found, types.FunctionType) and (found.__module__ or "").partition(".")[0] != "torch":
            return MethodValue(tr.wrap(found, AttrSource(tr.anchor(torch.Tensor), name)), self)  # the program's own
        if not callable(found):
            raise self.cannot(f"reading attribute {name!r}")
        return TensorMethod(self, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if name == "data":
            return set_data(tr, self, value.realize(tr))
        is_own = not hasattr(torch.Tensor, name) and name.isidentifier()
        is_grad = name == "grad" and self.source is not None and self._may_be_grad(value.realize(tr))
        if not (is_own or is_grad):
            raise self.cannot(f"setting attribute {name!r}")
        self.attributes[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)

    def _may_be_grad(self, value: Value) -> bool:
        """Whether eager takes a value as this tensor's gradient without looking further."""
        if isinstance(value, ConstantValue):
            return value.value is None
        if not isinstance(value, TensorValue) or value is self:
            return False
        mine, other = self.fake, value.fake
        return (mine.dtype, mine.device, mine.layout) == (other.dtype, other.device, other.layout) and (
            mine.shape == other.shape
        )

    def delattr(self, tr: Tracer, name: str) -> None:
        if name != "grad":
            raise self.cannot(f"deleting attribute {name!r}")
        self.setattr(tr, name, ConstantValue(None))

    def has_attr(self, tr: Tracer, name: str) -> bool:
        if hasattr(torch.Tensor, name) or name in self.attributes:
            return True
        if self.real is None:
            return False
        assert self.source is not None
        present = hasattr(self.real, name)
        tr.guard(AttrPresenceGuard(self.source, name, present))
        return present

    def shape(self, tr: Tracer) -> SequenceValue:
        """The sizes as a torch.Size."""
        return SequenceValue(torch.Size, [tr.number(size) for size in self.fake.shape])

    def getitem(self, tr: Tracer, key: Value) -> Value:
        key = torch_key(tr, key)
        selected = select_symbolic(tr, self, key) or take_at(tr, self, key)
        return selected if selected is not None else tr.torch_call(operator.getitem, [self, key], {})

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        key = torch_key(tr, key)
        if not put_at(tr, self, key, value):
            tr.torch_call(operator.setitem, [self, key, value], {})

    def length(self, tr: Tracer) -> int:
        if self.fake.dim() == 0:
            fail(TypeError("len() of a 0-d tensor"))
        tr.changed()
        return int(self.fake.shape[0])

    def items(self, tr: Tracer) -> list[Value]:
        if self.fake.dim() == 0:
            fail(TypeError("iteration over a 0-d tensor"))
        self.length(tr)
        return tr.torch_call(torch.unbind, [self], {}).items(tr)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        fail(TypeError("'Tensor' object is not callable"))

    def contains(self, tr: Tracer, item: Value) -> bool:
        raise Break(BreakKind.VALUE, f"Membership depends on the numbers in {self.describe()}.")

    def build(self, glue: Glue) -> str:
        node = self.node
        if self.is_new_leaf:
            plain = glue.tr.torch_call("detach", [self], {})
            assert isinstance(plain, TensorValue)
            node = plain.node
        made = glue.graph_output(node)
        if self.is_new_leaf:
            glue.fill(lambda: f"{made}.requires_grad_()")
        for name, value in self.attributes.items():
            glue.fill(lambda name=name, value=value: f"{made}.{name} = {glue.ref(value)}")  # type: ignore[misc]
        return made


class TensorMethod(BoundMethod):
    """A method of a tensor, bound."""

    owner: TensorValue

    def python_type(self) -> type:
        return type(torch.zeros(()).add)

    def describe(self) -> str:
        return f"Tensor.{self.name}"

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return call_method(tr, self.owner, self.name, args, kwargs)


def call_method(tr: Tracer, owner: TensorValue, name: str, args: Args, kwargs: Kwargs) -> Value:
    """`owner.name(*args, **kwargs)`."""
    from .tensor_subclasses import answered

    return answered(tr, name, [owner, *args], kwargs, lambda: _call_method(tr, owner, name, args, kwargs))


def _call_method(tr: Tracer, owner: TensorValue, name: str, args: Args, kwargs: Kwargs) -> Value:
    if name == "numpy" and not args and not kwargs:
        from .arrays import of_tensor

        return of_tensor(tr, owner)
    if name in READS_NUMBERS:
        number = read_number(tr, owner, name) if not args and not kwargs else None
        if number is not None:
            return number
        raise Break(BreakKind.VALUE, f"Tensor.{name}() reads the numbers of {owner.describe()}.")
    if name in TURNS and owner.source is None and len(tr.graph.bodies) == 1:
        return tr.torch_call(name, [owner, *args], kwargs)
    if name in FOR_REAL and name not in KNOWN_METHODS:
        raise unsupported_call(f"Tensor.{name}()", "changes or exposes what the graph holds")
    known = KNOWN_METHODS.get(name)
    if known is not None:
        try:
            result = known(tr, owner, *args, **kwargs)
        except TypeError as error:
            raise UserError(error, is_torch=True) from error
        if result is not None:
            return result
    return tr.torch_call(name, [owner, *args], kwargs)


def read_number(tr: Tracer, owner: TensorValue, name: str) -> Value | None:
    """What `item` and the like give, where that is captured as a number of the graph."""
    from ..data_dependent import item

    if name == "item" or (name == "__index__" and not owner.fake.dtype.is_floating_point):
        return item(tr, owner)
    if name in ("__int__", "__float__"):
        number = item(tr, owner)
        return number if number is None else _converted(tr, {"__int__": int, "__float__": float}[name], number)
    return _listed(tr, owner) if name == "tolist" and tr.graph.capture.scalars else None


def _converted(tr: Tracer, kind: type, number: Value) -> Value:
    from .builtins import RULES

    result = RULES[kind](tr, number)
    assert result is not None
    return result


_LISTED = 64
"""Elements of a tensor that may become a list of numbers in a graph."""


def _listed(tr: Tracer, owner: TensorValue) -> Value | None:
    """`owner.tolist()`."""
    from ..data_dependent import becomes_number, item

    sizes = owner.fake.shape
    if not sizes:
        return item(tr, owner)
    if any(type(size) is not int for size in sizes) or owner.fake.numel() > _LISTED:
        return None
    if not becomes_number(owner.fake):
        return None
    rows = [tr.torch_call("select", [owner, ConstantValue(0), ConstantValue(i)], {}) for i in range(sizes[0])]
    items = [_listed(tr, row) for row in rows if isinstance(row, TensorValue)]
    return SequenceValue(list, [item for item in items if item is not None])


# ---- methods whose result is known from the fake tensor ----


def _size(tr: Tracer, owner: TensorValue, dim: Value | None = None) -> Value:
    shape = owner.shape(tr)
    return shape if dim is None else shape.getitem(tr, dim.realize(tr))


def _stride(tr: Tracer, owner: TensorValue, dim: Value | None = None) -> Value:
    strides = SequenceValue(tuple, [tr.number(stride) for stride in owner.fake.stride()])
    return strides if dim is None else strides.getitem(tr, dim.realize(tr))


def _is_contiguous(tr: Tracer, owner: TensorValue, memory_format: Value | None = None) -> Value:
    if memory_format is None:
        return ConstantValue(owner.fake.is_contiguous())
    return ConstantValue(owner.fake.is_contiguous(memory_format=memory_format.realize(tr).const(tr)))


def _storage_offset(tr: Tracer, owner: TensorValue) -> Value:
    from ...guards.tensors import StorageOffsetGuard

    for value in tr.graph.inputs_of(owner.node):
        if value.source is not None and value.real is not None:
            tr.guard(StorageOffsetGuard(value.source, value.real.storage_offset()))
    return tr.number(owner.fake.storage_offset())


def _fact_method(name: str) -> Callable[..., Value]:
    def read(tr: Tracer, owner: TensorValue) -> Value:
        return tr.number(getattr(owner.fake, name)())

    return read


def _is_view(tr: Tracer, owner: TensorValue) -> Value:
    if owner.real is None or owner.source is None:
        return ConstantValue(owner.fake._is_view())
    is_view = owner.real._is_view()
    tr.guard(ConstantGuard(CallSource(AttrSource(owner.source, "_is_view")), is_view))
    return ConstantValue(is_view)


def _type(tr: Tracer, owner: TensorValue, *args: Value, **kwargs: Value) -> Value | None:
    return None if args or kwargs else ConstantValue(owner.fake.type())


def _len(tr: Tracer, owner: TensorValue) -> Value:
    return ConstantValue(owner.length(tr))


def _iter(tr: Tracer, owner: TensorValue) -> Value:
    return owner.iterator(tr)


KNOWN_METHODS: dict[str, Callable[..., Value | None]] = {
    "size": _size,
    "stride": _stride,
    "is_contiguous": _is_contiguous,
    "storage_offset": _storage_offset,
    "type": _type,
    "_is_view": _is_view,
    "__len__": _len,
    "__iter__": _iter,
    **{
        name: _fact_method(name)
        for name in (
            "dim", "ndimension", "numel", "nelement", "element_size", "get_device", "is_floating_point", "is_complex",
            "is_signed", "is_inference", "is_conj", "is_neg",
        )
    },
}  # fmt: skip

__all__ = ["NotConstant", "TensorMethod", "TensorValue", "call_method"]
