"""Recorded graphs with kernels where cuBLAS and cuDNN put memsets.

In: a graph that was captured and is not instantiated yet. Out: the same graph, with a kernel node for each memset of a
few words.

Before many of their kernels these libraries set four bytes to zero, and a graph that has such nodes costs the host more
to replay with each of them: 48 products 60 µs, 12 attentions 15, where graphs of kernels alone take 3 to 10 however
many they are (docs/performance_gpu.md). A kernel that stores the words does the same, in the same place of the graph.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from dataclasses import dataclass
from typing import Any, Protocol

log = logging.getLogger(__name__)

WORDS = 1024
"""Words of four bytes up to which a memset is made a kernel: for large ones the driver's own is good."""

_MEMSET = 2  # CU_GRAPH_NODE_TYPE_MEMSET
_BLOCK = 128

_FILL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 start, .param .u32 word, .param .u32 words) {
  .reg .u64 address, offset;
  .reg .u32 block, size, thread, index, count, value;
  .reg .pred outside;
  mov.u32 block, %ctaid.x;
  mov.u32 size, %ntid.x;
  mov.u32 thread, %tid.x;
  mad.lo.u32 index, block, size, thread;
  ld.param.u32 count, [words];
  setp.ge.u32 outside, index, count;
  @outside ret;
  ld.param.u64 address, [start];
  ld.param.u32 value, [word];
  mul.wide.u32 offset, index, 4;
  add.u64 address, address, offset;
  st.global.u32 [address], value;
  ret;
}
"""

Node = int


@dataclass(frozen=True)
class Fill:
    """A memset: `words` words of four bytes from the address `start`, each set to `word`."""

    start: int
    word: int
    words: int


class Graph(Protocol):
    """What is asked of a captured graph. Every method raises RuntimeError where the driver refuses."""

    def memsets(self) -> list[tuple[Node, Fill]]:
        """The memset nodes that are whole words in one row."""

    def before(self, node: Node) -> list[Node]: ...

    def after(self, node: Node) -> list[Node]: ...

    def add_kernel(self, fill: Fill, before: list[Node]) -> Node: ...

    def connect(self, node: Node, after: list[Node]) -> None: ...

    def destroy(self, node: Node) -> None: ...


def memsets_to_kernels(graph: Graph) -> int:
    """Replace what can be replaced; how many that were. What the driver refuses stays as it was captured."""
    replaced = 0
    try:
        for node, fill in graph.memsets():
            if fill.words <= WORDS:
                _replace(graph, node, fill)
                replaced += 1
    except RuntimeError as error:
        log.info("memsets stay in a recorded graph: %s", error)
    return replaced


def _replace(graph: Graph, node: Node, fill: Fill) -> None:
    before, after = graph.before(node), graph.after(node)
    new = graph.add_kernel(fill, before)
    try:
        graph.connect(new, after)
    except RuntimeError:
        graph.destroy(new)
        raise
    graph.destroy(node)


# ---- the driver's graphs ----


class _Memset(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = (
        ("start", ctypes.c_uint64), ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint), ("size", ctypes.c_uint),
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t),
    )  # fmt: skip

    def fill(self) -> Fill | None:
        """The same in words; None where it is not whole words of one value in one row."""
        count = self.size * self.width
        if self.height != 1 or count % 4 or self.start % 4 or self.size not in (1, 2, 4):
            return None
        repeated = {1: 0x01010101, 2: 0x00010001, 4: 1}[self.size]
        return Fill(self.start, (self.value * repeated) & 0xFFFFFFFF, count // 4)


class _Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p), *((f"{what}_{d}", ctypes.c_uint) for what in ("grid", "block") for d in "xyz"),
        ("shared", ctypes.c_uint), ("params", ctypes.c_void_p), ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip


class DriverGraph:
    """A CUgraph, by its address; see `Graph`. Its device is current."""

    def __init__(self, graph: int, device: int) -> None:
        self.graph, self.device, self.driver = ctypes.c_void_p(graph), device, _driver()

    def memsets(self) -> list[tuple[Node, Fill]]:
        found = []
        for node in self._nodes("cuGraphGetNodes", self.graph):
            if self._kind(node) == _MEMSET:
                params = _Memset()
                self._call("cuGraphMemsetNodeGetParams", ctypes.c_void_p(node), ctypes.byref(params))
                fill = params.fill()
                found += [] if fill is None else [(node, fill)]
        return found

    def before(self, node: Node) -> list[Node]:
        return self._nodes("cuGraphNodeGetDependencies", ctypes.c_void_p(node))

    def after(self, node: Node) -> list[Node]:
        return self._nodes("cuGraphNodeGetDependentNodes", ctypes.c_void_p(node))

    def add_kernel(self, fill: Fill, before: list[Node]) -> Node:
        values = (ctypes.c_uint64(fill.start), ctypes.c_uint32(fill.word), ctypes.c_uint32(fill.words))
        params = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))  # the driver copies what they point to
        blocks = -(-fill.words // _BLOCK)
        kernel = _Kernel(_fill_kernel(self.device), blocks, 1, 1, _BLOCK, 1, 1, 0, ctypes.addressof(params))
        new = ctypes.c_void_p()
        self._call("cuGraphAddKernelNode_v2", ctypes.byref(new), self.graph, *_array(before), ctypes.byref(kernel))
        return new.value or 0

    def connect(self, node: Node, after: list[Node]) -> None:
        to, count = _array(after)
        self._call("cuGraphAddDependencies", self.graph, _array([node] * len(after))[0], to, count)

    def destroy(self, node: Node) -> None:
        self._call("cuGraphDestroyNode", ctypes.c_void_p(node))

    def _kind(self, node: Node) -> int:
        kind = ctypes.c_int()
        self._call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        return kind.value

    def _nodes(self, function: str, owner: Any) -> list[Node]:
        """Asked twice: for the number, and then for the nodes. Edges that say more than an order are an error."""
        count = ctypes.c_size_t()
        self._call(function, owner, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        if count.value:
            self._call(function, owner, nodes, ctypes.byref(count))
        return [node or 0 for node in nodes]

    def _call(self, function: str, *args: Any) -> None:
        found = getattr(self.driver, function, None)
        if found is None:
            raise RuntimeError(f"this driver has no {function}")
        if code := found(*args):
            raise RuntimeError(f"{function}: CUDA error {code}")


def _array(nodes: list[Node]) -> tuple[Any, Any]:
    return (ctypes.c_void_p * len(nodes))(*nodes), ctypes.c_size_t(len(nodes))


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _fill_kernel(device: int) -> int:
    """The kernel's function on the device, which is current. It is never unloaded: graphs name it."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    for code in (
        _driver().cuModuleLoadData(ctypes.byref(module), _FILL),
        _driver().cuModuleGetFunction(ctypes.byref(function), module, b"fill"),
    ):
        if code != 0:
            raise RuntimeError(f"the kernel that fills words cannot be loaded: CUDA error {code}")
    return function.value or 0
