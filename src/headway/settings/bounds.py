"""Bounds that the command line tells without the settings, which take a while to load."""

from __future__ import annotations

WIDEST = 10_000  # of a beam: more takes the memory of any machine
