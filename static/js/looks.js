/** The text under review as tabs: what is asked about, what changed, and how it is written. Without this file they are links to parts. */

/** Make tabs of the links inside `looks`; `shown(panel)` hears which part came to be seen. */
export function mountLooks(looks, shown) {
  const list = looks.querySelector(".tabs"), tabs = [...list.querySelectorAll("a")];
  const panelOf = (tab) => looks.querySelector(`[id="${tab.hash.slice(1)}"]`);
  const choose = (chosen) => {
    for (const tab of tabs) {
      const panel = panelOf(tab), on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      panel.classList.toggle("on", on);
      if (on) shown(panel);
    }
  };
  looks.classList.add("tabbed");
  list.setAttribute("role", "tablist");
  for (const tab of tabs) {
    const panel = panelOf(tab);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
  }
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("a");
    if (!tab || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    choose(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    const next = { ArrowRight: tabs[(at + 1) % tabs.length], ArrowLeft: tabs.at(at - 1), Home: tabs[0], End: tabs.at(-1), " ": tabs[at] }[event.key];
    if (at < 0 || !next || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(next);
    next.focus();
  });
  choose(tabs.find((tab) => tab.hash === location.hash) ?? tabs.find((tab) => tab.matches(".first")));
}
