// Notifications of this device.
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/notices";
import { pushState, readPush, subscribe, unsubscribe } from "../state/install";
import { request } from "../state/store";
import { fail, toast } from "../state/toast";
import type { PushSent } from "../wire/reads";

export function Notices() {
  const [busy, setBusy] = useState(false);
  const state = pushState.value;
  useEffect(() => void readPush().catch(fail), []);
  const run = (what: () => Promise<unknown>) => {
    setBusy(true);
    what()
      .catch((e) =>
        fail(e instanceof DOMException ? { status: 0, message: t("notices.failed", { why: e.message }) } : e),
      )
      .finally(() => setBusy(false));
  };

  const test = () =>
    request<PushSent>("push.test", {}).then((r) =>
      toast(t(r.sent > 0 ? "notices.tested" : "notices.untested"), r.sent === 0),
    );
  return (
    <section>
      <h2>{t("notices.title")}</h2>
      <p class="hint">{t("notices.what")}</p>
      {state !== "off" && state !== "unknown" && <p role="status">{t(`value.notices.${state}`)}</p>}
      <div class="row">
        {state === "off" && (
          <button type="button" class="button" disabled={busy} onClick={() => run(subscribe)}>
            {t("notices.enable")}
          </button>
        )}
        {state === "on" && (
          <button type="button" class="button" disabled={busy} onClick={() => run(test)}>
            {t("notices.test")}
          </button>
        )}
        {state === "on" && (
          <button type="button" class="button" disabled={busy} onClick={() => run(unsubscribe)}>
            {t("notices.disable")}
          </button>
        )}
      </div>
    </section>
  );
}
