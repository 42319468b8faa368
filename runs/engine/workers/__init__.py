"""What a worker process is to the others: its leases, its end, and its clock."""
