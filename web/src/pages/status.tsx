// How the gateway is, and what keeps it going.
import { useState } from "preact/hooks";
import { count, fullDate, money, t as words } from "../i18n";
import { t } from "../i18n/status";
import { download } from "../state/download";
import { useRead } from "../state/read";
import { link, request, serverNow } from "../state/store";
import { fail, toast } from "../state/toast";
import { label, visible } from "../text/links";
import { Dialog } from "../ui/dialog";
import { Read } from "../ui/read";
import { Table } from "../ui/table";
import type { AutomationList, Budget, StatusRead } from "../wire/reads";
import { Bar } from "./bar";
import { Parts, When, bytes } from "./ops";

export default function Status() {
  const status = useRead<StatusRead>("status", {}, "channels");
  return (
    <>
      <Bar title={words("page.status")}>
        <button type="button" class="button plain" onClick={status.reload}>
          {t("status.refresh")}
        </button>
      </Bar>
      <div class="page">
        <div class="inner">
          <Parts current="status" />
          <Read of={status}>{(s) => <Facts of={s} />}</Read>
          <Upkeep reload={status.reload} />
        </div>
      </div>
    </>
  );
}

function Facts({ of: { gateway: g, memory_bytes, errors } }: { of: StatusRead }) {
  const limits = useRead<Budget>("budget", {}, "budget").data?.limits ?? [];
  const due = (useRead<AutomationList>("webui/automations", {}, "automations").data?.automations ?? []).filter(
    (a) => a.enabled && a.next_run,
  );
  const next =
    due.length > 0 ? due.reduce((a, b) => (Date.parse(b.next_run!) < Date.parse(a.next_run!) ? b : a)) : undefined;
  const amount = (unit: string, n: number) => (unit === "usd" ? money(n) : count(n));
  const minutes = Math.max(0, Math.floor((serverNow() - Date.parse(g.started_at)) / 60_000));
  const waiting = g.queue.inbound + Object.values(g.queue.outbound).reduce((a, b) => a + b, 0);

  return (
    <>
      <section>
        <h2>{g.ready ? t("status.ready") : t("status.unready")}</h2>
        {g.problems?.map((p) => (
          <p class="warn" key={p}>
            {visible(p)}
          </p>
        ))}
        {g.after_restart?.length ? (
          <p class="warn">{t("status.later", { names: g.after_restart.join(", ") })}</p>
        ) : null}
        <dl class="facts">
          <dt>{t("status.version")}</dt>
          <dd>{g.version}</dd>
          <dt>{t("status.uptime")}</dt>
          <dd title={fullDate(g.started_at)}>
            {t("status.uptime.value", {
              days: Math.floor(minutes / 1440),
              hours: Math.floor(minutes / 60) % 24,
              minutes: minutes % 60,
            })}
          </dd>
          <dt>{t("status.model")}</dt>
          <dd>
            <a href="#/settings/models">{visible(g.model)}</a>
          </dd>
          <dt>{t("status.work")}</dt>
          <dd>{t("status.work.value", { turns: g.agent.turns, waiting })}</dd>
          <dt>{t("status.jobs")}</dt>
          <dd>
            <a href="#/automations">{t("status.jobs.value", { n: g.jobs })}</a>
          </dd>
          {next && (
            <dd>
              {t("status.next", { name: label(next.name) })} <When at={next.next_run!} />
            </dd>
          )}
          {limits.length > 0 && <dt>{t("status.limits")}</dt>}
          {limits.map((l) => (
            <dd key={l.name}>
              <a href="#/usage">
                {t("status.limit", { name: l.name, spent: amount(l.unit, l.spent), limit: amount(l.unit, l.limit) })}
              </a>
            </dd>
          ))}
          <dt>{t("status.memory")}</dt>
          <dd>{bytes(memory_bytes)}</dd>
          <dt>{t("status.address")}</dt>
          <dd>
            {visible(g.address ?? "")} · {t("status.pid", { n: g.pid })}
          </dd>
        </dl>
      </section>
      <section>
        <h2>
          <a href="#/channels">{words("page.channels")}</a>
        </h2>
        <Table
          label={words("page.channels")}
          rows={g.channels.filter((c) => c.enabled)}
          id={(c) => c.name}
          empty={t("status.channels.none")}
          columns={[
            { title: t("status.channel"), cell: (c) => c.name },
            {
              title: t("status.state"),
              cell: (c) => (
                <>
                  {visible(c.state)}
                  {c.error && <p class="wrong">{visible(c.error)}</p>}
                </>
              ),
            },
            { title: t("status.received"), number: true, cell: (c) => c.received },
            { title: t("status.sent"), number: true, cell: (c) => c.sent },
            { title: t("status.failed"), number: true, cell: (c) => c.failed },
          ]}
        />
      </section>
      <section>
        <h2>
          <a href="#/log">{t("status.errors")}</a>
        </h2>
        {errors.length === 0 && <p class="hint">{t("status.errors.none")}</p>}
        <ul class="rows">
          {errors.map((e) => (
            <li key={e.id}>
              <div class="grow">
                {visible(e.message)}
                <p class="hint">
                  {e.at && <When at={e.at} />} {e.attrs?.filter(([n]) => n === "err").map(([, v]) => visible(v))}
                </p>
              </div>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

function Upkeep({ reload }: { reload(): void }) {
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState("");
  const fetchFile = (path: string) => {
    setBusy(path);
    download(path)
      .catch(fail)
      .finally(() => setBusy(""));
  };

  const restart = () => {
    setAsked(false);
    request("gateway.restart", {}).then(() => toast(t("status.restarting")), fail);
  };

  const off = link.value.state !== "open";

  return (
    <section>
      <h2>{t("status.upkeep")}</h2>
      <ul class="rows">
        <Tool name={t("status.reload")} hint={t("status.reload.hint")}>
          <button
            type="button"
            class="button"
            disabled={off}
            onClick={() => request("gateway.reload", {}).then(() => (toast(t("status.reloaded")), reload()), fail)}
          >
            {t("status.reload")}
          </button>
        </Tool>
        <Tool name={t("status.restart")} hint={t("status.restart.hint")}>
          <button type="button" class="button danger" disabled={off} onClick={() => setAsked(true)}>
            {t("status.restart")}
          </button>
        </Tool>
        <Tool name={t("status.backup")} hint={t("status.backup.hint")}>
          <button
            type="button"
            class="button"
            disabled={busy !== ""}
            aria-label={t("status.backup")}
            onClick={() => fetchFile("backup")}
          >
            {t(busy === "backup" ? "status.busy" : "status.download")}
          </button>
        </Tool>
        <Tool name={t("status.bundle")} hint={t("status.bundle.hint")}>
          <button
            type="button"
            class="button"
            disabled={busy !== ""}
            aria-label={t("status.bundle")}
            onClick={() => fetchFile("doctor/bundle")}
          >
            {t(busy === "doctor/bundle" ? "status.busy" : "status.download")}
          </button>
        </Tool>
      </ul>
      {asked && (
        <Dialog title={t("status.restart.ask")} onClose={() => setAsked(false)}>
          <p>{t("status.restart.text")}</p>
          <div class="row">
            <button type="button" class="button" onClick={() => setAsked(false)}>
              {words("dialog.cancel")}
            </button>
            <button type="button" class="button danger" onClick={restart}>
              {t("status.restart")}
            </button>
          </div>
        </Dialog>
      )}
    </section>
  );
}

function Tool({ name, hint, children }: { name: string; hint: string; children: preact.ComponentChildren }) {
  return (
    <li>
      <div class="grow">
        <strong>{name}</strong>
        <p class="hint">{hint}</p>
      </div>
      {children}
    </li>
  );
}
