// What the message in the composer will cost, below it. It is asked for when the
// person pauses, never waited for, and absent if the price is not known.
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/costs";
import { dollars } from "../text/figures";
import { read, sessionPath } from "../wire/api";
import type { Estimated } from "../wire/reads";
import { bytes } from "./keys";

const pause = 600; // ms without a key
const most = 64 << 10;

/** Estimate listens to the field itself, so that typing renders nothing else. */
export function Estimate({ session, field }: { session: string; field: { current: HTMLTextAreaElement | null } }) {
  const [e, setE] = useState<Estimated | undefined>(undefined);
  useEffect(() => {
    const f = field.current;
    if (!f) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = 0;
    const ask = () => {
      const n = ++asked;
      const size = bytes(f.value, 0);
      if (size === 0 || f.value.startsWith("/")) return setE(undefined);
      read<Estimated>(`${sessionPath(session)}/estimate`, { bytes: Math.min(size, most) }).then(
        (x) => n === asked && setE(x.billing === "priced" && x.high_usd > 0 ? x : undefined),
        () => n === asked && setE(undefined), // nothing depends on it
      );
    };

    const typed = () => {
      clearTimeout(timer);
      timer = setTimeout(ask, pause);
    };

    typed();
    f.addEventListener("input", typed);
    f.form?.addEventListener("submit", typed);

    return () => {
      asked++;
      clearTimeout(timer);
      f.removeEventListener("input", typed);
      f.form?.removeEventListener("submit", typed);
    };
  }, [session]);

  if (!e) return null;
  const range = rangeText(e.low_usd, e.high_usd);
  const left = e.limits.filter((l) => l.unit === "usd").sort((a, b) => a.left - b.left)[0];

  return (
    <span class="estimate">
      {left ? t("costs.estimate.left", { range, left: dollars(left.left) }) : t("costs.estimate", { range })}
    </span>
  );
}

/** rangeText is a span of costs: $0.02–0.05. */
export function rangeText(low: number, high: number): string {
  const a = dollars(low);
  const b = dollars(high);
  return a === b ? a : `${a}–${b.replace("$", "")}`;
}
