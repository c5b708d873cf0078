"""The FX graph while it is being traced.

In: tensors from outside with their sources, torch calls with values as operands.
Out: placeholders (one per tensor object, and one per size symbol), call nodes with fake results in
`meta["example_value"]` and the user's place in `meta["origin"]`; in the end a GraphModule and the order of its inputs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ..guards.marks import marked_dynamic, marked_static
from ..guards.shapes import SymbolicShapes, dynamic_dims
from ..guards.tensors import TensorGuard
from ..ir.graph import Origin
from ..ir.symbols import is_float_symbol
from ..nests import leaves, tensors_in
from ..numpy_calls import numpy_function, numpy_method
from ..symbolic_forms import symbolic_form
from ..walks import reachable
from .bodies import Body, module_of, version_of
from .breaks import Break, Restart, UserError, unsupported, unsupported_call
from .data_dependent import Capture, NeedsSymbols, note_sizes
from .eager_calls import is_new_leaf, makes_no_plain_tensor, says_where
from .fake_errors import translated
from .open_numbers import OpenNumbers
from .out_arguments import written_apart
from .shared_elements import reads_what_it_puts, reads_what_it_writes, same_memory, writes_shared_elements
from .sources import ModuleMemberSource, Source
from .uncounted_writes import WriteWatch
from .values.base import NotConstant, Value
from .values.computed import ComputedValue
from .values.constant import ConstantValue, SymIntValue
from .values.containers import DictValue, SequenceValue, SliceValue
from .values.data_floats import DataFloatValue
from .values.numpy_scalars import python_number
from .values.subclasses import plain
from .values.tensor import TURNS, TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@dataclass
class TensorInput:
    """A placeholder for a tensor from outside. `version` is the fake's when it was made: a change means mutation.
    Inference tensors count none; `uncounted` tells of them."""

    value: TensorValue
    version: int
    uncounted: WriteWatch

    @property
    def source(self) -> Source:
        assert self.value.graph_source is not None
        return self.value.graph_source

    @property
    def mutated(self) -> bool:
        return version_of(self.value.fake) != self.version or self.uncounted.has_seen(self.value.fake)


class GraphBuilder:
    """One graph under construction.

    With `symbolic`, sizes may be symbols: all (`dynamic`), or those that are `open` or that the user has marked; and
    the open ints. Without, a marked tensor raises NeedsSymbols if there `may_be_marked` ones,
    and so does what is to be captured according to `capture`.
    """

    def __init__(
        self,
        dynamic: bool,
        open: OpenNumbers,
        symbolic: bool,
        may_be_marked: bool = False,
        capture: Capture = Capture(),  # noqa: B008  (frozen)
    ) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.dynamic = dynamic
        self.open = open
        self.may_be_marked = may_be_marked
        self.capture = capture
        self.shapes = SymbolicShapes(scalars=capture.scalars, sizes=capture.sizes) if symbolic else None
        self.fake_mode = FakeTensorMode(shape_env=self.shapes.env if self.shapes else None, allow_non_fake_inputs=True)
        self.bodies = [Body()]
        self.graph = self.bodies[0].graph
        self._closed: dict[fx.Graph, Body] = {}
        self.inputs: list[TensorInput] = []
        self.sizes: dict[Any, fx.Node] = {}
        self._examples: dict[Any, torch.SymInt | torch.SymFloat] = {}
        self.floats: dict[Source, tuple[fx.Node, torch.SymFloat]] = {}
        self.fixed_floats: set[Source] = set()
        self._by_fake: dict[int, TensorValue] = {}
        self._parameters: set[str] = set()
        self._first_call: fx.Node | None = None
        self.has_aliased_mutation = False
        self.uncounted = WriteWatch()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to run."""
        return self._first_call is None

    def symbolic_kernels(self) -> AbstractContextManager[None]:
        """While tracing with symbols: torch's Python dispatcher, whose composite operators keep sizes symbolic where
        the C++ ones ask for numbers (`pad`)."""
        from torch._dispatch.python import enable_python_dispatcher

        return enable_python_dispatcher() if self.shapes is not None else nullcontext()

    # ---- inputs ----

    def tensor_input(self, tr: Tracer, tensor: torch.Tensor, source: Source, kind: Any = TensorValue) -> TensorValue:
        """The value of a tensor from outside, guarded."""
        tr.guards.read(source, tr.here())
        dims = self._dynamic_dims(tensor, source)
        return self._input(tr, self._fakify(tr, tensor, source, dims), source, tensor, kind)

    def drawn_input(self, tr: Tracer, tensor: torch.Tensor, source: Source) -> TensorValue:
        """The value of a tensor that each call makes anew, always of this kind and in memory of its own."""
        return self._input(tr, self.fake_mode.from_tensor(tensor, static_shapes=True), source, None)

    def _input(self, tr: Tracer, fake: torch.Tensor, source: Source, real: Any, kind: Any = TensorValue) -> TensorValue:
        value: TensorValue = kind(self._placeholder(f"{source.name()}", fake), fake, source, real)
        self.inputs.append(TensorInput(value, version_of(fake), self.uncounted))
        self._by_fake[id(fake)] = value
        tr.changed()
        return value

    def _dynamic_dims(self, tensor: torch.Tensor, source: Source) -> tuple[int, ...]:
        """Dimensions to make symbolic. Parameters stay as they are, and buffers until they are seen to vary: those are
        the model's sizes, not the call's."""
        marked = marked_dynamic(tensor)
        if self.shapes is None:
            if marked and self.may_be_marked:
                raise NeedsSymbols(marked=True)
            return ()
        wanted = marked | self.open.sizes.get(source, frozenset())
        is_models = isinstance(tensor, torch.nn.Parameter) or isinstance(source, ModuleMemberSource)
        every = self.dynamic and not is_models
        dims = [dim for dim in dynamic_dims(tensor, True) if every or dim in wanted]
        return tuple(dim for dim in dims if dim not in marked_static(tensor))

    def _fakify(self, tr: Tracer, tensor: torch.Tensor, source: Source, dims: tuple[int, ...]) -> torch.Tensor:
        if not dims or self.shapes is None:
            fake = self.fake_mode.from_tensor(tensor, static_shapes=True)
            tr.guard(TensorGuard.of(source, tensor))
            return fake
        fake = self.shapes.fakify(tensor, source, self.fake_mode, dims)
        for number in (*fake.shape, *fake.stride(), fake.storage_offset()):
            self._note_symbol(number)
        return fake

    def _note_symbol(self, number: Any) -> None:
        if isinstance(number, torch.SymInt) and number.node.expr.is_Symbol:
            self._examples.setdefault(number.node.expr, number)

    def int_input(self, value: int, source: Source) -> int | torch.SymInt:
        """A symbolic int for an int from outside, if it was seen to vary."""
        return self.shapes.int_input(value, source) if self.shapes is not None and self.is_open(source) else value

    def is_open(self, source: Source) -> bool:
        """Whether a number from there was seen to vary."""
        return self.shapes is not None and source in self.open.numbers

    def float_operand(self, value: ComputedValue) -> tuple[fx.Node, torch.SymFloat]:
        """A float that the entry computes as an input of the graph, and as what the fake run gets."""
        found = self.floats.get(value.source)
        if found is None:
            assert self.shapes is not None
            symbol = self.shapes.float_input(value.now, value.source)
            node = self._placeholder(str(symbol.node.expr), symbol, self.inputs[0].value.node if self.inputs else None)
            found = self.floats[value.source] = (node, symbol)
        return found

    def _placeholder(self, name: str, example: Any, before: fx.Node | None = None) -> fx.Node:
        place = before or self._first_call
        with self.graph.inserting_before(place) if place is not None else nullcontext():
            node = self.graph.placeholder(name)
        if name in self._parameters:  # `d[1]` and `d["1"]`, or an argument called like a size
            node.target = node.name
        self._parameters.add(str(node.target))
        node.meta["example_value"] = example
        node.meta["requires_grad"] = isinstance(example, torch.Tensor) and example.requires_grad
        return node

    def forget_objects(self) -> None:
        """Let go of the tensors that were seen while tracing."""
        for entry in self.inputs:
            entry.value.real = None

    def inputs_of(self, node: fx.Node) -> list[TensorValue]:
        """The inputs that a node is computed from."""
        seen = reachable([node], lambda node: [*node.all_input_nodes, *filter(None, [node.meta.get("outer")])])
        return [entry.value for entry in self.inputs if entry.value.node in seen]

    # ---- sizes ----

    def size_operand(self, tr: Tracer, sym: torch.SymInt) -> Any:
        """The node (or the number, if it became one) of a symbolic int."""
        found = self._size_node(tr, sym.node.expr, sym)
        return self.local(found) if isinstance(found, fx.Node) else found

    def _size_node(self, tr: Tracer, expr: Any, example: Any) -> Any:
        if expr.is_number:
            return int(expr) if expr.is_integer else float(expr)
        if expr in self.sizes:
            return self.sizes[expr]
        if expr.is_Symbol:
            first = self.inputs[0].value.node if self.inputs else None
            node = self._placeholder(str(expr), self._example_of(expr, example), first)
        else:
            node = self._size_arithmetic(tr, expr, example)
        self.sizes[expr] = node
        return node

    def _size_arithmetic(self, tr: Tracer, expr: Any, example: Any) -> Any:
        op = _SIZE_OPERATORS.get(type(expr).__name__) if not _is_root(expr) else None
        if op is None:
            tr.changed()
            number = self._example_of(expr, example)
            # Of this part alone, and a guard says so.
            return int(number) if isinstance(number, torch.SymInt) else float(number)
        operands = [self._size_node(tr, argument, example) for argument in expr.args]
        operands = [self.local(part) if isinstance(part, fx.Node) else part for part in operands]
        result = operands[0]
        if len(operands) == 1:
            result = self._emit("call_function", op, (result,), {}, tr.origin(op.__name__))
            result.meta["example_value"] = self._example_of(expr, example)
        for count, operand in enumerate(operands[1:], 2):
            result = self._emit("call_function", op, (result, operand), {}, tr.origin(op.__name__))
            result.meta["example_value"] = self._example_of(expr.func(*expr.args[:count]), example)
        return result

    def _example_of(self, expr: Any, whole: torch.SymInt) -> torch.SymInt | torch.SymFloat:
        """The symbolic number of a part of `whole`'s expression."""
        known = self._examples.get(expr)
        if known is None:
            assert self.shapes is not None
            env = self.shapes.env
            make = env.create_symintnode if expr.is_integer else env.create_symfloatnode
            known = self._examples[expr] = make(expr, hint=None)
        return known

    # ---- bodies ----

    @contextmanager
    def body(self, what: str, step: int, **kind: Any) -> Iterator[Body]:
        """While it is open, calls go into a body. Raises Break if one changes a tensor from around it."""
        body = Body(what, step, **kind)
        self.bodies.append(body)
        try:
            yield body
        finally:
            self.bodies.pop()
            self._closed[body.graph] = body
            self.sizes = {
                expr: node for expr, node in self.sizes.items() if getattr(node, "graph", None) is not body.graph
            }
        if body.writes_outside():
            raise unsupported(f"{what[0].upper()}{what[1:]} changes a tensor from outside in place.")

    def local(self, node: fx.Node) -> fx.Node:
        """A node, for use in the innermost body. Raises Restart for one of a body that is closed."""
        for depth in reversed(range(len(self.bodies))):
            body = self.bodies[depth]
            if body.graph is node.graph:
                break
            if body.sees is node.graph:
                node = body.lift(node)
                break
        else:
            closed = self._closed[node.graph]
            raise Restart(closed.step, unsupported(f"A tensor that {closed.what} has made is used outside of it."))
        for body in self.bodies[depth + 1 :]:
            node = body.lift(node)
        return node

    def call_bodies(
        self,
        tr: Tracer,
        target: Callable[..., Any],
        modules: Sequence[fx.GraphModule],
        options: tuple[Any, ...],
        inputs: Sequence[fx.Node],
        name: str,
    ) -> tuple[fx.Node, Any]:
        """The node of `target(*modules, *options, *inputs)`, and what it gives for the examples. `name`: the user's."""
        origin = tr.origin(name)
        parts = [self._emit("get_attr", self.bodies[-1].hold(module), (), {}, origin) for module in modules]
        inputs = [self.local(node) for node in inputs]
        examples = [node.meta["example_value"] for node in inputs]
        result = self._run(tr, target, [*modules, *options, *examples], {})
        tr.changed()
        node = self._emit("call_function", target, (*parts, *options, *inputs), {}, origin)
        node.meta["example_value"] = result
        return node, result

    def results(self, tr: Tracer, node: fx.Node, result: Sequence[Any]) -> list[Value]:
        """The values of a node that gives a tuple of tensors."""
        return [self._wrap(tr, self.item(tr, node, index, item), item) for index, item in enumerate(result)]

    def item(self, tr: Tracer, node: fx.Node, index: int, example: Any) -> fx.Node:
        """The node of an item of another one's result."""
        part = self._emit("call_function", operator.getitem, (node, index), {}, node.meta["origin"])
        part.meta["example_value"] = example
        return part

    # ---- calls ----

    def call(self, tr: Tracer, target: Callable[..., Any] | str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """A torch function, operator or (given by name) Tensor method, applied to values."""
        pairs = [self._operand(tr, arg.realize(tr)) for arg in args]
        named = {key: self._operand(tr, value.realize(tr)) for key, value in kwargs.items()}
        fake_args = [fake for _, fake in pairs]
        fake_kwargs = {key: fake for key, (_, fake) in named.items()}
        tensors = tensors_in((fake_args, fake_kwargs))
        if says_where(target, fake_args, fake_kwargs) and any(map(self._is_from_outside, tensors)):
            raise unsupported_call(f"{tr.name_of(target)}()", "addresses the memory of a tensor from outside")
        before = [(version_of(tensor), tensor.shape) for tensor in tensors]
        count = self.uncounted.count
        try:
            with self.uncounted if any(tensor.is_inference() for tensor in tensors) else nullcontext():
                result = self._run(tr, target, fake_args, fake_kwargs)
        except (Break, UserError):
            if self._fixes_floats((fake_args, fake_kwargs)):  # the function asks for the numbers
                return self.call(tr, target, args, kwargs)
            raise
        pairs_of_versions = zip(tensors, before, strict=True)
        mutates = any(version_of(tensor) != version for tensor, (version, _) in pairs_of_versions)
        if target in TURNS:
            pass  # it is laid out otherwise, and nothing is written
        elif mutates or self.uncounted.count != count or target is operator.setitem:
            self._check_mutation(tr, target, tensors, before, [node for node, _ in (*pairs, *named.values())])
        elif not _has_tensor(result):
            return self._plain_result(tr, target, result)
        self._check_result(tr, target, result, tensors, fake_kwargs)
        tr.changed()
        return self._recorded(tr, target, pairs, named, result)

    def _check_result(
        self, tr: Tracer, target: Any, result: Any, tensors: list[torch.Tensor], kwargs: dict[str, Any]
    ) -> None:
        """Raise a break for a result that a graph cannot give."""
        if any(is_new_leaf(leaf, tensors, kwargs) for leaf in leaves(result)):
            raise unsupported_call(f"{tr.name_of(target)}()", "makes a tensor of which gradients are wanted")
        if makes_no_plain_tensor(target, leaves(result)):
            raise unsupported_call(f"{tr.name_of(target)}()", "makes a sparse or quantised tensor")

    def _recorded(
        self,
        tr: Tracer,
        target: Callable[..., Any] | str,
        pairs: list[tuple[Any, Any]],
        named: dict[str, tuple[Any, Any]],
        result: Any,
    ) -> Value:
        """The node of a call that has been tried on fake tensors, as a value. Operands: (FX argument, fake) each."""
        nodes = tuple(node for node, _ in pairs), {key: node for key, (node, _) in named.items()}
        fakes = [fake for _, fake in pairs], {key: fake for key, (_, fake) in named.items()}
        op = "call_method" if isinstance(target, str) else "call_function"
        node = written_apart(self, tr, target, fakes, nodes) if "out" in named else None
        node = node or self._emit(op, target, *nodes, tr.origin(target))
        node.meta["example_value"] = result
        if self.shapes is not None and self.capture:
            note_sizes(tr, node, fakes, result)
        return self._wrap(tr, node, result)

    def _is_from_outside(self, tensor: torch.Tensor) -> bool:
        return any(same_memory(tensor, entry.value.fake) for entry in self.inputs)

    def _fixes_floats(self, arguments: Any) -> bool:
        """Whether floats among the arguments of a call were open; they are numbers from now on."""
        given = {id(leaf) for leaf in leaves(arguments) if isinstance(leaf, torch.SymFloat)}
        found = {source for source, (_, symbol) in self.floats.items() if id(symbol) in given}
        self.fixed_floats |= found
        return bool(found)

    def _check_mutation(
        self, tr: Tracer, target: Any, tensors: list[torch.Tensor], before: list[Any], operands: list[Any]
    ) -> None:
        for tensor, (_, shape) in zip(tensors, before, strict=True):
            if tensor.shape != shape:
                tr.changed()  # the fake tensor is spoilt: trace again, up to here
                raise unsupported_call(f"{tr.name_of(target)}", "changes the shape of a tensor in place")
        versions = zip(tensors, before, strict=True)
        as_before = {id(tensor) for tensor, (version, _) in versions if version_of(tensor) == version != -1}
        nodes = [node for node in leaves(operands) if isinstance(node, fx.Node)]
        written = [node for node in nodes if id(node.meta.get("example_value")) not in as_before]
        if any(map(writes_shared_elements, written)):
            tr.changed()
            raise unsupported_call(f"{tr.name_of(target)}()", "writes to a view whose elements share memory")
        if target is operator.setitem:
            meets = reads_what_it_puts(*operands)
        else:  # NumPy's may write to a part of their operand
            meets = target not in (numpy_method, numpy_function) and reads_what_it_writes(written, nodes)
        if meets:
            tr.changed()
            raise unsupported_call(f"{tr.name_of(target)}()", "reads memory that it writes")

    def _run(self, tr: Tracer, target: Callable[..., Any] | str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            function, rest = (getattr(args[0], target), args[1:]) if isinstance(target, str) else (target, args)
            form = symbolic_form(target, args, kwargs) if self.shapes is not None else None
            result = (form or function)(*rest, **kwargs)
            if self.shapes is not None and _has_float_size(result):
                raise unsupported_call(f"{tr.name_of(target)}()", "makes a size of a float")
            return result
        except (Break, UserError, NeedsSymbols):
            raise
        except Exception as error:  # the operator's own, about the arguments: it is the program's
            raise translated(tr.name_of(target), error, self.shapes is None and self.capture.sizes) from error

    def _emit(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], origin: Origin) -> fx.Node:
        graph = self.bodies[-1].graph
        node = graph.create_node(op, target, args, kwargs)
        node.meta["origin"] = origin
        node.stack_trace = f'  File "{origin.file}", line {origin.line}, in {origin.function}\n'
        if self._first_call is None and graph is self.graph:
            self._first_call = node
        return node

    def set_grad_mode(self, mode: bool, origin: Origin) -> None:
        """A node that sets grad mode for what follows in the graph."""
        self.set_mode(torch._C._set_grad_enabled, (mode,), origin)

    def set_mode(self, function: Any, args: tuple[Any, ...], origin: Origin) -> fx.Node:
        """A node that changes the state in which what follows in the graph runs."""
        node = self._emit("call_function", function, args, {}, origin)
        node.meta["example_value"] = None
        return node

    # ---- results ----

    def _plain_result(self, tr: Tracer, target: Any, result: Any) -> Value:
        if isinstance(result, (torch.SymInt, torch.SymBool, torch.SymFloat)):
            return tr.number(result)
        if isinstance(result, (tuple, list)):
            return SequenceValue(type(result), [self._plain_result(tr, target, item) for item in result])  # type: ignore[arg-type]
        if result is NotImplemented:
            return ConstantValue(result)
        try:
            return tr.constant(result, anchored=False)
        except NotConstant:
            raise unsupported_call(f"{tr.name_of(target)}()", f"returns a {type(result).__name__}") from None

    def _wrap(self, tr: Tracer, node: fx.Node, result: Any) -> Value:
        if isinstance(result, torch.Tensor):
            return self._tensor_result(node, result)
        if isinstance(result, (tuple, list)) and _has_tensor(result):
            return self._sequence_result(tr, node, result)
        return self._plain_result(tr, node.target, result)

    def _tensor_result(self, node: fx.Node, fake: torch.Tensor) -> TensorValue:
        known = self._by_fake.get(id(fake))
        if known is None:
            known = self._by_fake[id(fake)] = TensorValue(node, fake)
        elif known.source is None and known.node.graph is node.graph:
            known.node = node
        return known

    def renewed(self, value: TensorValue) -> TensorValue:
        """A value that stands for its fake tensor from now on."""
        self._by_fake[id(value.fake)] = value
        return value

    def _sequence_result(self, tr: Tracer, node: fx.Node, result: Any) -> Value:
        return SequenceValue(type(result), self.results(tr, node, result))

    # ---- operands ----

    def _operand(self, tr: Tracer, value: Value) -> tuple[Any, Any]:
        """A value as an FX argument, and as what the fake run gets."""
        value = plain(value)
        if isinstance(value, TensorValue):
            if "data" in value.attributes:
                raise value.cannot("computing with other memory than at first")
            return self.local(value.node), value.fake
        if isinstance(value, ConstantValue):
            number = python_number(value.value)
            return number, number
        if isinstance(value, SymIntValue):
            return self.size_operand(tr, value.sym), value.sym
        if isinstance(value, DataFloatValue):
            return self.local(value.node), value.sym
        if isinstance(value, ComputedValue):
            is_plain = not isinstance(value.now, float) or value.source in self.fixed_floats
            if self.shapes is not None and not is_plain and math.isfinite(value.now):
                node, symbol = self.float_operand(value)
                return self.local(node), symbol
            number = value.specialize(tr)
            return number, number
        if isinstance(value, SequenceValue):
            return self._sequence_operand(tr, value)
        if isinstance(value, SliceValue):
            pairs = [self._operand(tr, part) for part in value.parts]
            return slice(*(node for node, _ in pairs)), slice(*(fake for _, fake in pairs))
        if isinstance(value, DictValue) and value.kind is dict and not value.key_values:
            named = {key: self._operand(tr, item.realize(tr)) for key, item in value.entries.items()}
            return {k: n for k, (n, _) in named.items()}, {k: f for k, (_, f) in named.items()}
        raise unsupported(f"{value.describe().capitalize()} cannot be an operand of a torch function in a graph.")

    def _sequence_operand(self, tr: Tracer, value: SequenceValue) -> tuple[Any, Any]:
        pairs = [self._operand(tr, item.realize(tr)) for item in value.elements]
        kind = list if value.kind is list else tuple
        return kind(node for node, _ in pairs), kind(fake for _, fake in pairs)

    # ---- the end ----

    def finish(self, tr: Tracer, outputs: list[fx.Node]) -> tuple[fx.GraphModule, GraphArguments]:
        """Close the graph: the module, and what to call it with (size symbols first, then tensors)."""
        symbols = self._bind_symbols(tr) if self.shapes is not None else {}
        self.graph.output(tuple(outputs))
        placeholders = self._in_order(symbols)
        gm = module_of(self.bodies[0], "CapturedGraph")
        return gm, GraphArguments(
            [source for _, source, _ in placeholders], [example for _, _, example in placeholders]
        )

    def _bind_symbols(self, tr: Tracer) -> dict[fx.Node, Source]:
        """A placeholder for every symbol that inputs' sizes have or the graph uses, and where each is read."""
        assert self.shapes is not None
        found: dict[fx.Node, Source] = {}
        for symbol, source in self.shapes.symbols().items():
            example = self._examples.get(symbol)
            if symbol not in self.sizes and example is not None:
                first = self.inputs[0].value.node if self.inputs else None
                self.sizes[symbol] = self._placeholder(str(symbol), example, first)
            if symbol in self.sizes:
                found[self.sizes[symbol]] = source
        self._replace_settled(tr, found)
        return found

    def _replace_settled(self, tr: Tracer, symbols: dict[fx.Node, Source]) -> None:
        """Symbols that got a placeholder, and turned out later to be a number or made of other symbols, become that."""
        self.sizes = {expr: node for expr, node in self.sizes.items() if node in symbols}
        for node in list(self.graph.nodes):
            is_size = node.op == "placeholder" and isinstance(node.meta["example_value"], torch.SymInt)
            if is_size and node not in symbols:
                number = node.meta["example_value"]
                with self.graph.inserting_before(self._first_call):
                    settled = self._size_node(tr, number.node.expr, number)
                for user in list(node.users):
                    user.args = fx.node.map_arg(user.args, lambda arg: settled if arg is node else arg)  # noqa: B023
                    user.kwargs = fx.node.map_arg(user.kwargs, lambda arg: settled if arg is node else arg)  # noqa: B023
                self.graph.erase_node(node)

    def _in_order(self, symbols: dict[fx.Node, Source]) -> list[tuple[fx.Node, Source, Any]]:
        tensors = {entry.value.node: entry for entry in self.inputs}
        symbols = {**symbols, **{node: source for source, (node, _) in self.floats.items()}}
        result = []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                source = symbols[node] if node in symbols else tensors[node].source
                result.append((node, source, node.meta["example_value"]))
        return result


@dataclass
class GraphArguments:
    """What a finished graph is called with: sources, and the examples that the backend sees."""

    sources: list[Source]
    examples: list[Any]


_SIZE_OPERATORS: dict[str, Any] = {
    "Add": operator.add, "Mul": operator.mul, "Pow": operator.pow,
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
    "PythonMod": operator.mod, "Max": torch.sym_max, "Min": torch.sym_min,
    "Abs": abs, "ToFloat": torch.sym_float, "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv,
    "OpaqueUnaryFn_sqrt": torch.sym_sqrt,
    "TruncToInt": torch.sym_int, "FloorToInt": math.floor, "CeilToInt": math.ceil,
    "RoundToInt": round,
}  # fmt: skip


def _is_root(expr: Any) -> bool:
    """A power that is no product, for an exponent that is not a natural number."""
    return bool(expr.is_Pow) and not (expr.args[1].is_Integer and expr.args[1] > 0)


def _has_float_size(result: Any) -> bool:
    """Whether a size of a result is computed from an open float."""
    sizes = (size for tensor in tensors_in(result) for size in tensor.shape if isinstance(size, torch.SymInt))
    return any(is_float_symbol(symbol.name) for size in sizes for symbol in size.node.expr.free_symbols)


def _has_tensor(result: Any) -> bool:
    return bool(tensors_in(result))
