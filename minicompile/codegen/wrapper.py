"""The flat Python function that runs a compiled graph.

In: a prepared Graph, its units in order, the kernels' callables.
Out: `Wrapper`: Python source (readable in a traceback: it is registered in linecache) and the compiled function
`call(*inputs) -> tuple`.

    def call(x, w):
        buf0 = empty_cpu((32, 768), (768, 1), float32)
        kernel_0(x, w, buf0)
        buf1 = extern_0(buf0, w)
        del buf0
        return (buf1,)

Sizes are the size arguments, or read from the inputs' shapes. Inputs are written last, so that an error before has
changed nothing. A kernel over no elements is not launched."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ..ir.graph import BufferView, Graph, InputView, Node
from ..ir.laid_out import strided
from ..ir.ops import CREATION
from ..ir.retyped import view_as
from ..ir.symbols import dim_text, evaluate, free_symbols
from ..ir.types import Shape, SizeType, TensorType
from ..runtime.cuda_graph_memory import Kept
from ..runtime.pages import LARGE, empty_large
from ..runtime.products import View
from ..runtime.runs import run_type
from .extern_calls import ProductCall, operator
from .fusion import Unit
from .in_place import direct_writes, may_overwrite
from .kernel_ir import Kernel
from .memory import MemoryPlan, extent, lives, plan_memory
from .prepare import Views, storage_strides
from .runs import Memory, Operand, Stretch, as_run, plan_runs, step_texts
from .told_where import writes_where_told
from .views import same_strides
from .wrapper_text import compile_wrapper


@dataclass(frozen=True)
class Launch:
    """A unit's kernel: what to call, with the memory of which nodes and which size symbols."""

    kernel: Kernel
    nodes: tuple[Node, ...]
    call: Callable[..., None]


@dataclass
class Wrapper:
    """The generated Python that allocates and launches, as text and as the function that it is."""

    source: str
    objects: dict[str, Any]  # what the source names
    call: Callable[..., tuple[Any, ...]]
    kept: Kept | None = None  # allocates all results, where asked for and possible
    records: bool = False  # whether to record it


def write_wrapper(
    graph: Graph,
    units: Sequence[Unit],
    launches: dict[Unit, Launch],
    views: Views,
    boxed: bool = False,
    records: bool = False,
) -> Wrapper:
    """Write and compile the function. Raises NotImplementedError for a size expression without Python text.

    `boxed`: the function takes one list of the inputs and empties it, so that each input dies after its last use.
    `records`: the function will be recorded as a CUDA graph, so results are allocated by a `Kept`; not if it is one
    launch as it is.
    """
    return _Writer(graph, units, launches, views, boxed, records).run()


