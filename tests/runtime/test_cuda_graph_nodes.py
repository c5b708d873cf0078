"""Memset nodes of captured graphs become kernel nodes in the same place; what is refused stays."""

import ctypes

import pytest
import torch

from minicompile.runtime import cuda_graph_nodes
from minicompile.runtime.cuda_graph_memory import capture
from minicompile.runtime.cuda_graph_nodes import WORDS, DriverGraph, Fill, memsets_to_kernels


class FakeGraph:
    """Nodes 1 → 2 → 3 → 4 and 1 → 3, of which some are memsets; `refused`: the method that fails."""

    def __init__(self, fills, refused=""):
        self.edges = {(1, 2), (2, 3), (3, 4), (1, 3)}
        self.kinds = {node: fills.get(node, "kernel") for node in (1, 2, 3, 4)}
        self.refused = refused

    def _maybe_refuse(self, name):
        if name == self.refused:
            raise RuntimeError(name)

    def memsets(self):
        self._maybe_refuse("memsets")
        return [(node, kind) for node, kind in self.kinds.items() if isinstance(kind, Fill)]

    def before(self, node):
        return sorted(a for a, b in self.edges if b == node)

    def after(self, node):
        self._maybe_refuse("after")
        return sorted(b for a, b in self.edges if a == node)

    def add_kernel(self, fill, before):
        self._maybe_refuse("add_kernel")
        new = max(self.kinds) + 1
        self.kinds[new] = ("kernel for", fill)
        self.edges |= {(node, new) for node in before}
        return new

    def connect(self, node, after):
        self._maybe_refuse("connect")
        self.edges |= {(node, other) for other in after}

    def destroy(self, node):
        del self.kinds[node]
        self.edges = {edge for edge in self.edges if node not in edge}


SMALL, OTHER, LARGE = Fill(64, 0, 1), Fill(128, 7, 3), Fill(256, 0, WORDS + 1)


def test_a_kernel_stands_where_the_memset_stood():
    graph = FakeGraph({3: SMALL})
    assert memsets_to_kernels(graph) == 1
    assert graph.kinds == {1: "kernel", 2: "kernel", 4: "kernel", 5: ("kernel for", SMALL)}
    assert graph.edges == {(1, 2), (2, 5), (1, 5), (5, 4)}


def test_neighbouring_memsets_at_the_ends():
    graph = FakeGraph({1: SMALL, 2: OTHER, 4: SMALL})
    assert memsets_to_kernels(graph) == 3
    assert graph.kinds == {3: "kernel", 5: ("kernel for", SMALL), 6: ("kernel for", OTHER), 7: ("kernel for", SMALL)}
    assert graph.edges == {(5, 6), (5, 3), (6, 3), (3, 7)}


def test_a_large_memset_stays():
    graph = FakeGraph({2: LARGE})
    assert memsets_to_kernels(graph) == 0 and graph.kinds[2] == LARGE


@pytest.mark.parametrize("refused", ["memsets", "after", "add_kernel", "connect"])
def test_what_the_driver_refuses_leaves_the_graph_as_it_was(refused):
    graph, before = FakeGraph({3: SMALL}, refused), FakeGraph({3: SMALL})
    assert memsets_to_kernels(graph) == 0
    assert (graph.kinds, graph.edges) == (before.kinds, before.edges)


@pytest.mark.parametrize(
    "params, expected",
    [
        ((64, 0, 0, 1, 4, 1), Fill(64, 0, 1)), ((64, 0, 0xAB, 1, 8, 1), Fill(64, 0xABABABAB, 2)),
        ((64, 0, 0x1234, 2, 6, 1), Fill(64, 0x12341234, 3)), ((64, 0, 0xFFFFFFFF, 4, 5, 1), Fill(64, 0xFFFFFFFF, 5)),
        ((64, 0, 0, 1, 6, 1), None), ((66, 0, 0, 1, 4, 1), None), ((64, 8, 0, 4, 1, 2), None),
    ],
)  # fmt: skip
def test_a_memset_in_words(params, expected):
    assert cuda_graph_nodes._Memset(*params).fill() == expected


class NoDriver:
    def cuGraphGetNodes(self, *args):
        return 3


def test_errors_say_what_failed(monkeypatch):
    monkeypatch.setattr(cuda_graph_nodes, "_driver", NoDriver)
    graph = DriverGraph(1, 0)
    with pytest.raises(RuntimeError, match="cuGraphGetNodes: CUDA error 3"):
        graph.memsets()
    with pytest.raises(RuntimeError, match="no cuGraphDestroyNode"):
        graph.destroy(2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("words", [1, 5, 300, WORDS + 1])
def test_on_the_device(words, monkeypatch):
    counts = []
    real = cuda_graph_nodes.memsets_to_kernels
    monkeypatch.setattr(
        "minicompile.runtime.cuda_graph_memory.memsets_to_kernels", lambda graph: counts.append(real(graph))
    )
    ones, x = torch.zeros(WORDS + 8, device="cuda"), torch.randn(WORDS + 8, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")

    def call(x):
        before = x * 2
        ones.copy_(before)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        number = ctypes.c_uint(0x3F800000)  # 1.0
        code = driver.cuMemsetD32Async(ctypes.c_uint64(ones.data_ptr() + 4), number, ctypes.c_size_t(words), stream)
        assert code == 0
        return (ones + before,)

    graph, (result,) = capture(call, (x,))
    for _ in range(3):
        x.normal_()
        graph.replay()
        expected = x * 2
        expected[1 : words + 1] = 1
        torch.testing.assert_close(result, expected + x * 2)
    assert counts == [1 if words <= WORDS else 0]
