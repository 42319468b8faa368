"""Invoices and books."""
