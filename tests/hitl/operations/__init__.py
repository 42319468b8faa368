"""What operators rely on: invariants, rounds, clocks, outages, other projects."""
