"""Real processes are killed, stopped and cut off, and work goes on."""
