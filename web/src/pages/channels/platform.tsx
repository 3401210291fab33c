// One chat platform: how it is, its settings, and how it is connected.
import { useState } from "preact/hooks";
import { t as common } from "../../i18n";
import { t } from "../../i18n/channels";
import { shortDate } from "../../ui/days";
import { useRead } from "../../state/read";
import { go } from "../../state/route";
import { fail, toast } from "../../state/toast";
import { visible } from "../../text/links";
import { Field } from "../../ui/field";
import { Form, patchOf } from "../../ui/form";
import type { Values } from "../../ui/form";
import { Confirm, State } from "../../ui/list";
import { Login } from "../../ui/login";
import { Read } from "../../ui/read";
import type { Checked, Described, LoginStep, Platform } from "../../wire/reads";
import { act } from "./wire";

const states = {
  running: ["good", "value.chan.running"],
  starting: ["warn", "value.chan.starting"],
  failed: ["bad", "value.chan.failed"],
  stopped: ["off", "value.chan.stopped"],
} as const;

export function StateOf({ p }: { p: Platform }) {
  if (!p.configured) return null;
  const [tone, text] = p.enabled ? states[p.state] : states.stopped;
  return <State tone={tone}>{p.enabled ? t(text) : t("chan.off")}</State>;
}

export function Detail({ p }: { p: Platform }) {
  const about = useRead<Described>("settings/channel-schema", { name: p.name }, "settings");
  const [logging, setLogging] = useState(false);
  const [leaving, setLeaving] = useState(false);
  const toggle = () => void act(p.enabled ? "feature.disable" : "feature.enable", { name: p.name }).catch(fail);

  return (
    <>
      <section>
        <a class="hint" href="#/channels">
          {t("chan.back")}
        </a>
        <div class="spread">
          <h2>
            {visible(p.title || p.name)}
            {p.title && p.name.includes(".") && ` (${visible(p.name)})`}
          </h2>
          <StateOf p={p} />
        </div>
        {p.enabled && p.reason && (
          <p class="note warn" role="status">
            {visible(p.reason)}
            {p.retry && ` ${t("chan.retry", { at: shortDate(p.retry) })}`}
          </p>
        )}
        {p.configured && (
          <dl class="facts">
            {p.identity && (
              <>
                <dt>{t("chan.identity")}</dt>
                <dd>{visible(p.identity)}</dd>
              </>
            )}
            {p.enabled && p.since && (
              <>
                <dt>{t("chan.since")}</dt>
                <dd>{shortDate(p.since)}</dd>
              </>
            )}
            {p.enabled && (
              <>
                <dt>{t("chan.messages")}</dt>
                <dd>{t("chan.messages.n", { received: p.received ?? 0, sent: p.sent ?? 0 })}</dd>
              </>
            )}
          </dl>
        )}
        {p.configured && (
          <div class="row">
            <button type="button" class={p.enabled ? "button" : "button primary"} onClick={toggle}>
              {p.enabled ? t("chan.disable") : t("chan.enable")}
            </button>
            {p.enabled && !p.name.startsWith("websocket") && (
              <button
                type="button"
                class="button"
                onClick={() =>
                  void act("channel.restart", { name: p.name }).then(() => toast(t("chan.restarted")), fail)
                }
              >
                {t("chan.restart")}
              </button>
            )}
            {p.name === "telegram" && (
              <a class="button" href="#/channels/telegram/setup">
                {p.enabled ? t("chan.tg.me") : t("chan.tg.title")}
              </a>
            )}
            {p.login && (
              <button type="button" class="button" onClick={() => setLogging(true)}>
                {t("chan.connect")}
              </button>
            )}
            {p.logout && (
              <button type="button" class="button" onClick={() => setLeaving(true)}>
                {t("chan.logout")}
              </button>
            )}
          </div>
        )}
        {!p.configured && p.login && (
          <>
            <p>{t("chan.login.first")}</p>
            <div class="row">
              <button type="button" class="button primary" onClick={() => setLogging(true)}>
                {t("chan.connect")}
              </button>
            </div>
          </>
        )}
      </section>
      {leaving && (
        <Confirm
          title={t("chan.logout.ask", { name: visible(p.title || p.name) })}
          text={t("chan.logout.text")}
          action={t("chan.logout")}
          onConfirm={() => void act("channel.logout", { name: p.name }).then(() => toast(t("chan.loggedout")), fail)}
          onClose={() => setLeaving(false)}
        />
      )}
      <Read of={about}>{(d) => <Settings key={JSON.stringify(d.settings)} d={d} p={p} />}</Read>
      {p.configured && !/[.]|^websocket$/.test(p.name) && <Another p={p} />}
      {logging && (
        <Login
          title={t("chan.connect.title", { name: visible(p.title || p.name) })}
          steps={{
            start: () =>
              act<LoginStep>("channel.connect.start", { name: p.name, force: p.enabled && p.state === "running" }),
            next: (answer) => act<LoginStep>("channel.connect.poll", { name: p.name, answer }),
            cancel: () => act("channel.connect.cancel", { name: p.name }),
          }}
          onClose={(done) => (setLogging(false), done && toast(t("chan.connected")))}
        />
      )}
    </>
  );
}

