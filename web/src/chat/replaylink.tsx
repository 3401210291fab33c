// The way from a turn to its replay.
import { t } from "../i18n/costs";
import { route } from "../state/route";
import { kept } from "../wire/api";

export function ReplayLink({ turn }: { turn?: string }) {
  const r = route.value;
  if (!turn || r.page !== "chat" || !r.key) return null;
  return (
    <a href={`#/replay/${encodeURIComponent(kept.get(r.key) ?? r.key)}/${encodeURIComponent(turn)}`}>
      {t("costs.replay")}
    </a>
  );
}
