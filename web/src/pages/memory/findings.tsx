// What came from outside and is remembered only if the owner says so.
import { useState } from "preact/hooks";
import { t } from "../../i18n/memory";
import { changed, useRead } from "../../state/read";
import { request } from "../../state/store";
import { fail } from "../../state/toast";
import { dateOf } from "../../text/figures";
import { visible } from "../../text/links";
import { useHeldFocus } from "../../ui/focus";
import { Read } from "../../ui/read";
import type { Held, HeldList } from "../../wire/reads";
import { Sources } from "./file";

export function Findings() {
  const all = useRead<HeldList>("memory/findings", {}, "memory");
  const section = useHeldFocus<HTMLElement>(all.data);
  return (
    <section ref={section} tabIndex={-1}>
      <h2>{t("memory.findings")}</h2>
      <Read of={all}>
        {(f) => {
          const open = f.findings.filter((h) => !h.state);
          return open.length === 0 ? (
            <p class="hint">{t("memory.findings.none")}</p>
          ) : (
            <ul class="lines">
              {open.map((h) => (
                <Finding key={h.id} held={h} />
              ))}
            </ul>
          );
        }}
      </Read>
    </section>
  );
}

function Finding({ held }: { held: Held }) {
  const [busy, setBusy] = useState(false);
  const decide = (action: "memory.confirm" | "memory.reject") => {
    setBusy(true);
    request(action, { id: held.id })
      .then(() => changed("memory"), fail)
      .finally(() => setBusy(false));
  };

  return (
    <li class="finding">
      <span class="words" dir="auto">
        {visible(held.text)}
      </span>
      <span class="why">
        {t("memory.finding.from", { target: visible(held.target) })}{" "}
        {held.sources?.length ? <Sources of={held.sources} /> : dateOf(held.time)}
        {held.order && <span class="mark">{t("memory.finding.order")}</span>}
      </span>
      <span class="row">
        <button type="button" class="button" disabled={busy || held.order} onClick={() => decide("memory.confirm")}>
          {t("memory.keep")}
        </button>
        <button type="button" class="button" disabled={busy} onClick={() => decide("memory.reject")}>
          {t("memory.drop")}
        </button>
      </span>
    </li>
  );
}
