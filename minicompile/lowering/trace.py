"""Functional tracing: a torch-level FX graph becomes a flat list of functional ATen calls.

In: a `torch.fx.GraphModule` (torch-level or ATen-level) and its example inputs.
Out: a `Trace`: the recorded calls on fake tensors, what the outputs are, and which inputs were mutated to what.

The FX graph is run once on functional wrappers around fake tensors. PyTorch's functionalization turns every view and
every mutation into pure calls below the wrappers, where `Recorder` listens. A mutated input shows itself afterwards:
its wrapper holds another value than the one it was made with. A result that shares memory with an input, or with
another result, shows itself by the storage of its wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..body_calls import checkpointed
from ..ir.fake_strides import run
from ..ir.graph import Origin
from ..ir.origins import origin_of
from ..ir.retyped import lazy_bit, offset_between
from ..nests import leaves, requires_grad
from ..symbolic_forms import symbolic_form
from ..torch_compat import restore_modes, save_modes, storage_id
from . import rng_states
from .errors import LoweringError
from .functional import functional, functionalized, is_functional, same_strides, sync
from .kept_layouts import KeptLayouts
from .substitutes import SUBSTITUTES
from .writing_operators import without_writes


@dataclass
class Call:
    """One recorded ATen call: `func(*args, **kwargs)` gave `result`; tensors in all three are fake tensors."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    origin: Origin | None

    @property
    def results(self) -> tuple[Any, ...]:
        return tuple(leaves(self.result))


@dataclass
class InputAlias:
    """A result that is a view of an input, or (`whole`) the very input. `detached`: see `InputView`."""

    input: int
    value: torch.Tensor
    offset: Any
    whole: bool
    lazy: str
    detached: bool = False


@dataclass
class SharedValue:
    """A result whose memory other results share. `key` is equal for results that are one tensor object."""

    base: torch.Tensor
    value: torch.Tensor
    key: int
    lazy: str


@dataclass
class Trace:
    """What one functional run saw.

    Attributes:
        inputs: per placeholder, a fake tensor, a SymInt or an int.
        calls: in program order.
        outputs: per result: a fake tensor (memory of its own), InputAlias, SharedValue, SymInt, scalar or None.
        writes: (input index, the fake tensor it holds at the end), for each mutated input.
        own: how many calls, from the first, the program itself makes.
        constants: id of fake tensor → the real tensor it stands for.
        alive: whatever must not die while ids are in use.
    """

    inputs: list[Any]
    calls: list[Call] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    writes: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    own: int = 0
    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)


class HiddenWrite(Exception):
    """ATen's batch norm writes its running statistics without saying so in its schema; trace again (see `trace`)."""


def _writes_secretly(func: Any, args: tuple[Any, ...]) -> bool:
    """A batch norm in training that is given running statistics."""
    name = func._schema.name
    return name in _BATCH_NORMS and args[3] is not None and bool(args[5])


_BATCH_NORMS = frozenset({"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"})


class Recorder(TorchDispatchMode):
    """Notes every call that returns a tensor, or nothing (those act).

    Raises HiddenWrite for a call that writes unseen, or LoweringError if the trace must not be tried again.
    """

    sets_grad_mode = False  # values do not depend on it, and writing to a leaf would be refused

    def __init__(self, trace: Trace, may_retry: bool = False) -> None:
        super().__init__()
        self.trace = trace
        self.may_retry = may_retry
        self.origin: Origin | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if _writes_secretly(func, args):
            raise HiddenWrite() if self.may_retry else LoweringError(f"{func} writes to its arguments unseen")
        result = run(func, args, kwargs)
        if result is None or isinstance(result, (torch.Tensor, tuple, list)):
            self.trace.calls.append(Call(func, args, kwargs, result, self.origin))
        return result


def fake_mode_of(example_inputs: Any) -> Any:
    """The FakeTensorMode that the inputs were made in, or a new one."""
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensorMode

    return detect_fake_mode(example_inputs) or FakeTensorMode(allow_non_fake_inputs=True)


def fake_inputs(example_inputs: Any, mode: Any) -> list[Any]:
    """Fake tensors, symbolic ints and floats, and ints, one per example input.

    Raises LoweringError for a plain float, a sparse tensor and whatever else a placeholder cannot be here.
    """
    return [_fake_input(value, mode) for value in example_inputs]


