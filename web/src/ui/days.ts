// Days and dates in the language of the page.
import { language } from "../i18n";

const locale = () => (language.value === "zh" ? "zh-CN" : undefined);

/** dayName is a day of the week, with Sunday as 0. */
export const dayName = (n: number) => new Date(2024, 0, 7 + n).toLocaleDateString(locale(), { weekday: "short" });

export const dayTitle = (at: Date) =>
  at.toLocaleDateString(locale(), { weekday: "long", day: "numeric", month: "long" });

/** shortDate is a moment in few words; title texts have it in full. */
export const shortDate = (at: string) =>
  new Date(at).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