@dataclass
class _Writer:
    graph: Graph
    units: Sequence[Unit]
    launches: dict[Unit, Launch]
    views: Views
    boxed: bool = False
    records: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)  # node → variable that holds its memory
    objects: dict[str, Any] = field(default_factory=dict)
    derived: dict[tuple[Node, Any], str] = field(default_factory=dict)  # views made for extern calls
    given_out: set[Node] = field(default_factory=set)
    direct: dict[Node, Node] = field(default_factory=dict)  # stored node → the input that it is stored into
    lasting: set[Node] = field(default_factory=set)  # nodes whose memory a result gets, if it is recorded
    kept: Kept | None = None

    def __post_init__(self) -> None:
        self.read = {arg for node in self.graph.nodes for arg in node.operands()}
        self.read |= {out.buffer for out in self.graph.outputs if isinstance(out, BufferView)}

    def run(self) -> Wrapper:
        arguments = [self._argument(node, i) for i, node in enumerate(self.graph.inputs)]
        self._head(arguments)
        self._sizes()
        self._constants()
        self._units()
        self._writes(arguments)
        results = [self._output(out, arguments) for out in self.graph.outputs]
        self._line(f"return ({', '.join(results)}{',' if len(results) == 1 else ''})")
        return self._compile()

    def _head(self, arguments: list[str]) -> None:
        if not self.boxed:
            self.lines.append(f"def call({', '.join(arguments)}):")
            return
        self.lines.append("def call(boxed):")
        self._line(f"[{', '.join(arguments)}] = boxed")
        self._line("boxed.clear()")

    def _writes(self, arguments: Sequence[str]) -> None:
        """Copy into the inputs what kernels have not stored there already; those must be told that they changed."""
        changed = []
        for index, node in self.graph.writes:
            if self.views.base(node) in self.direct:
                changed.append(arguments[index])
            else:
                self._line(f"{arguments[index]}.copy_({self._tensor(node)})")
        if changed:
            bump = self._bind("increment_version", torch.autograd.graph.increment_version)
            self._line(f"{bump}(({', '.join(changed)},))")

    def _compile(self) -> Wrapper:
        source = "\n".join(self.lines) + "\n"
        call = compile_wrapper(self.graph.name, source, self.objects)
        return Wrapper(source, self.objects, call, self.kept, self.records)

    def _line(self, text: str) -> None:
        self.lines.append("    " + text)

    def _bind(self, name: str, value: Any) -> str:
        """A global of the wrapper."""
        self.objects[name] = value
        return name

    # --- names --------------------------------------------------------------------------------------------------

    def _argument(self, node: Node, index: int) -> str:
        name = str(node.type.expr) if isinstance(node.type, SizeType) else ""
        if not getattr(getattr(node.type, "expr", None), "is_Symbol", False) or name in self.names.values():
            wanted = str(node.attrs.get("name", ""))
            name = wanted if wanted.isidentifier() and not wanted.startswith(_RESERVED) else f"arg{index}"
            if name in self.names.values() or name in _TAKEN:
                name = f"arg{index}"
        self.names[node] = name
        return name

    def _sizes(self) -> None:
        """Bind the symbols that no argument carries: from the shapes and strides of the inputs."""
        bound = {str(n.type.expr) for n in self.graph.inputs if isinstance(n.type, SizeType)}
        for node in self.graph.inputs:
            if not isinstance(node.type, TensorType):
                continue
            for what, dims in (("shape[{}]", node.type.shape), ("stride({})", node.type.strides)):
                for i, dim in enumerate(dims):
                    name = str(dim)
                    if getattr(dim, "is_Symbol", False) and name not in bound:
                        self._line(f"{name} = {self.names[node]}.{what.format(i)}")
                        bound.add(name)

    def _constants(self) -> None:
        for node in self.graph.nodes:
            if node.op == "constant":
                self.names[node] = self._bind(f"constant_{len(self.names)}", node.attrs["value"])

    # --- units --------------------------------------------------------------------------------------------------

    def _units(self) -> None:
        reads = [self._reads(unit) for unit in self.units]
        stores = [unit.stored for unit in self.units]
        kernels = {unit: (launch.kernel, launch.nodes) for unit, launch in self.launches.items()}
        self.direct = direct_writes(self.graph, self.units, kernels, self.views)
        ours = {node for unit in self.units if not unit.is_extern for node in unit.stored} - set(self.direct)
        ours |= {node for unit in self.units if unit.is_extern for node in unit.stored if writes_where_told(node)}
        plan = plan_memory(stores, reads, self._kept_to_the_end(), ours, self._may_overwrite)
        kinds = self._kinds()
        stretches = plan_runs(kinds, self._memories(plan, ours))
        is_one_launch = len(stretches) == 1 and kinds[0] is not None and self._is_all_on_gpu()
        self.records = self.records and not is_one_launch
        if self.records:
            self._keep_results(ours, plan)
        passed_on = set(plan.reuse.values())
        for stretch in stretches:
            if stretch.is_run or is_one_launch:
                self._run(stretch, plan)
            else:
                self._unit(self.units[stretch.units.start], ours, plan.reuse)
            self._bury([node for i in stretch.units for node in plan.dies[i]], passed_on)

    def _is_all_on_gpu(self) -> bool:
        """Whether units run on the GPU, and no write is left to do behind them: then a single run, if of one kernel, is
        all that there is, mostly launched as a graph (cuda_chain.h)."""
        return not self._on_cpu and all(self.views.base(node) in self.direct for _, node in self.graph.writes)

    def _unit(self, unit: Unit, ours: set[Node], reuse: dict[Node, Node]) -> None:
        if unit.is_extern and unit.members[0] in ours:
            self._product(unit.members[0], reuse)
        elif unit.is_extern:
            self._extern(unit.members[0])
        else:
            self._kernel(unit, reuse)

    def _bury(self, nodes: Sequence[Node], passed_on: set[Node]) -> None:
        """Forget what died, unless its memory was passed on."""
        dead = [self.names[node] for node in nodes if node in self.names and node not in passed_on]
        dead += [self.derived.pop(key) for key in list(self.derived) if key[0] in nodes]
        if dead:
            self._line(f"del {', '.join(dict.fromkeys(dead))}")

    def _keep_results(self, ours: set[Node], plan: MemoryPlan) -> None:
        """Find the nodes for which the memory of results is allocated; if some of it is not ours, there are none."""
        nodes = [out.buffer if isinstance(out, BufferView) else out for out in self.graph.outputs]
        tensors = [node for node in nodes if isinstance(node, Node) and isinstance(node.type, TensorType)]
        bases = {self.views.base(node) for node in tensors}
        if not bases <= ours:
            return
        self.lasting |= {plan.first(node) for node in bases}
        self.kept = Kept(self._empty_function()[1])

    @cached_property
    def _on_cpu(self) -> bool:
        """Only the CPU's kernels are printed so that they may overwrite what dies; a GPU's allocator has memory."""
        nodes = (node for unit in self.units for node in unit.stored if isinstance(node.type, TensorType))
        return all(node.tensor.device.type == "cpu" for node in nodes)

    def _may_overwrite(self, unit: int, dying: Node, stored: Node) -> bool:
        launch = self.launches.get(self.units[unit])
        if launch is None or dying not in launch.nodes or not self._on_cpu:
            return False
        return may_overwrite(launch.kernel, launch.nodes.index(dying), launch.nodes.index(stored))

    def _reads(self, unit: Unit) -> set[Node]:
        """The nodes whose memory a unit reads."""
        if not unit.is_extern:
            read = {node for node in self.launches[unit].nodes if node not in unit.stored}
            return {node for node in read if node.op != "input" or self.boxed}
        found = set()
        for arg in unit.members[0].operands():
            if isinstance(arg.type, TensorType):
                found.add(self.views.base(arg))
        lasting = ("constant", *CREATION) if self.boxed else ("input", "constant", *CREATION)
        return {node for node in found if node.op not in lasting}

    def _kept_to_the_end(self) -> set[Node]:
        roots = [out.buffer if isinstance(out, BufferView) else out for out in self.graph.outputs]
        roots += [node for _, node in self.graph.writes]
        kept = {self.views.base(node) for node in roots if isinstance(node, Node) and isinstance(node.type, TensorType)}
        kept |= {self.graph.inputs[out.input] for out in self.graph.outputs if isinstance(out, InputView)}
        kept |= {self.graph.inputs[index] for index, _ in self.graph.writes}
        return kept | {node for node in self.graph.nodes if node.op == "constant"}

    def _kernel(self, unit: Unit, reuse: dict[Node, Node]) -> None:
        launch = self.launches[unit]
        for node in unit.stored:
            self._give_memory(node, reuse)
        if _is_empty(unit):
            return
        kernel = launch.kernel
        self._bind(kernel.name, launch.call)
        arguments = [*(self.names[node] for node in launch.nodes), *kernel.symbols]
        self._line(f"{kernel.name}({', '.join(arguments)})")

    def _give_memory(self, node: Node, reuse: dict[Node, Node]) -> None:
        if node in self.direct:
            self.names[node] = self.names[self.direct[node]]
        elif node in reuse:
            self.names[node] = self.names[reuse[node]]
        else:
            self._allocate(node)

    def _allocate(self, node: Node) -> None:
        self.names[node] = f"buf{len(self.names)}"
        is_kept = self.kept is not None and node in self.lasting
        self._line(f"{self.names[node]} = {self._empty(node.tensor, storage_strides(node), is_kept)}")

    def _empty(self, type: TensorType, strides: Shape, is_kept: bool = False) -> str:
        dtype = self._bind(str(type.dtype).removeprefix("torch."), type.dtype)
        sizes = f"{_tuple(type.shape)}, {_tuple(strides)}"
        if type.device.type == "cpu":
            if self._hint(type.numel) * type.dtype.itemsize >= LARGE:
                return f"{self._bind('empty_large', empty_large)}({sizes}, {dtype})"
            fast = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None)
            if fast is not None:
                return f"{self._bind('empty_cpu', fast)}({sizes}, {dtype})"
        if type.device.type == "cuda":
            name, fast = self._empty_function()
            allocate = self._bind("empty_kept", self.kept) if is_kept else self._bind(name, fast)
            if name == "empty_cuda":
                return f"{allocate}({sizes}, {dtype})"
        else:
            allocate = self._bind("empty_strided", torch.empty_strided)
        device = self._bind(f"device_{type.device.type}{type.device.index or 0}", type.device)
        return f"{allocate}({sizes}, dtype={dtype}, device={device})"

    def _empty_function(self) -> tuple[str, Callable[..., torch.Tensor]]:
        """What allocates on a GPU, and what it is called."""
        fast = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
        if fast is not None and torch.cuda.device_count() == 1:  # else the current one may be another
            return "empty_cuda", fast
        return "empty_strided", torch.empty_strided

    def _hint(self, size: Any) -> int:
        """A size as it was while tracing; 0 where that is not known."""
        if free_symbols(size) - set(self.graph.symbols):
            return 0
        return evaluate(size, dict(self.graph.symbols))

    def _product(self, node: Node, reuse: dict[Node, Node]) -> None:
        """A matrix product into a buffer: its operands are named as they lie, and how they are meant is the call's own,
        so that a call makes no views in Python. Only views of varying sizes are made here."""
        self._give_memory(node, reuse)
        named = [self._meant(operand) for operand in (node, *node.args)]
        target, device = node.attrs["target"], node.tensor.device.type
        function = self._bind_extern(ProductCall(target, device, tuple(view for _, view in named)))
        self._line(f"{function}({', '.join(name for name, _ in named)})  # {target}{_views_text(named)}")

    def _meant(self, node: Node) -> tuple[str, View]:
        """A variable, and what view of it is meant."""
        base, shape, strides, offset = self._place(node)
        if self._is_held(base, shape, strides, offset):
            return self.names[base], None
        if all(isinstance(number, int) for number in (*shape, *strides, offset)):
            return self.names[base], (tuple(shape), tuple(strides), offset)
        return self._tensor(node), None

    def _bind_extern(self, target: Any) -> str:
        return self._bind(f"extern_{len([n for n in self.objects if n.startswith('extern_')])}", target)

    def _extern(self, node: Node) -> None:
        target = node.attrs["target"]
        function = self._bind_extern(operator(target))
        keywords: tuple[str, ...] = tuple(node.attrs.get("keywords", ()))
        positional = node.args[: len(node.args) - len(keywords)]
        parts = [self._value(arg) for arg in positional]
        parts += [f"{name}={self._value(v)}" for name, v in dict(node.attrs.get("kwargs", {})).items()]
        named = node.args[len(positional) :]
        parts += [f"{name}={self._value(arg)}" for name, arg in zip(keywords, named, strict=True)]
        self.names[node] = f"res{len(self.names)}"
        self._line(f"{self.names[node]} = {function}({', '.join(parts)})  # {target}")
        self._laid_out(node)
        for getitem in self.graph.nodes:
            if getitem.op == "getitem" and getitem.args[0] is node:
                self.names[getitem] = f"res{len(self.names)}"
                self._line(f"{self.names[getitem]} = {self.names[node]}[{getitem.args[1]}]")
                self._laid_out(getitem)

    def _laid_out(self, node: Node) -> None:
        """Fake tensors are now and then wrong about the strides of a result: who reads it here must not trust them.
        (A result that is only returned is returned as it is.)"""
        if not isinstance(node.type, TensorType) or node not in self.read:
            return
        name, strides = self.names[node], _tuple(node.type.strides)
        self._line(f"if {name}.stride() != {strides}: {name} = {self._bind('lay_out', strided)}({name}, {strides})")

    # --- runs of kernels --------------------------------------------------------------------------------------------

    def _kinds(self) -> list[Any]:
        """For each unit what must be the same in those that one native call runs."""
        return [None if unit not in self.launches or _is_empty(unit) else self._kind(unit) for unit in self.units]

    def _kind(self, unit: Unit) -> Any:
        native = run_type(self.launches[unit].call)
        return None if native is None else (native, unit.stored[0].tensor.device)

    def _memories(self, plan: MemoryPlan, ours: set[Node]) -> list[Memory]:
        found = lives(plan, [unit.stored for unit in self.units], ours)
        return [
            Memory(node, birth, death, self._hint(extent(node)) * node.tensor.dtype.itemsize)
            for node, (birth, death) in found.items()
            if isinstance(node.type, TensorType)  # of a call with several results, each is memory by itself
        ]

    def _run(self, stretch: Stretch, plan: MemoryPlan) -> None:
        """Several kernels as one call, its steps as comments: `arena_0[512:]` are the arena's bytes from there on."""
        units = [self.units[i] for i in stretch.units]
        number = len([name for name in self.objects if name.startswith("run_")])
        places: dict[Node, Operand] = {}
        for node in (node for unit in units for node in unit.stored):
            offset = stretch.offsets.get(plan.first(node))
            if offset is None:
                self._give_memory(node, plan.reuse)
            else:
                places[node] = f"arena_{number}", offset
        if places:
            type = TensorType(torch.uint8, (stretch.size,), (1,), units[0].stored[0].tensor.device)
            self._line(f"arena_{number} = {self._empty(type, type.strides)}")
        launches = [self.launches[unit] for unit in units]
        names = [self._bind(launch.kernel.name, launch.call) for launch in launches]
        steps = [[places.get(node) or (self.names[node], 0) for node in launch.nodes] for launch in launches]
        run, given = as_run(names, steps)
        self._line(f"{self._bind(f'run_{number}', run)}({', '.join(given)})")
        for text in step_texts(names, steps):
            self._line(f"#   {text}")
        if places:
            self._line(f"del arena_{number}")

    # --- values -------------------------------------------------------------------------------------------------

    def _value(self, arg: Any) -> str:
        """An argument of an extern call."""
        if isinstance(arg, Node):
            return self.names[arg] if isinstance(arg.type, SizeType) else self._tensor(arg)
        if isinstance(arg, (list, tuple)):
            items = ", ".join(map(self._value, arg))
            return f"[{items}]"
        if arg is None or isinstance(arg, (bool, str)) or (isinstance(arg, (int, float)) and arg - arg == 0):
            return repr(arg)
        if isinstance(arg, (int, float)):
            return f'float("{arg}")'
        if hasattr(arg, "free_symbols"):
            return dim_text(arg)
        return self._bind(f"value_{len(self.objects)}", arg)

    def _tensor(self, node: Node) -> str:
        """A variable that holds the node as a tensor of its own shape and strides."""
        base, shape, strides, offset = self._place(node)
        if self._is_held(base, shape, strides, offset):
            return self.names[base]
        key = (base, (shape, strides, offset))
        if key not in self.derived:
            self.derived[key] = f"view{len(self.derived)}_{len(self.lines)}"
            text = self._as_strided(self.names[base], shape, strides, offset)
            self._line(f"{self.derived[key]} = {text}")
        return self.derived[key]

    def _place(self, node: Node) -> tuple[Node, Shape, Shape, Any]:
        """The node under a chain of views, and shape, strides and offset of the view of its memory."""
        base, view = self.views.of(node)
        strides = view.strides
        assert strides is not None, "prepare() copies what has no strides"
        if same_strides(node.tensor.shape, strides, node.tensor.strides):
            strides = node.tensor.strides  # eager's, in dimensions of size 1 too
        return base, node.tensor.shape, strides, view.offset

    def _is_held(self, base: Node, shape: Shape, strides: Shape, offset: Any) -> bool:
        """Whether that view is the tensor in the variable itself."""
        held = self._held(base)
        return shape == held[0] and offset == 0 and same_strides(shape, strides, held[1])

    def _held(self, base: Node) -> tuple[Shape, Shape]:
        """Shape and strides of the tensor in the node's variable (a reused buffer keeps those it was made with)."""
        first = next(node for node in self.names if self.names[node] == self.names[base])
        return first.tensor.shape, storage_strides(first)

    def _as_strided(self, name: str, shape: Shape, strides: Shape, offset: Any) -> str:
        where = "" if offset == 0 else f", {name}.storage_offset() + {dim_text(offset)}"
        return f"{name}.as_strided({_tuple(shape)}, {_tuple(strides)}{where})"

    def _view_of(self, name: str, node: Node, view: InputView | BufferView) -> str:
        """A view of the node in the variable, maybe in another dtype or with a lazy bit."""
        type = view.type
        if type.dtype is node.tensor.dtype and not view.lazy:
            return self._as_strided(name, type.shape, type.strides, view.offset)
        dtype = self._bind(str(type.dtype).removeprefix("torch."), type.dtype)
        places = f"{_tuple(type.shape)}, {_tuple(type.strides)}, {dim_text(view.offset)}"
        return f"{self._bind('view_as', view_as)}({name}, {dtype}, {places}, {view.lazy!r})"

    def _output(self, out: Any, arguments: list[str]) -> str:
        if isinstance(out, InputView):
            name = arguments[out.input] + (".detach()" if out.detached else "")
            return name if out.whole else self._view_of(name, self.graph.inputs[out.input], out)
        if isinstance(out, BufferView):
            return self._buffer_view(out)
        text = self._value(out)
        return self._no_view(out, text) if isinstance(out, Node) and text in self.derived.values() else text

    def _no_view(self, node: Node, text: str) -> str:
        """The memory of a buffer in the node's layout, as a tensor that autograd does not take for a view."""
        key = (node, "alone")
        if key not in self.derived:
            self.derived[key] = f"out{len(self.derived)}_{len(self.lines)}"
            self._line(f"{self.derived[key]} = {text}.detach()")
        return self.derived[key]

    def _buffer_view(self, out: BufferView) -> str:
        """One object for one BufferView, however often it stands among the outputs."""
        key = (out.buffer, id(out))
        if key not in self.derived:
            whole = self._tensor(out.buffer)
            type = out.type
            is_whole = type == out.buffer.tensor and not out.lazy
            if out.offset == 0 and is_whole and out.buffer not in self.given_out:
                text = whole  # the buffer itself; another view of all of it is another tensor object
                self.given_out.add(out.buffer)
            else:
                text = self._view_of(whole, out.buffer, out)
            self.derived[key] = f"out{len(self.derived)}_{len(self.lines)}"
            self._line(f"{self.derived[key]} = {text}")
        return self.derived[key]


_RESERVED = (
    "kernel_", "run_", "arena_", "extern_", "constant_", "value_", "device_", "buf", "res",
    "view", "out", "empty_", "lay_out",
)  # fmt: skip
_DTYPES = [name for name, value in vars(torch).items() if isinstance(value, torch.dtype)]
_TAKEN = frozenset(("call", "boxed", "float", "max", "min", "math", "increment_version", *_DTYPES, *keyword.kwlist))


def _is_empty(unit: Unit) -> bool:
    """Whether a kernel has nothing to do."""
    return all(node.tensor.numel == 0 for node in unit.stored)


def _views_text(named: Sequence[tuple[str, View]]) -> str:
    """Which variables are not meant as they lie: `, w as (4, 3) by (1, 4)`."""
    return "".join(f", {name} as {view[0]} by {view[1]}" for name, view in named if view is not None)


def _tuple(dims: Sequence[Any]) -> str:
    return f"({', '.join(map(dim_text, dims))}{',' if len(dims) == 1 else ''})"
