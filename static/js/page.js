/** What every page has: a spoken line, the badge with the title, and the state of the connection. */

export const announce = (text) => { document.querySelector("[data-announce]").textContent = text; };

/** Show how many questions wait, in the navigation and in the tab's title. */
export function setWaiting(count) {
  const badge = document.querySelector("[data-badge]");
  badge.hidden = !count;
  badge.querySelector("[data-count]").textContent = count;
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
}

const STATES = { live: ["Live", "on"], reconnecting: ["Reconnecting…", ""], polling: ["Checking every 2 s", "poll"] };

/** Tell honestly how news arrives: `live`, `reconnecting`, `polling`, or `ended` where none is expected. */
export function setState(state) {
  const slot = document.querySelector("[data-state-of-connection]");
  const [text, look] = STATES[state] ?? ["", ""];
  slot.hidden = !text;
  slot.textContent = slot.title = text;
  slot.className = `live ${look}`;
}

/** Whether the keys A, R and X answer: they can be turned off in the menu. */
export const keysAreOn = () => localStorage.getItem("keys") !== "off";

const box = document.querySelector("[data-keys]");
if (box) {
  const show = () => { box.checked = keysAreOn(); document.body.classList.toggle("no-keys", !box.checked); };
  box.addEventListener("change", () => { localStorage.setItem("keys", box.checked ? "on" : "off"); show(); });
  show();
}
