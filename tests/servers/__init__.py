"""Real processes: databases, brokers, the whole product, forges and models, and what goes wrong
with each.
"""
