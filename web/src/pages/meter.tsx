// What today cost, against the limit, in the header of a chat.
import { t } from "../i18n/costs";
import { useRead } from "../state/read";
import { gateway } from "../state/store";
import { dollars } from "../text/figures";
import type { Budget } from "../wire/reads";

/** Meter is not there while nothing costs anything. */
export function Meter() {
  const b = useRead<Budget>(gateway.value?.signed_in ? "budget" : undefined, {}, "budget").data;
  if (!b) return null;
  const limit = b.limits.find((l) => l.name === "dailyUsd");
  if (b.today.usd === 0 && b.month.usd === 0) return null;
  const text = limit
    ? t("costs.meter", { spent: dollars(b.today.usd), limit: dollars(limit.limit) })
    : t("costs.meter.today", { spent: dollars(b.today.usd) });
  const used = limit ? (limit.spent + limit.reserved) / limit.limit : 0;
  const said = used >= 1 ? t("costs.meter.reached", { text }) : used >= 0.8 ? t("costs.meter.near", { text }) : text;

  return (
    <a
      class={used >= 0.8 ? "meter near" : "meter"}
      href="#/usage"
      aria-label={t("costs.meter.label", { text: said })}
      title={said}
    >
      {text}
    </a>
  );
}
