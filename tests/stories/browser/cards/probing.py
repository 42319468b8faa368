"""Presses keys where they could mean something else than they do, and notes what leaves the page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error, Page

PROBE = """(scope) => {
  const HOME = ["BODY", "MAIN", "H1", "H2", "P", "DIV"];
  const THINGS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex], [role=button]";
  const open = () => {
    for (const one of document.querySelectorAll("dialog[open]")) one.close();
    for (const one of document.querySelectorAll(":popover-open")) one.hidePopover();
    for (const one of document.querySelectorAll("main details")) one.open = true;
    document.querySelector(".revision")?.classList.add("open");
    for (const one of document.querySelectorAll(".look")) one.classList.add("on");
    for (const one of document.querySelectorAll(".call > [class*=of-]")) one.style.display = "block";
  };
  const ready = () => { open(); if (scope === "dialog") document.querySelector("[data-confirm]").showModal(); };
  ready();
  const things = [...document.querySelectorAll(scope === "dialog" ? `dialog[open] :is(${THINGS})` : `${scope}, ${scope} :is(${THINGS})`)]
    .filter((one) => !one.disabled && !one.matches("[aria-hidden=true]") && one.checkVisibility());
  const focus = (at) => {
    const node = things[at];
    if (!node.isConnected || node.disabled) return false;
    if (node.tagName === "BODY") document.activeElement.blur();
    else node.focus({ preventScroll: true });
    return document.activeElement === node;
  };
  const look = (was) => {
    const about = document.querySelector("[data-will]")?.textContent ?? "", { activeElement: at } = document;
    const typed = at.value ?? "", still = (at === things[was] || things[was].tagName === "BODY") && (scope === "dialog" || !document.querySelector("dialog[open]"));
    if (about) document.querySelector("main").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    document.querySelector("[data-will]")?.replaceChildren();
    ready();
    return [about, typed, still];
  };
  const stroke = (name) => {
    const parts = name.split("+"), key = parts.at(-1).replace("Space", " ");
    const how = { key, bubbles: true, cancelable: true, composed: true, ctrlKey: parts.includes("Control"), shiftKey: parts.includes("Shift") };
    return ["keydown", "keyup"].map((kind) => document.activeElement.dispatchEvent(new KeyboardEvent(kind, how))).includes(false);
  };
  let would = null;
  addEventListener("submit", (event) => {
    if (!would) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (event.target.closest("[data-say]")) would.push("say"); else if (event.submitter?.name === "action") would.push(event.submitter.value);
  }, { capture: true });
  const calm = () => document.querySelector("[aria-busy=true]") === null;
  window.probe = {
    focus, look,
    strike(turns) {
      const seen = turns.map(([at, groups]) => groups.map((group) => {
        if (!focus(at)) return null;
        would = [];
        const taken = group.flatMap((name) => name.split(" ")).filter((name) => stroke(name)), sends = would;
        would = null;
        return [...look(at), taken, sends];
      }));
      return [seen, focus(turns.at(-1)[0])];
    },
    async free() {
      for (let turn = 0; turn < 50 && !calm(); turn += 1) await new Promise((done) => setTimeout(done, 20));
      for (const one of document.querySelectorAll(".lost, .row-problem")) one.remove();
      return calm() && document.querySelector(":is(select, input):open") === null;
    },
  };
  return things.map((node) => ({
    is: `${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ""}[${node.name || node.className || ""}] ${(node.getAttribute("aria-label") || node.textContent).replace(/\\s+/g, " ").trim().slice(0, 40)}`,
    tag: node.tagName, form: node.form?.className ?? "", name: node.name || "", button: node.tagName === "BUTTON", link: node.tagName === "A", type: node.type || "",
    decides: node.name === "action" ? node.value : "",
    says: node.closest("[data-say]") !== null,
    takes: node.matches("textarea, select, input"),
    types: node.matches("textarea, input:is([type=text], [type=search], :not([type]))"),
    home: HOME.includes(node.tagName) && node.tabIndex < 0 || node.matches("[data-pane], [data-row] .main-link, [data-row] [type=checkbox], .pager [rel=next]"),
  }));
}"""
"""Lists what can have the focus, with all that folds open, and lets it be focused by number. What is struck is made by the page
itself: its scripts hear it as they hear a keyboard, the browser does nothing of its own, and what a form would send is noted and not
sent.
"""
TABLE = """async () => {
  const { KEYS } = await import(new URL("keys.js", document.querySelector("script[src*='js/palette']").src));
  return [...new Set(KEYS.flatMap(([, , keys]) => keys.flatMap(([shown, , names]) => names ?? [shown])))];
}"""
"""The keys of the scripts' own table."""
SENTENCE = "@jog? think rax"
"""With every letter that is a key."""


