"""Results of one graph that are differentiated one after the other: two losses, each with a `backward()` of its own.

In: a backward graph, and the tensors kept for it when some results have got their gradients. Out: those of them that
the other results need, for a later call. In eager such results are graphs of their own, each of which is freed when it
has run; here they are one node of autograd's graph, which is freed after the first.

What eager would have freed stays freed: an intermediate result that both need. And as with autograd's own, a tensor
that was changed in place in between is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.graph import Graph, InputView, Node
from ..lowering.undefined import without_tangents


class OneByOne:
    """`is_input`: for each kept tensor, whether it is an input of forward, which eager keeps for each of its uses."""

    def __init__(self, graph: Graph, is_input: Sequence[bool], n_tangents: int) -> None:
        self.graph = graph
        self.is_input = is_input
        self.first_tangent = len(graph.inputs) - n_tangents
        self.first_kept = self.first_tangent - len(is_input)
        self._needs: dict[tuple[int, ...], frozenset[int]] = {}

    def leave(self, ctx: Any, kept: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Note on `ctx` what results without a gradient need later."""
        missing = tuple(i for i, gradient in enumerate(gradients) if gradient is None)
        if missing:
            given = tuple(i for i in range(len(gradients)) if i not in missing)
            ctx.waiting = frozenset(missing)
            # Detached: a result would hold the very node on whose context it is noted. Versions are shared.
            left = {i: (kept[i].detach(), kept[i]._version) for i in self.needs(missing)}
            ctx.left = self._without_shared(left, given)

    def take(self, ctx: Any, gradients: Sequence[Any]) -> list[Any] | None:
        """What was left for these results, None in place of what they do not need; None if it is not all there."""
        left: dict[int, tuple[Any, int]] | None = getattr(ctx, "left", None)
        given = tuple(i for i, gradient in enumerate(gradients) if gradient is not None)
        if left is None or not ctx.waiting.issuperset(given) or not self.needs(given) <= left.keys():
            return None
        ctx.waiting -= frozenset(given)
        for i in self.needs(given):
            if left[i][0]._version != left[i][1]:
                raise RuntimeError("one of the variables needed for gradient computation has been modified by an "
                                   "inplace operation")  # fmt: skip
        ctx.left = self._without_shared(left, given)
        return [left[i][0] if i in self.needs(given) else None for i in range(len(self.is_input))]

    def _without_shared(self, left: dict[int, Any], given: tuple[int, ...]) -> dict[int, Any]:
        used = self.needs(given)
        return {i: item for i, item in left.items() if self.is_input[i] or i not in used}

    def needs(self, given: tuple[int, ...]) -> frozenset[int]:
        """The kept tensors that backward reads for gradients of these results alone."""
        if given not in self._needs:
            tangents = range(self.first_tangent, len(self.graph.inputs))
            missing = [at for at in tangents if at - self.first_tangent not in given]
            read = set(_read(without_tangents(self.graph, tangents, missing)))
            kept = self.graph.inputs[self.first_kept : self.first_tangent]
            self._needs[given] = frozenset(i for i, node in enumerate(kept) if node in read)
        return self._needs[given]


def _read(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield from node.operands()
    yield from graph.roots()
    yield from (graph.inputs[out.input] for out in graph.outputs if isinstance(out, InputView))
