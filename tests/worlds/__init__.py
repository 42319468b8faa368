"""What tests begin with: people, steps, orders with rules, threads with agents."""
