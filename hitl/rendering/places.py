"""Where the pages lie: beside the packages in a checkout, within `hitl` in an installation."""

from __future__ import annotations

from pathlib import Path

from checkpoints.text import extras

HERE = Path(__file__).resolve().parents[1]
CHECKOUT = None if extras.BUILT.exists() else HERE.parent
"""The folder of the repository; None where a wheel was installed."""
TEMPLATES = (CHECKOUT or HERE) / "templates"
STATIC = (CHECKOUT or HERE) / "static"
LOCALE = HERE / "locale"
