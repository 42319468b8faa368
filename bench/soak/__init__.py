"""`make soak`: an hour of steady load with retention at work, and what must stay flat."""
