// What came of a trial of a provider, in words.
import { t } from "../../i18n/setup";
import { visible } from "../../text/links";
import type { Tried } from "../../wire/reads";

const kinds = ["auth", "connection", "timeout", "not_found", "billing", "rate_limit", "configuration"] as const;

export function tryText(r: Tried): string {
  const seconds = r.seconds < 0.1 ? "0.1" : r.seconds.toFixed(1);
  if (r.ok)
    return r.models.length > 0 ? t("setup.works", { seconds, n: r.models.length }) : t("setup.answers", { seconds });
  const kind = kinds.find((k) => k === r.status);
  return [kind ? t(`value.setup.${kind}`) : t("setup.failed"), r.hint ? visible(r.hint) : ""].filter(Boolean).join(" ");
}
