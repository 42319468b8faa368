"""How a worker has runs taken up: in body processes, which it looks after."""
