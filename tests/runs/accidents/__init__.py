"""Workers that die, freeze or fall silent, and brokers that go."""
