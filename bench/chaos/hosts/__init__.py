"""`make hosts`: web, workers, beat, two databases and Redis are hosts of their own on one network,
which is broken as networks are.

A host is a network namespace with a cable to this process, which is the switch between them
(`network`); where namespaces are not permitted, proxies stand in. `world` starts the product there,
and `faults` are those that only such a world can have.
"""