def keys_of(page: Page) -> list[str]:
    """All that are bound, as Playwright names them; `G I` is one after the other."""
    found: list[str] = page.evaluate(TABLE)
    return [
        key.replace("Ctrl+", "Control+") if len(key) > 1 and key[1] != " " else key.lower()
        for key in found
    ]


SILENT = """globalThis.WebSocket = class {
  static OPEN = 1;
  readyState = 1;
  constructor() { setTimeout(() => this.onopen?.()); }
  send() {}
  close() {}
};"""
"""A socket that says nothing. One of Playwright's is told of each page that is left again and again."""


@dataclass
class Watch:
    """Lets nothing that answers, and no other page, through, and notes what it was.

    It looks at these requests alone, over the browser's own protocol: a route of Playwright's would
    switch off the cache, and each page would ask the server for all its scripts again.
    """

    page: Page
    sent: list[str] = field(default_factory=list)
    """The answers: an action's name, `say` for a message of a thread."""

    def __post_init__(self) -> None:
        self.page.add_init_script(SILENT)
        self.page.on("filechooser", lambda _: None)  # none is chosen
        self.browser = self.page.context.new_cdp_session(self.page)
        self.browser.on("Fetch.requestPaused", self._note)
        kinds = [{"resourceType": kind} for kind in ("Document", "Fetch", "XHR", "Ping", "Other")]
        self.browser.send("Fetch.enable", {"patterns": kinds})

    def _note(self, paused: dict[str, Any]) -> None:
        try:
            self._answer(paused)
        except Error as error:  # the page has been left meanwhile, and the request with it
            if not re.search("Invalid InterceptionId|closed", str(error)):
                raise

    def _answer(self, paused: dict[str, Any]) -> None:
        request, about = paused["request"], {"requestId": paused["requestId"]}
        if request["method"] == "POST":
            posted = parse_qs(request.get("postData", ""), keep_blank_values=True)
            if re.search(r"/decide$|/l/|/several$", urlsplit(request["url"]).path):
                self.sent += posted.get("action", [])
            elif request["url"].endswith("/say"):
                self.sent.append("say")
            self.browser.send("Fetch.fulfillRequest", {**about, "responseCode": 204})
        elif paused["resourceType"] == "Document" and self.held:
            self.browser.send("Fetch.fulfillRequest", {**about, "responseCode": 204})
        else:
            self.browser.send("Fetch.continueRequest", about)

    held = False
    """Whether the page is kept where it is."""

    def go(self, path: str, opens: str = "") -> None:
        """Open a page, and what is to be clicked on it, and forget what was typed there before. From the page itself, where it is
        there already: else each time a process of its own would begin.
        """
        self.held = False
        self.page.evaluate("sessionStorage.clear()")
        try:
            if self.page.url.endswith(path):
                with self.page.expect_navigation():
                    self.page.evaluate("(path) => location.replace(path)", path)
            else:
                self.page.goto(path)
        except Error as error:  # one that a key began, and that leads nowhere, came between
            if "ERR_ABORTED" not in str(error):
                raise
            self.page.goto(path)
        if opens:
            self.page.locator(opens).click()
            self.page.locator("[data-pane] [data-pause]").wait_for()
        self.held = True

    def nothing_comes(self) -> None:
        """Of all that was pressed, longer than an answer by a key waits. Nobody else gets a window
        whose requests are held.
        """
        self.page.wait_for_timeout(2_200)
        assert not self.sent
        self.page.context.close()


PRESSING = ("Enter", "Space", "Control+Enter")
"""Keys that press a control, or open something, by the browser's own doing, pressed as a keyboard
does: Enter at what stands alike on many pages once, the two others at one control of each sort. To
the browser they are the same as Enter, or nothing, and to the page's scripts what is struck there,
like all other keys. Ctrl+K, too, is struck at one of each sort: it is heard wherever the focus is,
and the dialog that it opens takes longer than all other keys.
"""


Groups = list[list[str]]
"""Keys, after each group of which it is looked what they did."""


