/** Keeps "5 minutes ago" and "in 5 minutes" true, by the rules of the template filters `ago` and `ahead`. */

import { gettext, language } from "./language.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60]];

const relative = new Intl.RelativeTimeFormat(language, { numeric: "always" });

export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  for (const [unit, length] of UNITS) {
    if (seconds >= length) return relative.format(-Math.floor(seconds / length), unit);
  }
  return gettext("just now");
}

export function ahead(at, now = Date.now()) {
  if (at < now) return ago(at, now);
  const seconds = Math.floor((at - now) / 1000);
  for (const [unit, length] of UNITS) {
    if (seconds >= length) return relative.format(Math.floor(seconds / length), unit);
  }
  return gettext("in less than a minute");
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `7 Jul 2026, 12:00`, in German `07.07.2026, 12:00`, in the reader's time zone, by the rules of `checkpoints.text.dates`; `style` as of the template tag `moment`. */
export function stamp(at, style = "") {
  const time = new Date(at), clock = `${two(time.getHours())}:${two(time.getMinutes())}`, seconds = `:${two(time.getSeconds())}`;
  const day = language === "de" ? `${two(time.getDate())}.${two(time.getMonth() + 1)}.${time.getFullYear()}` : `${time.getDate()} ${MONTHS[time.getMonth()]} ${time.getFullYear()}`;
  if (style === "day") return day;
  if (style === "clock") return clock + seconds;
  return `${day}, ${clock}${style === "exact" ? seconds : ""}`;
}

/** Write the times inside `root` anew: `data-at` holds their style, `data-ago` and `data-ahead` what stands before them. */
export function tell(root = document) {
  for (const time of root.querySelectorAll("time[data-at], time[data-ago], time[data-ahead]")) {
    const at = Date.parse(time.dateTime), { at: style, ago: past, ahead: coming } = time.dataset;
    const text = style !== undefined ? stamp(at, style) : past !== undefined ? past + ago(at) : coming + ahead(at);
    if (time.textContent !== text) time.textContent = text;
    const title = `${stamp(at, "exact")} ${zone}`;
    if (time.title !== title) time.title = title;
  }
  for (const choice of root.querySelectorAll("option[data-local]")) {
    const text = stamp(Date.parse(choice.value)) + (choice.dataset.after || "");
    if (choice.textContent !== text) choice.textContent = text;
  }
}

/** Each page says once which time zone its times are in. */
const said = document.querySelector("[data-zone]");
if (said) said.textContent = zone;

setInterval(() => tell(), 20_000);
document.addEventListener("visibilitychange", () => document.hidden || tell());
tell();
