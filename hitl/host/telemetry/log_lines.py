"""Set how a process writes its log."""

from __future__ import annotations

from typing import Any


def settings(form: str, level: str) -> dict[str, Any]:
    """Give Django's LOGGING: lines in this form, `line` or `json`, from this level on."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
            "json": {"()": "checkpoints.telemetry.json_lines.JsonLines"},
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": form}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "django.channels.server": {"level": "WARNING"},
            "celery": {"level": "WARNING"},
            "daphne": {"level": "WARNING"},
            "kombu": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "mcp": {"level": "WARNING"},
        },
    }
