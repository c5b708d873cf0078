"""ir.Graph → what is to run for it, in order: kernels as kernel IR, and extern calls.

In: an optimised Graph, and the language that its kernels will be printed in. Out: `Planned`. Nothing here is printed,
built or laid out in memory; so a GPU's kernels are planned alike where there is a GPU and where there is none.

    prepare → fuse → lower_kernel (each group) → products as kernels (matmul_choice.py) → batch
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..config import config
from ..ir.graph import Graph
from ..timeline import stage
from .atomics import use_atomics
from .batches import batch
from .compiled import FusionDecision
from .cpp_product_choice import Measured, has_own_products
from .fusion import Unit, fuse
from .lower_kernel import Lowered, lower_kernel
from .matmul_choice import Policy, Timed, choose_products
from .padded_products import pad_products
from .prepare import Views, prepare
from .split_reductions import split_reductions

AT_MOST_BUFFERS = {"cpp": 4096, "triton": 240}
"""Tensors that one kernel may get; CUDA's limit is 4 KiB of parameters."""


@dataclass(frozen=True)
class Planned:
    """How a graph will run.

    Attributes:
        graph: the prepared graph.
        units: groups of its nodes that run as one kernel or one extern call, in running order.
        lowered: the kernel of each unit that is no extern call, in running order.
        decisions: what fusion tried.
    """

    graph: Graph
    views: Views
    units: list[Unit]
    lowered: dict[Unit, Lowered]
    decisions: list[FusionDecision]


def plan_kernels(
    graph: Graph,
    language: str,
    options: Mapping[str, Any] | None = None,
    device: torch.device | None = None,
    seconds: dict[str, float] | None = None,
) -> Planned:
    """See the module's docstring.

    Args:
        language: "cpp" or "triton".
        options: `exact_rounding`, `tune`: see `compile_ir`.
        device: where candidates are timed if `tune` asks for it; None: nowhere.
        seconds: gets the time of each stage.
    """
    options = {"exact_rounding": config.exact_rounding or config.exact, "tune": False, **(options or {})}
    with stage("fusion", seconds):
        graph, views = prepare(_for_gpu(graph) if language == "triton" else graph), Views()
        plan = fuse(graph, views)
    with stage("kernels", seconds):
        lowered = lower_units(plan.units, graph, bool(options["exact_rounding"]))
        _mark_in_place(lowered, graph, views)
        policy = None if options["exact_rounding"] else _product_policy(language, bool(options["tune"]), device)
        if policy is not None:
            plan, lowered = choose_products(plan, lowered, graph, views, policy)
        batched = batch(plan, lowered, AT_MOST_BUFFERS[language])
    return Planned(graph, views, batched.units, batched.lowered, [*plan.decisions, *batched.decisions])


def _product_policy(language: str, tune: bool, device: torch.device | None) -> Policy | None:
    """Who says which matrix products become kernels; None: nobody, all stay calls."""
    if language == "triton":
        return Timed(device) if tune else None
    return Measured() if has_own_products() else None


def _for_gpu(graph: Graph) -> Graph:
    return use_atomics(pad_products(split_reductions(graph)))


def lower_units(units: list[Unit], graph: Graph, exact: bool = False) -> dict[Unit, Lowered]:
    """The kernel of each group, in running order."""
    result: dict[Unit, Lowered] = {}
    for unit in units:
        if unit.iteration is not None:
            name = kernel_name(len(result), unit)
            result[unit] = lower_kernel(name, unit.members, set(unit.stored), unit.iteration, graph.symbols, exact)
    return result


def kernel_name(number: int, unit: Unit) -> str:
    """`kernel_3_exp_sum_div`: a number, and up to three of the ops that say most (a cast says little)."""
    ops = dict.fromkeys(node.op for node in unit.members if node.op != "cast")
    return re.sub(r"\W", "_", "_".join(["kernel", str(number), *(list(ops)[-3:] or ["copy"])]))


def _mark_in_place(lowered: dict[Unit, Lowered], graph: Graph, views: Views) -> None:
    """Kernels that store what is to overwrite an input may be given that input to store into."""
    written = {views.base(node) for _, node in graph.writes}
    for unit, low in lowered.items():
        if not written.isdisjoint(unit.stored):
            lowered[unit] = replace(low, kernel=replace(low.kernel, in_place=True))
