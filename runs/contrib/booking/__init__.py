"""smart-booking: an e-invoice is read, checked, matched and booked."""

from runs.contrib.booking.templates import STEP_TEMPLATES, TEMPLATES

__all__ = ["STEP_TEMPLATES", "TEMPLATES"]
