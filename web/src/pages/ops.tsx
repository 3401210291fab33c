// Shared by the pages about the gateway itself.
import { fullDate, language, t } from "../i18n";
import { serverNow } from "../state/store";
import { Tabs } from "../ui/tabs";

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

/** When is a time in words, with the full date for those who ask. */
export function When({ at }: { at: string }) {
  const ms = Date.parse(at) - serverNow();
  const [unit, size] = units.find(([, n]) => Math.abs(ms) >= n) ?? ["minute", 60_000];
  const words = new Intl.RelativeTimeFormat(language.value === "zh" ? "zh-CN" : "en", { numeric: "auto" }).format(
    Math.trunc(ms / (size as number)),
    unit as Intl.RelativeTimeFormatUnit,
  );
  return (
    <time dateTime={at} title={fullDate(at)}>
      {words}
    </time>
  );
}

/** bytes is a size as people read it. */
export function bytes(n: number): string {
  return n < 1 << 20
    ? `${Math.max(1, Math.round(n / 1024))} KiB`
    : n < 1 << 30
      ? `${(n / (1 << 20)).toFixed(n < 100 << 20 ? 1 : 0)} MiB`
      : `${(n / (1 << 30)).toFixed(1)} GiB`;
}

/** Parts leads from one page about the gateway to the others. */
export function Parts({ current }: { current: "status" | "log" | "doctor" | "devices" }) {
  const tabs = (["status", "log", "doctor", "devices"] as const).map((name) => ({
    name,
    title: t(`page.${name}`),
    href: "#/" + name,
  }));
  return <Tabs label={t("page.status")} current={current} tabs={tabs} />;
}
