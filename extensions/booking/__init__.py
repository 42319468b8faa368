"""smart-booking: an e-invoice is read, checked, matched and booked."""

__formerly__ = "runs.contrib.booking"
