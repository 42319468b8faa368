/** What every page has: a spoken line, the badge with the title, and the state of the connection. */

import { gettext, ngettext } from "./language.js";

export const announce = (text) => { document.querySelector("[data-announce]").textContent = text; };

const COUNTED = 1000; // as many as the server counts: that many says that or more

/** Show how many questions wait, in the navigation and in the tab's title. */
export function setWaiting(count) {
  const words = count >= COUNTED ? `${count}+` : count;
  const badge = document.querySelector("[data-badge]");
  badge.hidden = !count;
  badge.querySelector("[data-count]").textContent = words;
  document.title = (count ? `(${words}) ` : "") + document.title.replace(/^\(\d+\+?\) /, "");
}

/** A line at the top of the page, for who looks and for who listens. */
export function tell(kind, words) {
  const line = document.createElement("p");
  line.className = `notice ${kind}`;
  line.setAttribute("role", "status");
  line.tabIndex = -1;
  line.textContent = words;
  (document.querySelector("[data-notices]") ?? document.querySelector("main")).prepend(line);
  return line;
}

/** The lines with which the server answered a form, instead of those of the form before; gives the first. */
export function tellNotices(html) {
  const lines = new DOMParser().parseFromString(html, "text/html").querySelectorAll("main > .notice[role=status]");
  for (const old of document.querySelectorAll(":is(main, [data-notices]) > .notice")) old.remove();
  return [...lines].reverse().map((line) => tell("info", line.textContent.trim())).at(-1);
}

const STATES = { live: [gettext("Live"), "on"], unavailable: [gettext("Waiting for the database; nothing is lost"), ""], reconnecting: [gettext("Reconnecting…"), ""], polling: [gettext("Checking every 2 s"), "poll"], closed: [gettext("Not connected: reload the page"), ""] };

/** Tell honestly how news arrives: `live`, `unavailable` while the database does not answer, `reconnecting`, `polling`, `closed` where the server refuses, or `ended` where none is expected. */
export function setState(state) {
  const slot = document.querySelector("[data-state-of-connection]");
  const [text, look] = STATES[state] ?? ["", ""];
  slot.hidden = !text;
  slot.textContent = slot.title = text;
  slot.className = `live ${look}`;
}

const mayNotify = () => localStorage.getItem("notify") === "on" && globalThis.Notification?.permission === "granted";

/** Tell somebody who looks elsewhere, if they wished for it. All tabs together show one. */
export function notify(count) {
  if (!mayNotify() || !document.hidden) return;
  const note = new Notification(ngettext("A question waits for you", "%(count)s questions wait for you", count), { tag: "waiting", icon: "/static/favicon.svg" });
  note.onclick = () => { window.focus(); location.assign("/"); };
}

const wish = document.querySelector("[data-notify]");
if (wish && globalThis.Notification) {
  wish.closest("label").hidden = false;
  wish.checked = mayNotify();
  wish.addEventListener("change", async () => {
    const granted = wish.checked && (await Notification.requestPermission()) === "granted";
    localStorage.setItem("notify", granted ? "on" : "off");
    if (wish.checked && !granted) announce(gettext("The browser does not allow notifications here."));
    wish.checked = granted;
  });
}
