// One job or trigger: what it does, how it went, and what can be done with it.
import { useEffect, useState } from "preact/hooks";
import { count, fullDate, money, t as common } from "../../i18n";
import { t } from "../../i18n/automations";
import { shortDate } from "../../ui/days";
import { chatHref, go } from "../../state/route";
import { fail, toast } from "../../state/toast";
import { label, visible } from "../../text/links";
import { Confirm, Copy, State } from "../../ui/list";
import { Table } from "../../ui/table";
import { read } from "../../wire/api";
import type { Automation, Run, RunPage } from "../../wire/reads";
import { wordsOf } from "./timing";
import { act, hrefOf, toneOf } from "./wire";

const words = {
  ok: "value.run.ok",
  error: "value.run.error",
  failed: "value.run.error",
  skipped: "value.run.skipped",
  missed: "value.run.missed",
  queued: "value.run.queued",
  running: "value.run.running",
} as const;
const word = (status: string) => (status in words ? t(words[status as keyof typeof words]) : visible(status));

export function StateOf({ a }: { a: Automation }) {
  if (a.broken) return <State tone="bad">{t("auto.state.broken")}</State>;
  if (!a.enabled) return <State tone="off">{t("auto.state.off")}</State>;
  if (a.running) return <State tone="good">{t("auto.state.running")}</State>;
  if (a.last_status && toneOf(a.last_status) === "bad") return <State tone="bad">{t("auto.state.failed")}</State>;
  return <State tone="good">{t("auto.state.on")}</State>;
}

export function Detail({ a }: { a: Automation }) {
  const [asking, setAsking] = useState<"delete" | "renew">();
  const [secret, setSecret] = useState<string>();
  const run = (action: string, done?: string) => act(action, { id: a.id }).then(() => done && toast(done), fail);
  const remove = () =>
    void act("delete", { id: a.id }).then(() => {
      toast(t("auto.deleted"));
      go("#/automations");
    }, fail);

  const renew = () => void act("renew_secret", { id: a.id }).then((made) => setSecret(made.secret), fail);

  return (
    <>
      <section>
        <a class="hint" href="#/automations">
          {t("auto.back")}
        </a>
        <div class="spread">
          <h2>{label(a.name) || a.id}</h2>
          <StateOf a={a} />
        </div>
        {a.broken && <p class="note warn">{visible(a.broken)}</p>}
        {a.kind === "job" && <p class="note task">{visible(a.message)}</p>}
        <dl class="facts">
          {a.when && (
            <>
              <dt>{t("auto.when")}</dt>
              <dd>{wordsOf(a)}</dd>
            </>
          )}
          {a.next_run && a.enabled && (
            <>
              <dt>{t("auto.nextrun")}</dt>
              <dd>{fullDate(a.next_run)}</dd>
            </>
          )}
          {a.last_run && (
            <>
              <dt>{t("auto.lastrun")}</dt>
              <dd>
                {fullDate(a.last_run)}{" "}
                {a.last_status && <State tone={toneOf(a.last_status)}>{word(a.last_status)}</State>}
              </dd>
            </>
          )}
          {a.last_error && (
            <>
              <dt>{t("auto.error")}</dt>
              <dd>{visible(a.last_error)}</dd>
            </>
          )}
          {a.undelivered && (
            <>
              <dt>{t("auto.undelivered")}</dt>
              <dd>{visible(a.undelivered)}</dd>
            </>
          )}
          {a.kind === "trigger" && a.message && (
            <>
              <dt>{t("auto.lastmessage")}</dt>
              <dd>{visible(a.message)}</dd>
            </>
          )}
          {a.channel && (
            <>
              <dt>{t("auto.where")}</dt>
              <dd>{a.deliver ? visible(`${a.channel}:${a.chat_id}`) : t("auto.silent")}</dd>
            </>
          )}
          {a.session_key && (
            <>
              <dt>{t("auto.session")}</dt>
              <dd>
                <a href={chatHref(a.session_key)}>{visible(a.session_key)}</a>
              </dd>
            </>
          )}
        </dl>
        <div class="row">
          {a.kind === "job" && (
            <button
              type="button"
              class="button primary"
              disabled={a.running || !!a.broken}
              onClick={() => void run("run", t("auto.started"))}
            >
              {t("auto.run")}
            </button>
          )}
          {!a.protected && (
            <button type="button" class="button" onClick={() => void run(a.enabled ? "disable" : "enable")}>
              {a.enabled ? t("auto.disable") : t("auto.enable")}
            </button>
          )}
          {a.kind === "job" && !a.protected && !a.broken && (
            <a class="button" href={hrefOf(a) + "/edit"}>
              {t("auto.change")}
            </a>
          )}
          {a.kind === "trigger" && (
            <button type="button" class="button" onClick={() => setAsking("renew")}>
              {t("auto.renew")}
            </button>
          )}
          {!a.protected && (
            <button type="button" class="button danger" onClick={() => setAsking("delete")}>
              {common("chats.delete")}
            </button>
          )}
        </div>
        {a.protected && <p class="hint">{t("auto.protected")}</p>}
      </section>
      {a.kind === "trigger" && <SecretOf a={a} secret={secret} />}
      <History a={a} />
      {asking === "delete" && (
        <Confirm
          title={t("auto.delete.title", { name: label(a.name) })}
          text={t("auto.delete.text")}
          action={common("chats.delete")}
          onConfirm={remove}
          onClose={() => setAsking(undefined)}
        />
      )}
      {asking === "renew" && (
        <Confirm
          title={t("auto.renew.title")}
          text={t("auto.renew.text")}
          action={t("auto.renew")}
          onConfirm={renew}
          onClose={() => setAsking(undefined)}
        />
      )}
    </>
  );
}

