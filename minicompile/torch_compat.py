"""Differences between torch versions, and torch's private names that we rely on, in one place.

In: torch >= 2.11. Out: functions with one meaning on every version.
"""

from __future__ import annotations
