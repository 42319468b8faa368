"""What clients follow: a run, or a thread over all its runs, as frames of the runs API."""