/** SecretOf is how programs set a trigger off, with its key if it was just made. */
export function SecretOf({ a, secret }: { a: Automation; secret?: string }) {
  const address = new URL(`v1/triggers/${a.id}`, document.baseURI).href.replace(/#.*$/, "");
  return (
    <section>
      <h2>{t("auto.use")}</h2>
      <p class="hint">{t("auto.use.command")}</p>
      <Copy label={t("auto.use.command")} text={a.command ?? ""} />
      <p class="hint">{t("auto.use.url")}</p>
      <Copy label={t("auto.use.url")} text={address} />
      {secret ? (
        <>
          <p class="note warn" role="status">
            {t("auto.secret.once")}
          </p>
          <Copy label={t("auto.secret")} text={secret} />
        </>
      ) : (
        <p class="hint">{t("auto.secret.hidden")}</p>
      )}
    </section>
  );
}

/** History is read page by page, the newest run first. */
function History({ a }: { a: Automation }) {
  const [runs, setRuns] = useState<Run[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const more = (from?: string) =>
    read<RunPage>(`webui/automations/${encodeURIComponent(a.id)}/history`, { limit: 20, cursor: from }).then((p) => {
      setRuns((all) => (from ? [...all, ...p.runs] : p.runs));
      setCursor(p.cursor);
    }, fail);

  useEffect(() => void more(), [a.id, a.last_run, a.running]);

  return (
    <section>
      <h2>{t("auto.history")}</h2>
      <Table
        label={t("auto.history")}
        rows={runs}
        id={(r) => r.at}
        empty={t("auto.history.none")}
        columns={[
          {
            title: t("auto.history.at"),
            cell: (r) => (
              <time dateTime={r.at} title={fullDate(r.at)}>
                {shortDate(r.at)}
              </time>
            ),
          },
          {
            title: t("auto.history.status"),
            cell: (r) => (
              <>
                <State tone={toneOf(r.status)}>{word(r.status)}</State>
                {(r.error || r.note) && <div class="hint">{visible(r.error || r.note || "")}</div>}
              </>
            ),
          },
          {
            title: t("auto.history.took"),
            number: true,
            cell: (r) =>
              r.duration_ms === undefined ? "" : common("end.seconds", { n: (r.duration_ms / 1000).toFixed(1) }),
          },
          { title: t("auto.history.tokens"), number: true, cell: (r) => (r.tokens ? count(r.tokens) : "") },
          { title: t("auto.history.cost"), number: true, cell: (r) => (r.cost_usd ? money(r.cost_usd) : "") },
        ]}
      />
      {cursor && (
        <div>
          <button type="button" class="button" onClick={() => void more(cursor)}>
            {t("auto.history.more")}
          </button>
        </div>
      )}
    </section>
  );
}
