"""Loading the rules: importing a rules_*.py module registers what is in it (see rules.py)."""

from __future__ import annotations


def load_rules() -> None:
    """Import every table of rules; costs nothing the second time."""
    from . import (  # noqa: F401
        rules_activation,
        rules_conv,
        rules_creation,
        rules_index,
        rules_norm,
        rules_pointwise,
        rules_pool,
        rules_random,
        rules_reduction,
        rules_scan,
        rules_scatter,
        rules_special,
        rules_view,
        rules_window,
    )
