"""Strides of fake results: eager's, for every elementwise operator over all pairs of layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import minicompile
from minicompile.ir.fake_strides import ELEMENTWISE, WITH_CHANNELS, EagerStrides
from minicompile.torch_compat import quiet_fake_tensors

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT,
    "sliced": lambda x: torch.stack([x, x], -1)[..., 0],
    "one row": lambda x: x[:1],
    "one column": lambda x: x[:, :1],
    "number": lambda x: x[0, 0],
}


def elementwise() -> list[Any]:
    """ATen's functional operators with the tag, and those of the table, that take up to three tensors."""
    packets = [getattr(torch.ops.aten, name) for name in sorted(dir(torch.ops.aten))]
    overloads = [getattr(p, o) for p in packets if isinstance(p, torch._ops.OpOverloadPacket) for o in p.overloads()]
    return [
        func for func in overloads
        if (torch.Tag.pointwise in func.tags or func in ELEMENTWISE) and not func._schema.is_mutable
        and not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")  # never whole
        and len(func._schema.returns) == 1 and not func._schema.returns[0].alias_info and 1 <= len(tensors(func)) <= 3
    ]  # fmt: skip


def tensors(func: Any) -> list[Any]:
    return [a for a in func._schema.arguments if str(a.type) == "Tensor" and not a.has_default_value()]


SCALARS = {"number": 2, "Scalar": 2, "float": 2.0, "int": 1, "bool": False, "Optional[str]": "floor", "str": "none"}


def arguments(func: Any, dtype: torch.dtype) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    x = (torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1).to(dtype)
    count = len(tensors(func))
    some = list(LAYOUTS.values()) if count < 3 else [LAYOUTS[n] for n in ("plain", "transposed", "one row")]
    for layouts in itertools.product(some, repeat=count):
        rest = iter(layouts)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for a in func._schema.arguments:
            if str(a.type) == "Tensor" and not a.has_default_value():
                value = next(rest)(x.bool() if a.name in ("mask", "condition") else x)
            elif a.has_default_value():
                continue
            else:
                value = SCALARS.get(str(a.type))
            if a.kwarg_only:
                kwargs[a.name] = value
            else:
                args.append(value)
        yield args, kwargs


def places(x: torch.Tensor) -> list[tuple[int, int]]:
    return [pair for pair in zip(x.shape, x.stride(), strict=True) if pair[0] != 1]


def fake_of(mode: Any, func: Any, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    named = {name: mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for name, arg in kwargs.items()}
    with mode, EagerStrides():
        return func(*fakes, **named)


def test_every_elementwise_operator_has_eagers_strides() -> None:
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    mode = FakeTensorMode()
    seen, wrong = set(), set()
    for func in elementwise():
        for dtype in (torch.float32, torch.int64):
            if func in seen:
                break
            for args, kwargs in arguments(func, dtype):
                try:
                    eager = func(*args, **kwargs)
                except (RuntimeError, TypeError, NotImplementedError, IndexError):
                    continue
                try:
                    with quiet_fake_tensors():
                        fake = fake_of(mode, func, args, kwargs)
                except DataDependentOutputException:
                    continue  # it has to know a number
                seen.add(func)
                if places(fake) != places(eager):
                    wrong.add(str(func))
    assert not wrong
    assert ELEMENTWISE.keys() <= seen and len(seen) > 200


def norm(name: str, *rest: Any) -> tuple[str, Callable[[torch.Tensor], list[Any]]]:
    return name, lambda x: [None, None, *(torch.ones(x.shape[1]) for _ in range(2 if len(rest) > 2 else 0)), *rest]


ARGUMENTS: list[tuple[str, Callable[[torch.Tensor], list[Any]]]] = [
    norm("native_batch_norm.default", True, 0.1, 1e-5), norm("native_batch_norm.default", False, 0.1, 1e-5),
    norm("_native_batch_norm_legit.default", True, 0.1, 1e-5),
    ("_native_batch_norm_legit.no_stats", lambda x: [None, None, True, 0.1, 1e-5]),
    ("_native_batch_norm_legit_no_training.default",
     lambda x: [None, None, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), 0.1, 1e-5]),
    ("channel_shuffle.default", lambda x: [2]),
    ("max_unpool2d.default", lambda x: [torch.zeros_like(x).long(), [8, 8]]),
    ("reflection_pad3d.default", lambda x: [[1] * 6]), ("replication_pad3d.default", lambda x: [[1] * 6]),
    ("roll.default", lambda x: [[1], [1]]), ("roll.default", lambda x: [[1, 1], [1, 2]]),
    ("roll.default", lambda x: [[5]]),
    ("rrelu_with_noise.default", lambda x: [torch.zeros_like(x), 0.1, 0.3, False]),
]  # fmt: skip


