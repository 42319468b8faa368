"""Git work trees of orders: cloned, restored, committed to, pushed; in a stranger's repository
nothing of it runs.
"""