@dataclass
class Pressing:
    """Presses every key with the focus on everything in a part of a page."""

    watch: Watch
    path: str
    scope: str
    goes_with: dict[str, str]
    """By the beginning of a field's name, the answer that Ctrl+Enter in it sends."""
    opens: str = ""
    """What is clicked first: the row whose question is looked at beside the list."""
    known: set[str] = field(default_factory=lambda: {""})
    """What stands alike on many pages, and was pressed on one."""
    things: list[dict[str, Any]] = field(default_factory=list)
    """What could have the focus when the page was new."""
    ready: bool = False
    """Whether the thing that is pressed has the focus: each question after a press gives it back."""

    def all(self, keys: list[str]) -> int:
        """Gives how many presses there were."""
        quiet = [key for key in keys if key not in (*PRESSING, "Control+K", "Escape")]
        pressed = 0
        first: dict[str, tuple[int, Groups]] = {}
        heard: list[tuple[int, Groups]] = []
        for at, thing in enumerate(things := self.come()):
            groups = [*([[key] for key in quiet] if thing["home"] else [quiet]), ["Escape"]]
            asks = thing["takes"] or thing["decides"] or thing["says"]
            if (name := self._name(thing)) not in self.known | first.keys():
                first[name] = (at, groups)
            elif asks or self._name(thing, here=True) not in self.known:
                heard.append((at, [*groups, *([key] for key in PRESSING)]))
        if heard:
            seen, _ = self.watch.page.evaluate(STRIKE, heard)
            for (at, groups), told in zip(heard, seen, strict=True):
                pressed += self.look_at(things[at], groups, told)
                self.known.add(self._name(things[at], here=True))
        for name, (at, groups) in first.items():
            thing, pressing = things[at], ["Enter"]
            if (sort := self._sort(thing)) not in self.known:
                groups = [*groups, ["Control+K"]]
                # at a link the browser would open it beside this page
                pressing = list(PRESSING[:2] if thing["link"] else PRESSING)
            groups = [*groups, *([key] for key in PRESSING if key not in pressing)]
            self.watch.sent.clear()
            [told], self.ready = self.watch.page.evaluate(STRIKE, [(at, groups)])
            if None in told:  # the page came anew, or it is gone
                assert self.come() == things, self.path
                [told], self.ready = self.watch.page.evaluate(STRIKE, [(at, groups)])
            if None not in told:
                pressed += self.look_at(thing, groups, told)
                pressed += sum(self.press(at, thing, key) for key in pressing)
                self.known |= {name, sort, self._name(thing, here=True)}
        self.watch.sent.clear()
        return pressed

    def look_at(self, thing: dict[str, Any], groups: Groups, told: list[Any]) -> int:
        """What was seen once each group of keys had been struck; gives how many keys these were."""
        for group, seen in zip(groups, told, strict=True):
            where = f"{group} at {thing['is']} of {self.path}"
            assert seen, f"{where}: it cannot have the focus"
            about, _, still, taken, sends = seen
            alone = len(group) > 1  # the keys that mean something on the page itself
            assert still or thing["home"] or not alone, f"{where} acts"
            assert not (alone and taken), f"{where}: {taken} are not typed"
            assert bool(about) <= (thing["home"] and group == ["a"]), f"{where}: {about}"
            allowed = _allowed(thing, group[0], self.goes_with) if thing["takes"] else set()
            assert set(sends) <= allowed, f"{where} sends {sends}"
        assert not self.watch.sent, f"{thing['is']} of {self.path} sent {self.watch.sent}"
        return sum(map(len, groups))

    def _name(self, thing: dict[str, Any], *, here: bool = False) -> str:
        """What names a thing on every page that has it, a card's in both places where it stands.
        Numbers are left out, and so are the words of the page itself and of rows; a field is
        another one where it belongs to another answer.
        """
        what = thing["is"].split("] ")[0] if thing["home"] else re.sub(r"\w*\d\w*", "", thing["is"])
        sends = sorted(_allowed(thing, "Control+Enter", self.goes_with))
        place = "card" if self.scope in CARD and not (here or thing["home"]) else self.scope
        return f"{place} {thing['form']} {thing['name']} {what} {sends}"

    def _sort(self, thing: dict[str, Any]) -> str:
        """What places have in common to a browser and to who listens on the page: the element, its
        type, its form, and the answer that it sends.
        """
        sends = sorted(_allowed(thing, "Control+Enter", self.goes_with))
        about = (thing[name] for name in ("tag", "type", "form", "home", "says"))
        return f"{self.scope} {[*about, *sends]}"

    def come(self) -> list[dict[str, Any]]:
        """What can have the focus on a page that is new."""
        self.watch.go(self.path, self.opens)
        self.things = self.watch.page.evaluate(PROBE, self.scope)
        return self.things

    def type_into_all(self) -> None:
        """Type a sentence into a field of each type; that no field loses a key is known of what was
        struck.
        """
        page, sent = self.watch.page, self.watch.sent
        if self.known.issuperset(map(self._types, self.things)):
            return
        for at, thing in enumerate(self.come()):
            alike = self._types(thing)
            if alike in self.known or not page.evaluate(FOCUS, at):
                continue
            page.keyboard.type(SENTENCE.replace(" ", "") if _opens(thing) else SENTENCE)
            about, text, _ = page.evaluate("(at) => probe.look(at)", at)
            where = f"{thing['is']} of {self.path}"
            assert not about and not sent, f"{where}: {about}"
            assert not thing["types"] or SENTENCE in text, f"{where} has {text!r}"
            self.known.add(alike)

    def _types(self, thing: dict[str, Any]) -> str:
        return f"types {thing['type']} {thing['says']} {self.scope}" if thing["takes"] else ""

    def press(self, at: int, thing: dict[str, Any], key: str) -> bool:
        """Press a key as a keyboard does. Tells whether it could be pressed there."""
        page, watch = self.watch.page, self.watch
        if not self.ready:
            assert self.come()[at]["is"] == thing["is"]
            if not page.evaluate(FOCUS, at):
                return False
        watch.sent.clear()
        page.keyboard.press(key)
        where = f"{key} at {thing['is']} of {self.path}"
        allowed = _allowed(thing, key, self.goes_with)
        waits = bool(allowed) or _opens(thing)
        about, free, self.ready = page.evaluate(AFTER, [at, waits])
        assert not about, f"{where}: {about}"
        for _ in range(10):  # what a control sends goes out a moment later
            if allowed and not watch.sent:
                page.wait_for_timeout(20)
        assert set(watch.sent) <= allowed, f"{where} sent {watch.sent}"
        if _opens(thing):
            page.keyboard.press("Escape")  # what opened takes the next keys
        if waits:
            free, self.ready = page.evaluate(FREE, at)
        if not free:
            self.come()
            self.ready = page.evaluate(FOCUS, at)
        return True


