"""PyTorch's own operator database, compiled and compared with eager: values, types, shapes, strides, written inputs.

In: an operator of `op_db` and a dtype. Out: nothing, or an AssertionError that says what differs.

    python -m tests.compare.operator_database [--only REGEX] [--dtypes float32 bfloat16 int64 bool]

tries all of them (the suite tries a sample).
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import minicompile

SAMPLES = 2
TOLERANCES = {torch.float64: 1e-7, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2,
              torch.complex64: 2e-5}
UNINITIALISED = re.compile(r"(new_)?empty|resize_")
"""Results without defined values."""


def operators() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def dtypes_of(op: Any, wanted: tuple[torch.dtype, ...]) -> list[torch.dtype]:
    supported = op.supported_dtypes("cpu")
    return [d for d in wanted if d in supported] or [d for d in (torch.int64, torch.complex64) if d in supported][:1]


def check_operator(op: Any, dtype: torch.dtype) -> int:
    """Compare the first samples; returns how many eager could run. Raises AssertionError."""
    done = 0
    for args, kwargs in _samples(op, dtype):
        function = op.get_op()
        try:
            eager, eager_inputs = _call(function, args, kwargs, 7)
        except Exception:
            continue  # a sample that eager refuses
        random = bool(UNINITIALISED.match(op.name)) or not _same(_call(function, args, kwargs, 8)[0], eager)
        minicompile.reset()
        ours, our_inputs = _call(minicompile.compile(_frame_around(function)), args, kwargs, 7)
        _compare(ours, eager, op, dtype, values=not random)
        _compare(our_inputs, eager_inputs, op, dtype)
        done += 1
    return done


def _frame_around(function: Any) -> Any:
    """A Python function that calls it: there has to be a frame to compile."""
    return lambda *args, **kwargs: function(*args, **kwargs)


def _samples(op: Any, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    torch.manual_seed(1234)
    try:
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES))
    except Exception:
        return  # an optional package, or a library that this torch was built without
    for sample in samples:
        yield (sample.input, *sample.args), sample.kwargs


def _call(function: Any, args: Any, kwargs: Any, seed: int) -> tuple[Any, Any]:
    """Result, and the inputs as left behind."""
    fresh = pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, (args, kwargs))
    torch.manual_seed(seed)
    return function(*fresh[0], **fresh[1]), fresh


def _same(one: Any, other: Any) -> bool:
    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    try:
        for a, b in pairs:
            if isinstance(a, torch.Tensor):
                assert_close(_dense(a), _dense(b), rtol=0, atol=0, equal_nan=True)
    except AssertionError:
        return False
    return True


def _dense(x: torch.Tensor) -> torch.Tensor:
    x = x.dequantize() if x.is_quantized else x
    return x.resolve_conj().resolve_neg()


def _compare(ours: Any, eager: Any, op: Any, dtype: torch.dtype, values: bool = True) -> None:
    mine, my_shape = pytree.tree_flatten(ours)
    want, its_shape = pytree.tree_flatten(eager)
    assert str(my_shape) == str(its_shape)
    for one, other in zip(mine, want, strict=True):
        if not isinstance(other, torch.Tensor):
            assert not values or one == other or other != other, f"{one!r} for {other!r}"
            continue
        meta = [(x.dtype, x.shape, x.layout, _places(x)) for x in (one, other)]
        assert meta[0] == meta[1], f"{meta[0]} for {meta[1]}"
        if values:
            tolerance = max(TOLERANCES.get(other.dtype, 0), _own_tolerance(op, dtype))
            tolerance = tolerance if other.is_floating_point() or other.is_complex() else 0
            assert_close(_dense(one), _dense(other), rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False)


def _places(x: torch.Tensor) -> list[tuple[int, int]]:
    """Sizes and strides that can be told apart. Complex results are left out: torch's fake tensors do not know how the
    FFT library at hand lays out its results, and those stay as the library returns them."""
    if x.is_complex() or x.layout is not torch.strided or x.numel() == 0:
        return []
    return [pair for pair in zip(x.shape, x.stride(), strict=True) if pair[0] != 1]


def _own_tolerance(op: Any, dtype: torch.dtype) -> float:
    """What the database itself says about an operator's accuracy."""
    from torch.testing._internal.common_device_type import toleranceOverride

    parts = [part for decorator in op.decorators or () for part in getattr(decorator, "decorators", [decorator])]
    found = [p.d[dtype] for p in parts if isinstance(p, toleranceOverride) and dtype in p.d]
    return max((max(tolerance.atol, tolerance.rtol) for tolerance in found), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "int64", "bool"])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    wanted = tuple(getattr(torch, name) for name in args.dtypes)
    done = bad = 0
    for name, op in operators().items():
        for dtype in dtypes_of(op, wanted) if re.search(args.only, name) else ():
            try:
                done += check_operator(op, dtype) > 0
            except Exception as error:
                bad += 1
                print(f"{name}[{dtype}]: {type(error).__name__}: {' '.join(str(error).split())[:250]}", flush=True)
    print(f"{done} operators and dtypes agree, {bad} do not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
