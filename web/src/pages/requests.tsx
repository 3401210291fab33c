// Devices that ask to sign in: on every page, wherever the person is.
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/requests";
import { changed, useRead } from "../state/read";
import { request } from "../state/store";
import { fail } from "../state/toast";
import { visible } from "../text/links";
import type { DeviceList, Pending } from "../wire/reads";

export function Requests() {
  const waiting = useRead<DeviceList>("devices", {}, "devices").data?.waiting ?? [];
  if (waiting.length === 0) return null;
  return (
    <section class="requests" aria-label={t("request.title")}>
      {waiting.map((p) => (
        <Card key={p.digits} of={p} />
      ))}
    </section>
  );
}

const pause = 500; // a click that was meant for what was here before does nothing

function Card({ of }: { of: Pending }) {
  const [shown] = useState(() => performance.now());
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => changed("devices"), Math.max(1000, Date.parse(of.expires) - Date.now() + 1000));
    return () => clearTimeout(timer);
  }, [of.expires]);
  const decide = (action: string) => {
    if (performance.now() - shown < pause) return;
    setBusy(true);
    request(action, { digits: of.digits })
      .then(undefined, fail)
      .finally(() => {
        setBusy(false);
        changed("devices");
      });
  };

  return (
    <div class="request" role="alert">
      <h2>{t("request.title")}</h2>
      <p class="digits">{of.digits}</p>
      <p>{t("request.who", { name: visible(of.name), address: visible(of.address) })}</p>
      {of.local && <p class="warn">{t("request.local")}</p>}
      <p class="hint">{t("request.how")}</p>
      <div class="row">
        <button type="button" class="button" disabled={busy} onClick={() => decide("device.deny")}>
          {t("request.deny")}
        </button>
        <button type="button" class="button primary" disabled={busy} onClick={() => decide("device.approve")}>
          {t("request.approve")}
        </button>
      </div>
    </div>
  );
}