@pytest.mark.parametrize("name,rest", ARGUMENTS)
def test_operators_over_channels_have_eagers_strides(name: str, rest: Callable[[torch.Tensor], list[Any]]) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    packet, overload = name.split(".")
    func, mode, seen = getattr(getattr(torch.ops.aten, packet), overload), FakeTensorMode(), 0
    for shape in ((2, 6, 4), (2, 6, 4, 3), (2, 6, 4, 3, 2)):
        for turn in itertools.permutations(range(len(shape))):
            x = torch.rand([shape[i] for i in turn]).permute([turn.index(i) for i in range(len(shape))])
            try:
                eager = func(x, *rest(x))
            except RuntimeError:
                continue  # not of so many dimensions
            with quiet_fake_tensors():
                fake = fake_of(mode, func, [x, *rest(x)], {})
            for one, other in zip(*map(torch.utils._pytree.tree_leaves, (fake, eager)), strict=True):
                assert places(one) == places(other), (shape, turn)
            seen += 1
    assert seen >= 24


def test_the_table_of_operators_over_channels_is_tested() -> None:
    assert {func.name().partition("::")[2] for func in WITH_CHANNELS} <= {
        name.removesuffix(".default") for name, _ in ARGUMENTS
    } | {"_native_batch_norm_legit_functional"}


PROGRAMS = {
    "results": lambda a, b: (torch.copysign(a, b), a // b, torch.xlogy(a, b), torch.logical_or(a, b), torch.pow(2, a)),
    "asked while tracing": lambda a, b: a * 2 if torch.copysign(a, b).is_contiguous() else b * 3,
    "in place": lambda a, b: a.clone().copysign_(b).floor_divide_(b),
    "before a reduction": lambda a, b: torch.floor_divide(a, b).reshape(-1).cumsum(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("first,second", [("transposed", "plain"), ("plain", "transposed"), ("one row", "transposed")])
def test_programs_have_eagers_strides(name: str, first: str, second: str) -> None:
    x = torch.rand(5, 5, generator=torch.Generator().manual_seed(1)) + 1
    a, b = LAYOUTS[first](x), LAYOUTS[second](x.flip(0))
    if name == "in place":
        a = a.expand(5, 5).clone()
    function = PROGRAMS[name]
    want, got = (torch.utils._pytree.tree_leaves(f(a, b)) for f in (function, minicompile.compile(function)))
    for one, other in zip(want, got, strict=True):
        torch.testing.assert_close(other, one)
        assert other.stride() == one.stride()


SYMBOLIC = {
    "contiguous": lambda a: (torch.pow(2.0, a), a.roll(1, 0)),
    "gradients": lambda a: torch.ldexp(a, a.detach()),
    "norm": lambda a: torch.nn.functional.batch_norm(a, None, None, training=True),
    "channels": lambda a: torch.channel_shuffle(a[None, :, None], 5).roll(1, 1),
}


@pytest.mark.parametrize("name", SYMBOLIC)
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_symbolic_sizes(name: str, layout: str) -> None:
    compiled = minicompile.compile(SYMBOLIC[name], dynamic=True)
    with minicompile.config.patch(strict=True):
        for size in (5, 10):
            x = LAYOUTS[layout](torch.rand(size, size, generator=torch.Generator().manual_seed(1))).requires_grad_()
            want, got = (torch.utils._pytree.tree_leaves(f(x)) for f in (SYMBOLIC[name], compiled))
            for one, other in zip(want, got, strict=True):
                torch.testing.assert_close(other, one)
                assert other.stride() == one.stride()
                other.sum().backward(retain_graph=True)