CARD = {"main", "[data-pane]"}
"""Where a question's card stands: on a page of its own, and beside the list."""
FOCUS, STRIKE = "(at) => probe.focus(at)", "(turns) => probe.strike(turns)"
AFTER = "async ([at, waits]) => [probe.look(at)[0], waits || await probe.free(), probe.focus(at)]"
FREE = "async (at) => [await probe.free(), probe.focus(at)]"


def _opens(thing: dict[str, Any]) -> bool:
    """Whether a space opens a list, a calendar or a choice of files of the browser's, which takes
    what is typed next.
    """
    return str(thing["type"]).startswith(("select", "date", "file"))


def _allowed(thing: dict[str, Any], key: str, goes_with: dict[str, str]) -> set[str]:
    """The answers that this control says it sends, by this key."""
    if thing["button"] and key in {"Enter", "Space", "Control+Enter"}:
        return {thing["decides"]} if thing["decides"] else {"say"} if thing["says"] else set()
    if thing["takes"] and key == "Control+Enter":
        if thing["says"]:
            return {"say"}
        return {way for name, way in goes_with.items() if thing["name"].startswith(name)}
    return set()


def open_and_type(watch: Watch, path: str, known: set[str]) -> int:
    """Open all that opens and is not known, by a click or with Enter, and type at once; gives how
    many there were that hold a field.
    """
    page, held = watch.page, 0
    page.evaluate(FOLD)
    if known.issuperset(page.evaluate(OPENED)):
        return 0
    watch.go(path)
    for number in range(page.locator("main summary").count()):
        page.evaluate(FOLD)
        summary = page.locator("main summary").nth(number)
        words = summary.inner_text() if summary.is_visible() else ""
        if not words or words in known:
            continue
        known.add(words)
        if number % 2:
            summary.click()
        else:
            summary.press("Enter")
        place = page.evaluate(SEEN)
        page.keyboard.type(SENTENCE)
        seen = page.evaluate(SEEN)
        page.keyboard.press("Escape")
        assert not seen["about"] and not watch.sent, f"{words}: {seen}"
        if place["field"]:
            assert place["above"] and place["below"], f"{words}: {place}"
            assert seen["text"] in ("", SENTENCE), f"{words}: {seen}"
            held += 1
    return held


OPENED = """() => [...document.querySelectorAll("main summary")]
  .filter((one) => one.checkVisibility()).map((one) => one.innerText)"""
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
