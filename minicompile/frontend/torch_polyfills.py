"""Helpers of torch in Python that traces, in the place of those written in C or for a set's order.

In and out: as documented for the function of the same name. Nothing here is ever run, only traced.
"""

# ruff: noqa: ANN001, ANN002, ANN201

from __future__ import annotations

from typing import Any


def group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> Any:
    """`torch._C._group_tensors_by_device_and_dtype`: groups in the order of their first tensors."""
    groups: dict[Any, Any] = {}
    for index, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        if key not in groups:
            groups[key] = ([[] for _ in tensorlistlist], [])
        lists, indices = groups[key]
        for grouped, tensors in zip(lists, tensorlistlist):  # noqa: B905
            if tensors:
                grouped.append(tensors[index])
        if with_indices:
            indices.append(index)
    return groups


def untie_named_tensors_map(module: Any, parameters_and_buffers: Any) -> Any:
    """`torch.nn.utils.stateless._untie_named_tensors_map`, which walks sets of names."""
    named = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    names_of: dict[Any, Any] = {}
    for name, tensor in named.items():
        names_of.setdefault(tensor, []).append(name)
    untied = parameters_and_buffers.copy()
    for names in names_of.values():
        given = [name for name in names if name in parameters_and_buffers]
        if len(names) > 1 and given:
            if len(given) > 1 and len({parameters_and_buffers[name] for name in names}) != 1:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted(names)}, "
                    f"which are tied. Consider using tie_weights=False"
                )
            for name in names:
                untied[name] = parameters_and_buffers[given[-1]]
    return untied