/** Another leads to the form of one more account: a section such as telegram.work. */
function Another({ p }: { p: Platform }) {
  const open = (e: SubmitEvent) => {
    e.preventDefault();
    go(`#/channels/${p.name}.${String(new FormData(e.currentTarget as HTMLFormElement).get("name"))}`);
  };
  return (
    <section>
      <h2>{t("chan.another")}</h2>
      <form class="row end" onSubmit={open}>
        <Field label={t("chan.another.name")} hint={t("chan.another.hint", { name: p.name })}>
          <input class="input" name="name" required pattern="[a-z0-9][a-z0-9_\-]{0,31}" autocomplete="off" />
        </Field>
        <button type="submit" class="button">
          {t("chan.another.next")}
        </button>
      </form>
    </section>
  );
}

function Settings({ d, p }: { d: Described; p: Platform }) {
  const before = d.settings ?? {};
  const [value, setValue] = useState<Values>(before);
  const [found, setFound] = useState<Checked>();
  const [busy, setBusy] = useState(false);
  const rest = Object.keys(d.schema.properties ?? {}).filter(
    (n) => n !== "enabled" && !d.needed.includes(n) && !/^Ignored/.test(d.schema.properties?.[n]?.description ?? ""),
  );
  const patch = patchOf(before, value) ?? {};
  const check = () => {
    setBusy(true);
    act<Checked>("channel.validate", { name: p.name, settings: patch })
      .then(setFound, fail)
      .finally(() => setBusy(false));
  };

  const save = (e: Event) => {
    e.preventDefault();
    setBusy(true);
    act("channel.configure", { name: p.name, settings: p.configured ? patch : { ...(patch as Values), enabled: true } })
      .then(() => toast(t("chan.saved")), fail)
      .finally(() => setBusy(false));
  };

  return (
    <section>
      <h2>{t("chan.settings")}</h2>
      <form class="form" onSubmit={save}>
        <Form schema={d.schema} value={value} onChange={setValue} only={d.needed} />
        <details>
          <summary>{t("chan.more", { n: rest.length })}</summary>
          <Form schema={d.schema} value={value} onChange={setValue} only={rest} />
        </details>
        {found && <Found found={found} />}
        <div class="row">
          <button type="submit" class={p.login && !p.configured ? "button" : "button primary"} disabled={busy}>
            {p.configured ? common("dialog.save") : t("chan.add")}
          </button>
          <button type="button" class="button" disabled={busy} onClick={check}>
            {t("chan.check")}
          </button>
        </div>
      </form>
    </section>
  );
}

/** Found is what a check of the settings said. */
export function Found({ found }: { found: Checked }) {
  if (!found.valid)
    return (
      <p class="note warn" role="alert">
        {visible(found.error ?? "")}
      </p>
    );
  return (
    <div class="note" role="status">
      <p>
        <State tone="good">
          {found.identity ? t("chan.works.as", { who: visible(found.identity) }) : t("chan.works")}
        </State>
      </p>
      <ul class="checks">
        {found.checks?.map((c) => (
          <li key={c.name}>
            <State tone={c.ok ? "good" : "bad"}>{visible(c.name)}</State>{" "}
            {c.detail && <span class="hint">{visible(c.detail)}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
