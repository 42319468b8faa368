"""What a process reports to systems of others: traces to a collector, errors to Sentry.

Both are off unless a setting names where they go, and each package is imported by one module.
"""
