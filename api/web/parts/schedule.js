// A schedule as people choose it, and as the cron expression that the server stores.

import { html, nothing } from "../vendor/lit-html.js";
import { locale, say } from "./words.js";

/**
 * `every` is hour, day, week or custom; empty: only on request.
 * @typedef {{every: string, at: string, weekday: string, minute: number}} Choice
 */

const weekdays = new Intl.DateTimeFormat(locale, { weekday: "long", timeZone: "UTC" });
const SUNDAY = 4; // of January 2026
/** The weekdays of cron, Monday first. @type {readonly [string, string][]} */
const WEEKDAYS = [1, 2, 3, 4, 5, 6, 0].map((day) => [
  String(day),
  weekdays.format(new Date(Date.UTC(2026, 0, SUNDAY + day))),
]);
/** @type {readonly [string, string][]} */
const INTERVALS = [
  ["", say`Only on request`],
  ["hour", say`Every hour`],
  ["day", say`Every day`],
  ["week", say`Every week`],
  ["custom", say`Other times (cron)`],
];
const NIGHT = "03:00";
const EXPRESSION = /^(\d{1,2}) (\*|\d{1,2}) \* \* (\*|[0-7])$/;

/**
 * Return the choice that a cron expression is; custom for an unusual one.
 * @param {string | null} cron @returns {Choice}
 */
export function choiceOf(cron) {
  const other = { every: cron ? "custom" : "", at: NIGHT, weekday: "1", minute: 0 };
  const [, minute, hour, day] = EXPRESSION.exec(cron ?? "") ?? [];
  if (minute === undefined || Number(minute) > 59 || Number(hour) > 23) return other;
  if (hour === "*") return day === "*" ? { ...other, every: "hour", minute: Number(minute) } : other;
  const at = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  return day === "*"
    ? { ...other, every: "day", at }
    : { ...other, every: "week", at, weekday: day === "7" ? "0" : day };
}

/**
 * Return the cron expression of a form's values; null: on request only.
 * @param {Partial<Choice> & {schedule?: string}} values
 */
export function cronOf({ every, at, weekday, schedule, minute = 0 }) {
  const [hour, minutes] = (at ?? NIGHT).split(":").map(Number);
  if (every === "hour") return `${minute} * * * *`;
  if (every === "day") return `${minutes} ${hour} * * *`;
  if (every === "week") return `${minutes} ${hour} * * ${weekday}`;
  return every === "custom" ? (schedule ?? null) : null;
}

/** Describe a schedule in words. @param {string} cron */
export function scheduleWords(cron) {
  const { every, at, weekday } = choiceOf(cron);
  if (every === "hour") return say`every hour`;
  if (every === "day") return say`every day at ${at}`;
  return every === "week" ? say`every ${WEEKDAYS.find(([day]) => day === weekday)?.[1] ?? ""} at ${at}` : cron;
}

/**
 * Render the fields of a schedule.
 *
 * @param {(facts: import("../kit/field.js").Field) => unknown} field of the form
 * @param {string} every the chosen interval
 * @param {{cron: string | null, zone: string, changed: (every: string) => void}} facts cron: the stored schedule
 */
export function scheduleFields(field, every, { cron, zone, changed }) {
  const { at, weekday } = choiceOf(cron);
  const day = () => field({ name: "weekday", label: say`Day`, type: "select", value: weekday, options: WEEKDAYS });
  const time = () => {
    const hint = say`Time zone: ${zone}`;
    return field({ name: "at", label: say`Time`, type: "time", value: at, required: true, hint });
  };
  const expression = () =>
    field({
      name: "schedule",
      label: say`Times as a cron expression`,
      hint: say`Minute, hour, day, month, weekday; in ${zone}`,
      value: cron ?? "",
      required: true,
      code: true,
      placeholder: "0 6,18 * * 1-5",
    });
  const interval = { name: "every", label: say`Schedule`, type: "select", value: every, changed, options: INTERVALS };
  return html`${field(interval)}
    ${every === "week" ? day() : nothing}
    ${every === "day" || every === "week" ? time() : nothing}
    ${every === "custom" ? expression() : nothing}`;
}
