"""What is set up wrong, or will bite, in plain words with the mend beside each: `manage.py
doctor`.

No finding names a password, a key or an address with either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hitl.operations.doctor import network, people, processes, setup, standbys, store
from hitl.operations.doctor.finding import Finding as Finding
from hitl.operations.doctor.finding import Level as Level

Examination = Callable[[], Iterator[Finding]]
IN_DATABASE: tuple[Examination, ...] = (
    store.pooler,
    standbys.standbys,
    store.clocks,
    store.went_back,
    store.states,
    processes.queues,
    processes.pools,
    processes.versions,
    people.accounts,
    people.switched_off,
    people.second_factors,
)
"""Those that need the tables of this version."""
OTHERS: tuple[Examination, ...] = (
    store.disk,
    network.broker,
    network.mail,
    people.provider,
    people.saml,
    setup.debug,
    setup.hosts,
    setup.tls,
    setup.secrets,
    setup.channels,
    setup.static_files,
    setup.checks,
)


def findings() -> Iterator[Finding]:
    """Examine everything; without a database all that needs none."""
    usable = True
    for finding in store.database():
        usable = usable and finding.level is not Level.WRONG
        yield finding
    for examine in (*(IN_DATABASE if usable else ()), *OTHERS):
        yield from examine()
