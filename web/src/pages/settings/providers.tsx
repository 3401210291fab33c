// Where models are: keys, addresses and sign-ins.
import { useEffect, useRef, useState } from "preact/hooks";
import { t as common, failureText } from "../../i18n";
import { t } from "../../i18n/settings";
import { request } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { safeHref, visible } from "../../text/links";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";
import { Table } from "../../ui/table";
import { tryText } from "../setup/try";
import type { Edited, LoginStep, Provider, SettingsRead, Tried } from "../../wire/reads";
import { failureOf, tellSaved } from "./section";
import { escape } from "./state";

export function Providers({ read, onSaved }: { read: SettingsRead; onSaved(): void }) {
  const [edit, setEdit] = useState<Provider | "new" | undefined>(undefined);
  const [more, setMore] = useState(false);
  const [sign, setSign] = useState<string | undefined>(undefined);
  const keyed = read.providers.filter((p) => !p.sign_in);
  const rows = keyed.filter((p) => more || p.ready || p.own);
  const out = (provider: string) =>
    request("settings.provider.oauth_logout", { provider }).then(
      () => (toast(t("settings.signin.out.done")), onSaved()),
      fail,
    );

  return (
    <>
      <section>
        <h2>{t("settings.providers.title")}</h2>
        <Table
          label={t("settings.providers.title")}
          rows={rows}
          id={(p) => p.name}
          empty={t("settings.providers.none")}
          columns={[
            { title: t("settings.provider.name"), cell: (p) => visible(p.display) },
            {
              title: t("settings.provider.key"),
              cell: (p) =>
                p.key_source
                  ? visible(p.key_source)
                  : p.ready
                    ? t("settings.provider.nokey")
                    : t("settings.provider.missing"),
            },
            { title: t("settings.provider.address"), cell: (p) => visible(p.base ?? "") },
            {
              title: t("settings.actions"),
              cell: (p) => (
                <button
                  type="button"
                  class="button"
                  aria-label={t("settings.provider.edit", { name: p.display })}
                  onClick={() => setEdit(p)}
                >
                  {t("settings.edit")}
                </button>
              ),
            },
          ]}
        />
        <div class="row">
          <button type="button" class="button" onClick={() => setEdit("new")}>
            {t("settings.provider.new")}
          </button>
          {!more && (
            <button type="button" class="button" onClick={() => setMore(true)}>
              {t("settings.providers.more", { n: keyed.length })}
            </button>
          )}
        </div>
      </section>
      <section>
        <h2>{t("settings.signins")}</h2>
        <p class="hint">{t("settings.signins.about")}</p>
        <Table
          label={t("settings.signins")}
          rows={read.sign_ins}
          id={(s) => s.name}
          columns={[
            { title: t("settings.provider.name"), cell: (s) => visible(s.name) },
            {
              title: t("settings.signin.state"),
              cell: (s) =>
                s.signed_in ? t("settings.signin.in", { account: visible(s.account) }) : t("settings.signin.none"),
            },
            {
              title: t("settings.actions"),
              cell: (s) =>
                s.signed_in ? (
                  <button
                    type="button"
                    class="button"
                    aria-label={t("settings.signin.out.of", { name: s.name })}
                    onClick={() => void out(s.name)}
                  >
                    {t("settings.signin.out")}
                  </button>
                ) : (
                  <button
                    type="button"
                    class="button"
                    aria-label={t("settings.signin.start.of", { name: s.name })}
                    onClick={() => setSign(s.name)}
                  >
                    {t("settings.signin.start")}
                  </button>
                ),
            },
          ]}
        />
      </section>
      {edit && <ProviderDialog of={edit} base={read.base} onClose={() => setEdit(undefined)} onSaved={onSaved} />}
      {sign && <SignInDialog provider={sign} onClose={() => (setSign(undefined), onSaved())} />}
    </>
  );
}

