"""Presses keys where they could mean something else than they do, and notes what leaves the page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error, Page, Route

PROBE = """(scope) => {
  const HOME = ["BODY", "MAIN", "H1", "H2", "P", "DIV"];
  const THINGS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex], [role=button]";
  const open = () => {
    for (const one of document.querySelectorAll("dialog[open]")) one.close();
    for (const one of document.querySelectorAll(":popover-open")) one.hidePopover();
    for (const one of document.querySelectorAll("main details")) one.open = true;
    document.querySelector(".revision")?.classList.add("open");
  };
  const ready = () => { open(); if (scope === "dialog") document.querySelector("[data-confirm]").showModal(); };
  ready();
  const things = [...document.querySelectorAll(scope === "dialog" ? `dialog[open] :is(${THINGS})` : `${scope}, ${scope} :is(${THINGS})`)]
    .filter((one) => !one.disabled && !one.matches("[aria-hidden=true]") && one.checkVisibility());
  window.probe = {
    focus(at) {
      const node = things[at];
      if (!node.isConnected || node.disabled) return false;
      if (node.tagName === "BODY") document.activeElement.blur();
      else node.focus({ preventScroll: true });
      return document.activeElement === node;
    },
    look(was) {
      const about = document.querySelector("[data-will]")?.textContent ?? "", { activeElement: at } = document;
      const typed = at.value ?? "", still = (at === things[was] || things[was].tagName === "BODY") && (scope === "dialog" || !document.querySelector("dialog[open]"));
      if (about) document.querySelector("main").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      document.querySelector("[data-will]")?.replaceChildren();
      ready();
      return [about, typed, document.querySelector("[aria-busy=true]") === null, still];
    },
  };
  return things.map((node) => ({
    is: `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ""}[${node.name || node.className || ""}] ${(node.getAttribute("aria-label") || node.textContent).replace(/\\s+/g, " ").trim().slice(0, 40)}`,
    name: node.name || "", button: node.tagName === "BUTTON", type: node.type || "",
    decides: node.name === "action" ? node.value : "",
    says: node.closest("[data-say]") !== null,
    takes: node.matches("textarea, select, input"),
    types: node.matches("textarea, input:is([type=text], [type=search], :not([type]))"),
    home: HOME.includes(node.tagName) && node.tabIndex < 0 || node.matches("[data-row] .main-link, [data-row] [type=checkbox], .pager [rel=next]"),
  }));
}"""
"""Lists what can have the focus, with all that folds open, and lets it be focused by number."""
TABLE = """async () => {
  const { KEYS } = await import(new URL("keys.js", document.querySelector("script[src*='js/palette']").src));
  return [...new Set(KEYS.flatMap(([, , keys]) => keys.flatMap(([shown, , names]) => names ?? [shown])))];
}"""
"""The keys of the scripts' own table."""
SENTENCE = "@ana is this ok? next run: fix, jog."
"""With every letter that is a key."""


def keys_of(page: Page) -> list[str]:
    """All that are bound, as Playwright names them; `G I` is one after the other."""
    found: list[str] = page.evaluate(TABLE)
    return [
        key.replace("Ctrl+", "Control+") if len(key) > 1 and key[1] != " " else key.lower()
        for key in found
    ]


@dataclass
class Watch:
    """Lets nothing that answers, and no other page, through, and notes what it was."""

    page: Page
    sent: list[str] = field(default_factory=list)
    """The answers: an action's name, `say` for a message of a thread."""

    def __post_init__(self) -> None:
        self.page.route_web_socket("**/ws/**", lambda _: None)
        self.page.route("**/*", self._note)

    def _note(self, route: Route) -> None:
        request = route.request
        if request.method == "POST":
            posted = parse_qs(request.post_data or "", keep_blank_values=True)
            if re.search(r"/decide$|/l/|/several$", urlsplit(request.url).path):
                self.sent += posted.get("action", [])
            elif request.url.endswith("/say"):
                self.sent.append("say")
            route.fulfill(status=204)
        elif request.is_navigation_request() and self.page.url != "about:blank" and self.held:
            route.fulfill(status=204)
        else:
            route.continue_()

    held = False
    """Whether the page is kept where it is."""

    def go(self, path: str) -> None:
        """Open a page, and forget what was typed there before."""
        self.held = False
        self.page.evaluate("sessionStorage.clear()")
        try:
            self.page.goto(path)
        except Error as error:  # one that a key began, and that leads nowhere, came between
            if "ERR_ABORTED" not in str(error):
                raise
            self.page.goto(path)
        self.held = True

    def nothing_comes(self) -> None:
        """Of all that was pressed, longer than an answer by a key waits."""
        self.page.wait_for_timeout(2_200)
        assert not self.sent


ALONE = ("Enter", "Space", "Control+Enter", "Control+K")
"""Keys that press a control, or open something: looked at one by one, everywhere."""


