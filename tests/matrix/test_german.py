"""Every page that a person can open, in German: no English is left over."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hitl.rendering.own_words.labels import LABELS
from runs.workflows import registry
from tests.languages import leftovers
from tests.matrix.addresses import ADDRESSES, REST, served
from tests.matrix.desk.walk import url_of
from tests.matrix.walk import fill
from tests.matrix.world import BY_NAME, STATES, World

pytestmark = pytest.mark.django_db
GERMAN = {"accept-language": "de"}
FOR_PROGRAMMERS = {"api/reference/", "api/schema/"}
"""What they show is English, as answers to programs are."""
NAMES = {
    *("Writing", "Crash", "-crash", "Check", "Blocked", "Plan 1: first", ", crash", " at once"),
    *(", fail", ", unserialisable", "The shop is closed. Try again in the morning.", "text first"),
    *("planning", "outer", "asks", "Asks", "nothing", "Nothing", "agents", "one", "One", "spare"),
    *("Mine", "Really?", "writing", "(deliver)", "now", "Now", "later", "asked for", "first"),
    *("clock", "command", "deliver", " log", "Money leaves", "(writing-crash)"),
}
"""What people, templates, steps and things of the tests' world are called, and what they say."""
OF_OTHERS = re.compile(r" \| Can ")
"""Names of rights, which Django keeps as they were made."""
STORED = {*LABELS}
"""Words of ours that the admin shows as the rows have them."""


def pages(world: World) -> Iterator[str]:
    for path, address in sorted(ADDRESSES.items()):
        if "GET" not in address.methods or path.startswith(REST) or path in FOR_PROGRAMMERS:
            continue
        yield from dict.fromkeys(
            url for url, present in (fill(world, path, state) for state in STATES) if present
        )
    for path in (path for path, _, admin in served() if admin):
        yield url_of(world, path)


def said_by_tests() -> set[str]:
    """Names of the steps that other tests of this process have registered, and what they say of
    themselves.
    """
    others = {name: registry.find(name) for name in registry.known()}
    theirs = {
        name: " ".join((one.__doc__ or name).split("\n\n")[0].split())
        for name, one in others.items()
        if one.__module__.partition(".")[0] not in {"extensions", "runs"}
    }
    return {*theirs, *theirs.values()}


def test_no_page_in_german_holds_english(world: World) -> None:
    client = world.client(BY_NAME["superuser"])
    left: dict[str, list[str]] = {}
    looked, theirs = 0, said_by_tests()
    for url in pages(world):
        answer = client.get(url, headers=GERMAN)
        if answer.streaming or not answer.get("Content-Type", "").startswith("text/html"):
            continue
        looked += 1
        names = {*NAMES, *theirs, *(STORED if url.startswith("/admin/") else ())}
        for line in leftovers.of_page(answer.content.decode(), names):
            if OF_OTHERS.search(line):
                continue
            left.setdefault(line, []).append(url)
    assert looked > 100
    assert not left, f"{len(left)}:\n" + "\n".join(
        f"{line}  ({len(urls)}: {urls[0]})" for line, urls in sorted(left.items())
    )


@pytest.mark.parametrize("salt", ["My", "is", "What"])
def test_the_first_letters_of_a_masked_secret_are_no_word(salt: str) -> None:
    page = "<p>Salt: {}. Salt: {}</p>"
    assert not list(leftovers.of_page(page.format(salt + 20 * "*", "7K" + 20 * "*"), ["Salt"]))
    assert list(leftovers.of_page(page.format(salt, salt), ["Salt"]))
