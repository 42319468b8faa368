/** Keeps "5 minutes ago" and "in 5 minutes" true, by the rules of the template filters `ago` and `ahead`. */

const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60]];

export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  for (const [unit, length] of UNITS) {
    if (seconds >= length) {
      const count = Math.floor(seconds / length);
      return `${count} ${unit}${count > 1 ? "s" : ""} ago`;
    }
  }
  return "just now";
}

export function ahead(at, now = Date.now()) {
  if (at < now) return ago(at, now);
  const seconds = Math.floor((at - now) / 1000);
  for (const [unit, length] of UNITS) {
    if (seconds >= length) {
      const count = Math.floor(seconds / length);
      return `in ${count} ${unit}${count > 1 ? "s" : ""}`;
    }
  }
  return "in less than a minute";
}

/** Write the times inside `root` anew; `data-ago` and `data-ahead` hold what stands before them, `data-local` is in the reader's zone. */
export function tell(root = document) {
  for (const time of root.querySelectorAll("time[data-ahead]")) {
    const at = Date.parse(time.dateTime);
    time.textContent = time.dataset.ahead + ahead(at);
    if (!time.title) time.title = new Date(at).toLocaleString();
  }
  for (const time of root.querySelectorAll("[data-local]")) {
    const at = new Date(Date.parse(time.dateTime || time.value));
    const text = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) + (time.dataset.after || "");
    if (time.textContent !== text) time.textContent = text;
  }
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const at = Date.parse(time.dateTime);
    const text = time.dataset.ago + ago(at);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = new Date(at).toLocaleString();
  }
}

setInterval(() => tell(), 20_000);
document.addEventListener("visibilitychange", () => document.hidden || tell());
tell();