def press_all(
    watch: Watch, path: str, scope: str, keys: list[str], *, goes_with: dict[str, str]
) -> int:
    """Press every key with the focus on everything; gives how many presses there were.

    Args:
        goes_with: by the beginning of a field's name, the answer that Ctrl+Enter in it sends.
    """
    page, pressed = watch.page, 0
    watch.go(path)
    things = page.evaluate(PROBE, scope)
    quiet = [key for key in keys if key not in (*ALONE, "Escape")]
    for at, thing in enumerate(things):
        groups = [[key] for key in quiet] if thing["home"] else [quiet]
        for group in [*groups, ["Escape"], *([key] for key in ALONE)]:
            if not page.evaluate(
                "(at) => probe.focus(at)", at
            ):  # the page came anew, or it is gone
                watch.go(path)
                assert page.evaluate(PROBE, scope)[at]["is"] == thing["is"]
                if not page.evaluate("(at) => probe.focus(at)", at):
                    break
            watch.sent.clear()
            for one in " ".join(group).split(" "):
                page.keyboard.press(one)
            pressed += len(group)
            where = f"{group} at {thing['is']} of {path}"
            about, _, calm, still = page.evaluate("(at) => probe.look(at)", at)
            assert still or thing["home"] or group is not quiet, f"{where} did something"
            assert bool(about) <= (thing["home"] and group == ["a"]), f"{where}: {about}"
            allowed = _allowed(thing, group[0], goes_with)
            for _ in range(10):  # what a control sends goes out a moment later
                if allowed and not watch.sent:
                    page.wait_for_timeout(20)
            assert set(watch.sent) <= allowed, f"{where} sent {watch.sent}"
            if not calm or (_opens(thing) and group[0] in ALONE):
                watch.go(path)  # what opened takes the next keys
                page.evaluate(PROBE, scope)
    watch.sent.clear()
    return pressed


def _opens(thing: dict[str, Any]) -> bool:
    """Whether a space opens a list or a calendar of the browser's, which takes what is typed next."""
    return str(thing["type"]).startswith(("select", "date"))


def _allowed(thing: dict[str, Any], key: str, goes_with: dict[str, str]) -> set[str]:
    """The answers that this control says it sends, by this key."""
    if thing["button"] and key in {"Enter", "Space", "Control+Enter"}:
        return {thing["decides"]} if thing["decides"] else {"say"} if thing["says"] else set()
    if thing["takes"] and key == "Control+Enter":
        if thing["says"]:
            return {"say"}
        return {way for name, way in goes_with.items() if thing["name"].startswith(name)}
    return set()


def type_into_all(watch: Watch, path: str, scope: str) -> int:
    """Type a sentence into every field; gives how many there were."""
    watch.go(path)
    things, page, typed = watch.page.evaluate(PROBE, scope), watch.page, 0
    for at, thing in enumerate(things):
        if not thing["takes"] or not page.evaluate("(at) => probe.focus(at)", at):
            continue
        page.keyboard.type(SENTENCE.replace(" ", "") if _opens(thing) else SENTENCE)
        about, text, _, _ = page.evaluate("(at) => probe.look(at)", at)
        assert not about and not watch.sent, f"{thing['is']} of {path}: {about}"
        assert not thing["types"] or SENTENCE in text, f"{thing['is']} of {path} has {text!r}"
        typed += 1
    return typed


def open_and_type(watch: Watch, path: str) -> int:
    """Open all that opens, by a click or with Enter, and type at once; gives how many there were
    that hold a field.
    """
    page, held = watch.page, 0
    watch.go(path)
    for number in range(page.locator("main summary").count()):
        page.evaluate(FOLD)
        summary = page.locator("main summary").nth(number)
        if not summary.is_visible():
            continue
        if number % 2:
            summary.click()
        else:
            summary.press("Enter")
        place = page.evaluate(SEEN)
        page.keyboard.type(SENTENCE)
        seen, words = page.evaluate(SEEN), summary.inner_text()
        page.keyboard.press("Escape")
        assert not seen["about"] and not watch.sent, f"{words}: {seen}"
        if place["field"]:
            assert place["above"] and place["below"], f"{words}: {place}"
            assert seen["text"] in ("", SENTENCE), f"{words}: {seen}"
            held += 1
    return held


FOLD = """() => {
  for (const one of document.querySelectorAll("main details")) one.open = false;
  for (const one of document.querySelectorAll("main :is(textarea, input[type=text])")) one.value = "";
  scrollTo(0, 0);
}"""
SEEN = """() => {
  const at = document.activeElement, { top, bottom } = at.getBoundingClientRect();
  const bar = document.querySelector(".bar")?.getBoundingClientRect().top ?? innerHeight;
  const field = at.matches("textarea, select, input, pre");
  return {
    field, text: at.matches("textarea, input:is([type=text], :not([type]))") ? at.value : "",
    about: document.querySelector("[data-will]")?.textContent ?? "",
    above: top < bar && (bottom <= bar + 1 || bottom - top > bar - 60), below: bottom > 56,
  };
}"""
"""Where the focus is after something was opened, and whether it can be seen."""
