// Making and changing a job or a trigger.
import { useEffect, useState } from "preact/hooks";
import { t as common } from "../../i18n";
import { t } from "../../i18n/automations";
import { uuid } from "../../state/local";
import { go } from "../../state/route";
import { refreshSessions, sessions } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { label } from "../../text/links";
import { Field } from "../../ui/field";
import type { Automation, Made, Timing } from "../../wire/reads";
import { SecretOf } from "./detail";
import { Preview, TimingFields } from "./timing";
import { act, hrefOf } from "./wire";

const own = ["cron", "trigger", "heartbeat", "api", "cli", "dream", "system"];
const fresh = uuid();

/** target splits the key of a conversation into channel and chat. */
const target = (key: string) => ({ channel: key.slice(0, key.indexOf(":")), chat_id: key.slice(key.indexOf(":") + 1) });

/** Where chooses the conversation that gets the results. */
function Where({ value, onChange }: { value: string; onChange(key: string): void }) {
  useEffect(() => void refreshSessions(), []);
  const all = (sessions.value ?? []).filter((s) => s.key.includes(":") && !own.includes(target(s.key).channel));
  return (
    <Field label={t("auto.where")} hint={t("auto.where.hint")}>
      <select class="input" value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        <option value={"websocket:" + fresh}>{t("auto.where.new")}</option>
        {all.map((s) => (
          <option
            key={s.key}
            value={s.key}
          >{`${label(s.title || s.preview).slice(0, 60) || common("chats.untitled")} (${label(target(s.key).channel)})`}</option>
        ))}
      </select>
    </Field>
  );
}

export function Edit({ of }: { of?: Automation }) {
  const [name, setName] = useState(of?.name ?? "");
  const [message, setMessage] = useState(of?.message ?? "");
  const [timing, setTiming] = useState<Timing>(of?.schedule ?? {});
  const [where, setWhere] = useState("websocket:" + fresh);
  const [deliver, setDeliver] = useState(of?.deliver ?? true);
  const [catchUp, setCatchUp] = useState(of?.catch_up ?? "");
  const [minutes, setMinutes] = useState(of?.timeout_seconds ? of.timeout_seconds / 60 : 0);
  const [busy, setBusy] = useState(false);
  const back = of ? hrefOf(of) : "#/automations";
  const save = (e: Event) => {
    e.preventDefault();
    setBusy(true);
    const payload = {
      name: name.trim() || undefined,
      message,
      schedule: timing,
      deliver,
      catch_up: catchUp || undefined,
      timeout_seconds: minutes > 0 ? minutes * 60 : of ? 0 : undefined,
    };

    const done = of
      ? act("update", { id: of.id, ...payload })
      : act("create", { kind: "job", ...payload, ...target(where) });
    done
      .then((made) => {
        toast(t("auto.saved"));
        go(made.automation ? hrefOf(made.automation) : back);
      }, fail)
      .finally(() => setBusy(false));
  };

  return (
    <section>
      <h2>{of ? t("auto.edit", { name: label(of.name) }) : t("auto.new")}</h2>
      <form class="form" onSubmit={save}>
        <Field label={t("auto.message")} hint={t("auto.message.hint")}>
          <textarea
            class="input"
            rows={4}
            required
            maxLength={4000}
            value={message}
            onInput={(e) => setMessage(e.currentTarget.value)}
          />
        </Field>
        <Field label={t("auto.name")}>
          <input class="input" maxLength={120} value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </Field>
        <TimingFields start={of?.schedule} onChange={setTiming} />
        <Preview timing={timing} />
        {!of && <Where value={where} onChange={setWhere} />}
        <label class="field switch">
          <input type="checkbox" checked={deliver} onChange={(e) => setDeliver(e.currentTarget.checked)} />
          <span>{t("auto.deliver")}</span>
          <small class="hint">{t("auto.deliver.hint")}</small>
        </label>
        <details>
          <summary>{t("auto.more")}</summary>
          <div class="form">
            <Field label={t("auto.catchup")}>
              <select class="input" value={catchUp} onChange={(e) => setCatchUp(e.currentTarget.value)}>
                <option value="">{t("auto.catchup.default")}</option>
                {(["once", "skip", "tell"] as const).map((v) => (
                  <option key={v} value={v}>
                    {t(`value.catchup.${v}`)}
                  </option>
                ))}
              </select>
            </Field>
            <Field label={t("auto.timeout")} hint={t("auto.timeout.hint")}>
              <input
                class="input"
                type="number"
                min={0}
                max={1440}
                value={minutes}
                onInput={(e) => setMinutes(e.currentTarget.valueAsNumber || 0)}
              />
            </Field>
          </div>
        </details>
        <div class="row">
          <button type="submit" class="button primary" disabled={busy}>
            {common("dialog.save")}
          </button>
          <a class="button" href={back}>
            {common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}

export function NewTrigger() {
  const [name, setName] = useState("");
  const [where, setWhere] = useState("websocket:" + fresh);
  const [made, setMade] = useState<Made>();
  const save = (e: Event) => {
    e.preventDefault();
    act("create", { kind: "trigger", name, ...target(where) }).then(setMade, fail);
  };

  if (made) {
    return (
      <section>
        <h2>{label(made.automation.name)}</h2>
        <SecretOf a={made.automation} secret={made.secret} />
        <div class="row">
          <a class="button primary" href={hrefOf(made.automation)}>
            {t("auto.done")}
          </a>
        </div>
      </section>
    );
  }

  return (
    <section>
      <h2>{t("auto.new.trigger")}</h2>
      <p class="hint">{t("auto.trigger.about")}</p>
      <form class="form" onSubmit={save}>
        <Field label={t("auto.name")}>
          <input class="input" required maxLength={120} value={name} onInput={(e) => setName(e.currentTarget.value)} />
        </Field>
        <Where value={where} onChange={setWhere} />
        <div class="row">
          <button type="submit" class="button primary">
            {t("auto.create")}
          </button>
          <a class="button" href="#/automations">
            {common("dialog.cancel")}
          </a>
        </div>
      </form>
    </section>
  );
}
