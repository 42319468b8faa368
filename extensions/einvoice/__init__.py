"""E-invoices of EN 16931: UBL, CII and PDFs that carry it, read and checked.

A plain package, which `booking` alone uses: nothing switches it on.
"""

__formerly__ = "runs.contrib.einvoice"
