// Dates and amounts as people read them.
import { count, language, money } from "../i18n";

const locale = () => (language.value === "zh" ? "zh-CN" : undefined);

/** dayName is a day without a time zone, such as 2026-05-04. */
export const dayName = (date: string, style: "short" | "long" = "short") =>
  new Date(date + "T12:00:00").toLocaleDateString(
    locale(),
    style === "short" ? { month: "short", day: "numeric" } : { dateStyle: "medium" },
  );

/** when is a moment: its time today, otherwise with its date. */
export function when(at: string, now = Date.now()): string {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return at;
  const today = d.toDateString() === new Date(now).toDateString();
  return today
    ? d.toLocaleTimeString(locale(), { timeStyle: "short" })
    : d.toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
}

export const dateOf = (at: string) => {
  const d = new Date(at);
  return Number.isNaN(d.getTime()) ? at : d.toLocaleDateString(locale(), { dateStyle: "medium" });
};

export const dollars = (usd: number) => (usd === 0 ? "$0" : usd >= 1000 ? "$" + count(usd) : money(usd));

/** amount is a number of a limit in its unit. */
export const amount = (n: number, unit: string) => (unit === "usd" ? dollars(n) : count(Math.round(n)));

/** took is a duration: 0.4 s, 12 s, 3 min 5 s. */
export function took(ms: number): string {
  if (ms === 0) return "0 s";
  if (ms < 10_000) return (ms / 1000).toFixed(ms < 1000 ? 2 : 1) + " s";
  const s = Math.round(ms / 1000);
  if (s < 60) return s + " s";
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export const kib = (bytes: number) => (bytes / 1024).toFixed(1).replace(/\.0$/, "");
