"""Functions within a graph: what `torch.func.vmap` and its like, checkpointing and custom gradients are applied to.

In: the calls that are traced while a `Body` is open. Out: an FX module of its own, which the graph around it holds and
hands to the function that runs it; and the tensors of the graph around it that it reads, which enter it as arguments.

The graph that is compiled is itself the outermost body.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx

from . import hook


class Body:
    """A graph under construction. `what` it is, for messages; `step`: the root instruction that it belongs to.

    `sees`: a closed graph whose tensors it may use besides those around it (those of forward, for a backward).
    `is_transform`: whether a transform of torch.func is applied to it; `is_checkpoint`: whether backward runs it again;
    `is_branch`: whether it is run as it stands, if it is; `may_write`: arguments that it may change in place.
    """

    def __init__(
        self,
        what: str = "the graph",
        step: int = 0,
        *,
        sees: fx.Graph | None = None,
        is_transform: bool = False,
        is_checkpoint: bool = False,
        is_branch: bool = False,
        may_write: Collection[fx.Node] = (),
    ) -> None:
        self.what = what
        self.step = step
        self.sees = sees
        self.is_transform = is_transform
        self.is_checkpoint = is_checkpoint
        self.is_branch = is_branch
        self.may_write = may_write
        self.graph = fx.Graph()
        self.modules: dict[str, fx.GraphModule] = {}
        self.lifted: dict[fx.Node, fx.Node] = {}
        self._versions: dict[fx.Node, int] = {}
        self._last_input: fx.Node | None = None
        self._count = 0

    def input(self, outer: fx.Node | None, example: Any) -> fx.Node:
        """An argument. `outer`: the node around it that it stands for."""
        before = self._last_input.next if self._last_input is not None else next(iter(self.graph.nodes), None)
        with self.graph.inserting_before(before):
            node = self.graph.placeholder(f"{outer.name if outer is not None else 'value'}_{self._count}")
        self._count += 1
        node.meta["example_value"] = example
        if outer is not None:
            node.meta["outer"] = outer
        if isinstance(example, torch.Tensor):
            self._versions[node] = version_of(example)
        self._last_input = node
        return node

    def lift(self, outer: fx.Node) -> fx.Node:
        """The argument through which a node from around it enters."""
        node = self.lifted.get(outer)
        if node is None:
            node = self.lifted[outer] = self.input(outer, outer.meta["example_value"])
        return node

    def writes_outside(self) -> bool:
        """Whether a tensor from outside has been changed in place that may not be."""
        versions = ((node, version) for node, version in self._versions.items() if node not in self.may_write)
        return any(version_of(node.meta["example_value"]) != version for node, version in versions)

    def close(self, outputs: list[fx.Node]) -> fx.GraphModule:
        """The module: from its arguments, in the order in which they were made, to a tuple."""
        self.graph.output(tuple(outputs))
        return module_of(self, "Body")

    def hold(self, module: fx.GraphModule) -> str:
        """Keep the module of an inner body; its name here."""
        name = f"body_{len(self.modules)}"
        self.modules[name] = module
        return name


def module_of(body: Body, name: str) -> fx.GraphModule:
    """The module of a graph that is complete. Where it runs as it stands, it is not for compiling once more."""
    module = fx.GraphModule(body.modules, body.graph, name)
    hook.skip(module.forward.__code__)
    return module


def version_of(tensor: torch.Tensor) -> int:
    """The number of changes in place; none is counted for inference tensors."""
    return -1 if tensor.is_inference() else tensor._version
