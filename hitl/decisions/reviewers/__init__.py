"""Who may answer a question: the rules, delegations, and people without an account."""
