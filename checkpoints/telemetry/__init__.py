"""What a process tells of its work while it works: of which run a log line is, logs as JSON, and
spans.

Nothing here costs where it is not set up: OpenTelemetry is imported by `spans.install` alone.
"""
