"""A browser without JavaScript: what it would post of a page that nobody touched."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from django.http import QueryDict

DAY, HOUR = r"\d{4,}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d{1,3})?)?"
SHOWN = {
    "number": r"-?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?",
    "date": DAY,
    "time": HOUR,
    "datetime-local": f"{DAY}[T ]{HOUR}",
}
"""Type of an input → the values that a browser shows in it; of others it empties it."""


class Controls(HTMLParser):
    """What a browser would post of a form that nobody touched."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.posted: list[tuple[str, str]] = []
        self.names: set[str] = set()
        self.labelled: set[str] = set()
        self.ids: list[str] = []
        self.inside = ""
        self.kept = ""
        self.asleep = False
        """Inside a template, which is no part of the page."""

    def handle_starttag(self, tag, attrs):
        self.asleep |= tag == "template"
        if self.asleep:
            return
        had = dict(attrs)
        if "id" in had:
            self.ids.append(had["id"])
        if tag == "label" and "for" in had:
            self.labelled.add(had["for"])
        usual = "on" if had.get("type") in {"checkbox", "radio"} else ""
        name, value = had.get("name", ""), had.get("value", usual)
        if tag in {"input", "select", "textarea"}:
            self.names.add(name)
        held = SHOWN.get(had.get("type") or "")
        if tag == "input" and held and not re.fullmatch(held, value, re.ASCII):
            value = ""
        if tag == "input" and (had.get("type") not in {"checkbox", "radio"} or "checked" in had):
            self.posted.append((name, value.replace("\r", "").replace("\n", "")))
        elif tag in {"select", "textarea"}:
            self.inside, self.kept = name, ""
        elif tag == "option" and "selected" in had:
            self.posted.append((self.inside, value))

    def handle_data(self, data):
        if self.inside:
            self.kept += data

    def handle_endtag(self, tag):
        if self.asleep:
            self.asleep = tag != "template"
            return
        if tag == "textarea":
            text = self.kept.removeprefix("\n").replace("\r\n", "\n").replace("\r", "\n")
            self.posted.append((self.inside, text.replace("\n", "\r\n")))
        if tag in {"textarea", "select"}:
            self.inside = ""


def query(pairs) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, value in pairs:
        data.appendlist(name, value)
    return data


def form_of(page: str) -> QueryDict:
    """What the form of an editor's page would post."""
    controls = Controls()
    controls.feed(page.split('<form class="card form"', 1)[1].split("</form>", 1)[0])
    return query(pair for pair in controls.posted if pair[0] != "csrfmiddlewaretoken")
