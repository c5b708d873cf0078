"""torch.compile, watched as it compiles: what Dynamo captured, what Inductor made of it, and how long it took.

In: a block in which something is compiled with `InductorWatch.backend`. Out: the watch's attributes. Everything that
hangs on Inductor's private names is here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class InductorWatch:
    """What torch.compile does, as it does it.

    Attributes:
        graphs: the FX graphs that Dynamo captured.
        breaks: `(file, line, function, reason)` of each graph break that Dynamo met, each once.
        lowered: the text of each ATen graph as Inductor's scheduler gets it, all FX passes done.
        code: the generated modules.
        seconds: Dynamo's own measurements, by stage, since the watch began.
    """

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.breaks: list[tuple[str, int, str, str]] = []
        self.lowered: list[str] = []
        self.code: list[str] = []
        self.seconds: dict[str, float] = {}

    def backend(self, gm: Any, example_inputs: Any) -> Any:
        """Inductor, watched."""
        from torch._dynamo.backends.registry import lookup_backend

        self.graphs.append(gm)
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break and reason.user_stack:
            frame = reason.user_stack[-1]
            text = next((line.strip() for line in reason.reason.splitlines() if line.strip()), "")
            row = (frame.filename, frame.lineno or 0, frame.name, text)
            if row not in self.breaks:
                self.breaks.append(row)
        return lookup_backend("inductor")(gm, example_inputs)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In the block Inductor compiles anew: what is recalled cannot be watched. Its look at the machine is kept."""
        from unittest import mock

        import torch._functorch.config as functorch_config
        import torch._inductor.config as inductor_config
        from torch._dynamo.utils import calculate_time_spent
        from torch._inductor.async_compile import AsyncCompile
        from torch._inductor.custom_graph_pass import CustomGraphPass
        from torch._inductor.graph import GraphLowering

        lowered = self.lowered

        class Keep(CustomGraphPass):
            def __call__(self, graph: Any) -> None:
                lowered.append(graph.owning_module.print_readable(print_output=False, include_stride=False))

            def uuid(self) -> Any:
                return None

        changes = {"post_grad_custom_post_pass": Keep(), "fx_graph_cache": False, "fx_graph_remote_cache": False}
        build = AsyncCompile.cpp_pybinding
        before = calculate_time_spent()
        with (
            mock.patch.object(GraphLowering, "save_output_code", self.code.append),
            mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *args: build(*args[:-1], _unseen(args[-1]))),
            inductor_config.patch(changes),
            functorch_config.patch(enable_autograd_cache=False),
        ):
            yield
        after = calculate_time_spent()
        self.seconds = {name: spent - before.get(name, 0.0) for name, spent in after.items()}


def _unseen(source: str) -> str:
    """C++ that no cache of compiled libraries knows."""
    return f"{source}\n// {uuid.uuid4()}\n"