def _fake_input(value: Any, mode: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_conj() or value.is_neg():
            raise LoweringError(f"an input is a {value.layout} tensor of {value.dtype} with lazy bits or no strides")
        return value if isinstance(value, FakeTensor) else mode.from_tensor(value, static_shapes=True)
    if isinstance(value, (torch.SymInt, torch.SymFloat)) or type(value) is int:
        return value
    raise LoweringError(f"a graph input of type {type(value).__name__}; only tensors and symbolic numbers can be one")


def trace(gm: torch.fx.GraphModule, example_inputs: Any) -> Trace:
    """Run `gm` functionally on the fake tensors of `example_inputs` (see the module's docstring).

    Composite operators are taken apart by ATen's own C++, which is fast, or by torch's Python dispatcher, which knows
    more: it keeps symbolic sizes symbolic, and says what batch norm writes. The second is used where needed.

    Raises:
        LoweringError: an input's metadata was changed in place, an output views an input in another dtype, a constant
            was mutated, the values of a tensor are needed, or any other failure to run the graph on fake tensors.
    """
    mode = fake_mode_of(example_inputs)
    with torch.inference_mode(False):  # functionalization counts versions, which inference tensors have not
        inputs = [_counting_versions(value, mode) for value in fake_inputs(example_inputs, mode)]
        try:
            return _trace(gm, inputs, mode, any(map(is_dynamic, inputs)))
        except HiddenWrite:
            return _trace(gm, inputs, mode, True)


def _counting_versions(value: Any, mode: Any) -> Any:
    """For a fake inference tensor, one like it that is none; anything else as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_inference():
        return value
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    offset = value.storage_offset()
    with mode:
        memory = torch.empty(max(offset + last + 1, 0), dtype=value.dtype, device=value.device)
        return memory.as_strided(value.shape, value.stride(), offset)


def _trace(gm: torch.fx.GraphModule, inputs: list[Any], mode: Any, python_dispatcher: bool) -> Trace:
    result = Trace(inputs)
    wrappers = list(map(functional, inputs))
    constants = wrap_constants(gm, result, mode)
    recorder = Recorder(result, may_retry=not python_dispatcher)
    with torch.no_grad(), functionalized(mode, recorder, python_dispatcher=python_dispatcher):
        outputs = interpret(gm, wrappers, constants, recorder)
        sync([*wrappers, *constants.values(), *outputs])
        result.own = len(result.calls)
    _read_back(result, wrappers, constants, outputs)
    _mark_detached(gm, result.outputs)
    return result


def is_dynamic(value: Any) -> bool:
    """Whether an input brings symbols along."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def wrap_constants(gm: torch.fx.GraphModule, result: Trace, mode: Any) -> dict[str, Any]:
    """The tensors that the graph reads as attributes, as functional wrappers (made before functionalization is on)."""
    wrapped = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr" and node.target not in wrapped:
            value = _attribute(gm, node.target)
            if isinstance(value, torch.Tensor):
                fake = mode.from_tensor(value, static_shapes=True)
                result.constants[id(fake)] = value
                result.alive.append(fake)
                value = functional(fake)
            wrapped[node.target] = value
    return wrapped


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _walk(gm: torch.fx.GraphModule, inputs: list[Any], constants: dict[str, Any], recorder: Recorder) -> list[Any]:
    """Walk the FX graph once; returns the flat list of its results."""
    env: dict[Any, Any] = {}
    placeholders, layouts = iter(inputs), KeptLayouts(inputs)
    for node in gm.graph.nodes:
        recorder.origin = origin_of(node)
        if node.op == "placeholder":
            env[node] = next(placeholders)
        elif node.op == "get_attr":
            env[node] = constants[node.target]
        elif node.op == "output":
            result = _fill(node.args[0], env)
            return list(result) if isinstance(result, (tuple, list)) else [result]
        elif node.target is not torch._C._set_grad_enabled or recorder.sets_grad_mode:
            args = _fill(node.args, env)
            layouts.before(args)
            env[node] = _evaluate(node, args, _fill(node.kwargs, env), recorder)
            layouts.after(node.target, args)
    raise LoweringError("the FX graph has no output node")


def interpret(gm: torch.fx.GraphModule, inputs: list[Any], constants: dict[str, Any], recorder: Recorder) -> list[Any]:
    """Walk the FX graph, where whatever goes wrong is a LoweringError that names the user's line."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    modes = save_modes()
    try:
        outputs = _walk(gm, inputs, constants, recorder)
    except (HiddenWrite, LoweringError):
        raise
    except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode) as error:
        raise LoweringError(f"{recorder.origin or 'an operator'} needs the values of a tensor: {error}") from error
    except Exception as error:  # from any operator
        raise LoweringError(f"{recorder.origin or 'the graph'} does not run on fake tensors: {error}") from error
    finally:
        restore_modes(modes)
    if any(isinstance(out, (tuple, list, dict)) for out in outputs):
        raise LoweringError("an output of the FX graph is a container; outputs are a flat tuple")
    return outputs


def _evaluate(node: Any, args: Any, kwargs: Any, recorder: Recorder) -> Any:
    if node.op == "call_method":
        method = SUBSTITUTES.get(getattr(torch.Tensor, node.target, None))
        return method(*args, **kwargs) if method is not None else getattr(args[0], node.target)(*args[1:], **kwargs)
    if node.op != "call_function":
        raise LoweringError(f"the FX node {node.format_node()} is a {node.op}, which has no functional run here")
    if rng_states.is_about_state(node.target):
        return rng_states.evaluate(node, args, kwargs, recorder)
    if node.target is checkpointed:
        body, _, *inputs = args  # its calls carry in their origins that they are to be computed again
        return tuple(_walk(body, inputs, dict(body.named_children()), recorder))
    target = SUBSTITUTES.get(node.target) or symbolic_form(node.target, args, kwargs) or without_writes(node.target)
    return (target or node.target)(*args, **kwargs)


def _fill(value: Any, env: dict[Any, Any]) -> Any:
    """FX arguments with the nodes replaced by their values."""
    if isinstance(value, torch.fx.Node):
        return env[value]
    if isinstance(value, (tuple, list)):
        items = [_fill(item, env) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: _fill(item, env) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_fill(value.start, env), _fill(value.stop, env), _fill(value.step, env))
    return value


def _read_back(result: Trace, wrappers: list[Any], constants: dict[str, Any], outputs: list[Any]) -> None:
    for name, wrapper in constants.items():
        if is_functional(wrapper) and id(torch._from_functional_tensor(wrapper)) not in result.constants:
            raise LoweringError(f"the constant {name} of the graph is mutated")
    for index, (wrapper, value) in enumerate(zip(wrappers, result.inputs, strict=True)):
        if is_functional(wrapper):
            _read_input(result, index, wrapper, value)
    result.outputs = _read_outputs(result, wrappers, outputs)
    result.alive += [wrappers, constants, outputs]


def _read_input(result: Trace, index: int, wrapper: Any, value: torch.Tensor) -> None:
    if wrapper.shape != value.shape or not same_strides(wrapper, value):
        raise LoweringError(f"input {index} has its shape or strides changed in place")
    final = torch._from_functional_tensor(wrapper)
    if final is not value:
        result.writes.append((index, final))


def _read_outputs(result: Trace, wrappers: list[Any], outputs: list[Any]) -> list[Any]:
    """Sort the results into values of their own, views of inputs, and values that share memory."""
    inputs = {storage_id(w): i for i, w in reversed(list(enumerate(wrappers))) if is_functional(w)}
    constants = {id(value): key for key, value in result.constants.items()}
    count: dict[int, int] = {}
    for out in outputs:
        if is_functional(out):
            count[storage_id(out)] = count.get(storage_id(out), 0) + 1

    def one(out: Any) -> Any:
        if not isinstance(out, torch.Tensor):
            return out
        if not torch._is_functional_tensor(out):
            return _constant_output(result, out, constants)
        value = torch._from_functional_tensor(out)
        index = inputs.get(storage_id(out))
        if index is not None:
            return _alias(index, wrappers, out, value)
        return value if count[storage_id(out)] == 1 else _shared(result, out, value)

    return [one(out) for out in outputs]


def _constant_output(result: Trace, out: torch.Tensor, constants: dict[int, int]) -> torch.Tensor:
    if id(out) not in constants:
        result.constants[id(out)] = out
        result.alive.append(out)
    return out


def _alias(index: int, wrappers: list[Any], out: torch.Tensor, value: torch.Tensor) -> InputAlias:
    whole = next((i for i, wrapper in enumerate(wrappers) if wrapper is out), None)
    if whole is not None:
        return InputAlias(whole, value, 0, True, "")
    source = wrappers[index]
    return InputAlias(index, value, offset_between(out, source), False, _lazy_bit(out, source))


def _mark_detached(gm: torch.fx.GraphModule, outputs: list[Any]) -> None:
    """Say which views of inputs require no gradient where these do: not told by the trace, which records none."""
    (output,) = gm.graph.find_nodes(op="output")
    placeholders = gm.graph.find_nodes(op="placeholder")
    for out, node in zip(outputs, leaves(output.args[0]), strict=True):
        if isinstance(out, InputAlias) and not out.whole and isinstance(node, torch.fx.Node):
            out.detached = _requires_grad(placeholders[out.input]) and not _requires_grad(node)


def _requires_grad(node: torch.fx.Node) -> bool:
    return requires_grad(node.meta.get("example_value"))


def _lazy_bit(view: torch.Tensor, base: torch.Tensor) -> str:
    lazy = lazy_bit(view, base)
    if lazy is None:
        raise LoweringError("an output is a view with lazy bits of several kinds")
    return lazy


def _shared(result: Trace, out: torch.Tensor, value: torch.Tensor) -> Any:
    """The result as a view of the first recorded tensor in its storage; alone if that cannot be told."""
    storage = storage_id(value)
    for call in result.calls:
        for candidate in call.results:
            if isinstance(candidate, torch.Tensor) and storage_id(candidate) == storage:
                return SharedValue(candidate, value, id(out), _lazy_bit(value, candidate))
    raise LoweringError("two outputs share memory that no recorded call made")