function ProviderDialog({
  of,
  base,
  onClose,
  onSaved,
}: {
  of: Provider | "new";
  base: string;
  onClose(): void;
  onSaved(): void;
}) {
  const fresh = of === "new";
  const [name, setName] = useState(fresh ? "" : of.name);
  const [key, setKey] = useState("");
  const [address, setAddress] = useState("");
  const [result, setResult] = useState("");
  const [busy, setBusy] = useState(false);
  const changes = () => ({ ...(key ? { apiKey: key } : {}), ...(address ? { apiBase: address } : {}) });
  const run = <T,>(work: Promise<T>, then: (r: T) => void) => {
    setBusy(true);
    work.then(then, (e) => setResult(failureText(failureOf(e)))).finally(() => setBusy(false));
  };

  const finish = (r: Edited) => {
    tellSaved(r);
    onSaved();
    onClose();
  };

  const save = (e: Event) => {
    e.preventDefault();
    if (fresh) return run(request<Edited>("settings.provider.create", { name, settings: changes() }), finish);
    const patch = Object.fromEntries(Object.entries(changes()).map(([k, v]) => [`providers.${escape(name)}.${k}`, v]));
    run(request<Edited>("settings.update", { patch, base }), finish);
  };

  const remove = () =>
    run(request<Edited>("settings.update", { patch: { [`providers.${escape(name)}.apiKey`]: null }, base }), finish);
  const test = () =>
    run(request<Tried>("setup.try", { provider: name, key, base: address }), (r) => setResult(tryText(r)));
  const keyInFile = !fresh && of.key_source?.startsWith("providers.");

  return (
    <Dialog title={fresh ? t("settings.provider.new") : visible(of.display)} onClose={onClose}>
      <form onSubmit={save}>
        {fresh && (
          <Field label={t("settings.provider.name")}>
            <input class="input" required value={name} onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
        )}
        <Field
          label={t("settings.provider.key")}
          hint={
            !fresh && of.key_source ? t("settings.provider.key.keep", { where: visible(of.key_source) }) : undefined
          }
        >
          <input
            class="input"
            type="password"
            autocomplete="off"
            value={key}
            onInput={(e) => setKey(e.currentTarget.value)}
          />
        </Field>
        <Field label={t("settings.provider.address")} hint={!fresh && of.base ? visible(of.base) : undefined}>
          <input
            class="input"
            type="url"
            required={fresh}
            placeholder={t("settings.sample.url")}
            value={address}
            onInput={(e) => setAddress(e.currentTarget.value)}
          />
        </Field>
        <p class="hint" role="status">
          {busy ? t("settings.busy") : visible(result)}
        </p>
        <div class="row">
          {keyInFile && (
            <button type="button" class="button danger" disabled={busy} onClick={remove}>
              {t("settings.provider.remove")}
            </button>
          )}
          {!fresh && (
            <button type="button" class="button" disabled={busy} onClick={test}>
              {t("settings.provider.test")}
            </button>
          )}
          <button type="button" class="button" onClick={onClose}>
            {common("dialog.cancel")}
          </button>
          <button type="submit" class="button primary" disabled={busy || (!key && !address)}>
            {common("dialog.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** SignInDialog follows the steps of a sign-in until it is done or closed. */
function SignInDialog({ provider, onClose }: { provider: string; onClose(): void }) {
  const [step, setStep] = useState<LoginStep | undefined>(undefined);
  const [error, setError] = useState("");
  const pasted = useRef<HTMLInputElement>(null);
  const closed = useRef(false);
  const follow = (s: LoginStep): Promise<void> | undefined => {
    if (closed.current) return;
    setStep(s);
    if (s.state === "done") {
      toast(t("settings.signin.done"));
      return (onClose(), undefined);
    }
    return request<LoginStep>("settings.provider.oauth_complete", { provider }).then(follow);
  };

  const failed = (e: unknown) => closed.current || setError(failureText(failureOf(e)));
  useEffect(() => {
    request<LoginStep>("settings.provider.oauth_login", { provider, device: true }).then(follow).catch(failed);
    return () => void (closed.current = true);
  }, []);
  const paste = (e: Event) => {
    e.preventDefault();
    request<LoginStep>("settings.provider.oauth_complete", { provider, pasted: pasted.current!.value }).then(
      (s) => s.state === "done" && onClose(),
      failed,
    );
  };

  const href = step?.url ? safeHref(step.url) : undefined;

  return (
    <Dialog title={t("settings.signin.start.of", { name: provider })} onClose={onClose}>
      <div class="sign-steps" role="status">
        {error ? (
          <p class="wrong">{visible(error)}</p>
        ) : !step ? (
          <p>{t("settings.busy")}</p>
        ) : (
          <p>{t("settings.signin.wait")}</p>
        )}
        {step?.note && <p class="hint">{visible(step.note)}</p>}
        {href && (
          <p>
            <a href={href} target="_blank" rel="noreferrer noopener">
              {t("settings.signin.open")}
            </a>
          </p>
        )}
        {step?.code && (
          <p>
            {t("settings.signin.code")} <strong class="digits">{visible(step.code)}</strong>
          </p>
        )}
      </div>
      {step?.paste && (
        <form onSubmit={paste}>
          <Field label={t("settings.signin.paste")}>
            <input class="input" ref={pasted} />
          </Field>
          <div class="row">
            <button type="submit" class="button">
              {t("settings.signin.send")}
            </button>
          </div>
        </form>
      )}
      <div class="row">
        <button type="button" class="button" onClick={onClose}>
          {common("dialog.cancel")}
        </button>
      </div>
    </Dialog>
  );
}
