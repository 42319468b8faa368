"""E-invoices of EN 16931: UBL, CII and PDFs that carry it, read and checked."""
