// Setup in three steps: where models come from, which one, how much it may cost.
// Nothing is saved before the last.
import { useEffect, useRef, useState } from "preact/hooks";
import { t as common, failureText } from "../i18n";
import { t } from "../i18n/setup";
import { useRead } from "../state/read";
import { go } from "../state/route";
import { uuid } from "../state/local";
import { fresh, keyOf, request } from "../state/store";
import { safeHref, visible } from "../text/links";
import { Field } from "../ui/field";
import { Read } from "../ui/read";
import type { SetupRead, Source, Tried } from "../wire/reads";
import { Bar } from "./bar";
import { ModelStep } from "./setup/model";
import { tryText } from "./setup/try";
import { failureOf, tellSaved } from "./settings/section";
import { escape } from "./settings/state";

export default function Setup() {
  const read = useRead<SetupRead>("setup");
  useEffect(() => {
    document.title = `${common("page.setup")} - ${common("app.name")}`;
  }, []);
  return (
    <>
      <Bar title={common("page.setup")} />
      <div class="page">
        <div class="inner setup">
          <Read of={read}>{(data) => <Steps data={data} />}</Read>
        </div>
      </div>
    </>
  );
}

function Steps({ data }: { data: SetupRead }) {
  const [step, setStep] = useState(1);
  const [chosen, setChosen] = useState(data.found[0]?.name ?? "");
  const [other, setOther] = useState(data.providers[0]?.name ?? "");
  const [key, setKey] = useState("");
  const [address, setAddress] = useState("");
  const [result, setResult] = useState<Tried | undefined>(undefined);
  const [model, setModel] = useState("");
  const [limit, setLimit] = useState(String(data.daily_usd));
  const [busy, setBusy] = useState("");
  const [error, setError] = useState("");
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (step > 1) head.current?.focus();
  }, [step]);

  const found = data.found.find((s) => s.name === chosen);
  const source = found ?? data.providers.find((s) => s.name === other);
  const base = found ? (found.kind === "server" ? (found.base ?? "") : "") : address;
  const answers = () => ({ provider: source?.name ?? "", key: found ? "" : key, base });

  const run = <T,>(what: string, work: Promise<T>, then: (r: T) => void) => {
    setBusy(what);
    setError("");
    work.then(then, (e) => setError(failureText(failureOf(e)))).finally(() => setBusy(""));
  };

  const pick = (r: Tried) => {
    setResult(r);
    if (!r.ok && !(source?.sign_in && r.status !== "auth")) return setError(tryText(r));
    const usual = source?.default_model || r.default_model || "";
    const known = r.models.some((m) => m.id === usual);
    setModel(known || r.models.length === 0 ? usual : r.models.length > 0 ? r.models[0]!.id : "");
    setStep(2);
  };

  const save = () => {
    const window = result?.models.find((m) => m.id === model)?.context_window ?? 0;
    const block = `providers.${escape(answers().provider)}.`;
    const patch: Record<string, unknown> = {
      "agents.defaults.provider": answers().provider,
      "agents.defaults.model": model,
      "agents.defaults.budget.dailyUsd": Number(limit) || 0,
    };

    if (data.preset) patch["agents.defaults.modelPreset"] = null;
    if (window > 0 && window < data.window) patch["agents.defaults.contextWindowTokens"] = window;
    if (answers().key) patch[block + "apiKey"] = answers().key;
    if (answers().base) patch[block + "apiBase"] = answers().base;
    run(
      t("setup.saving"),
      request<Parameters<typeof tellSaved>[0]>("settings.update", { patch, base: data.base }),
      (r) => {
        tellSaved(r);
        fresh.value = keyOf(uuid()); // a chat that begins with this model
        go("#/");
      },
    );
  };

  const next = (e: Event) => {
    e.preventDefault();
    if (busy) return;
    if (step === 1) return run(t("setup.testing"), request<Tried>("setup.try", answers()), pick);
    if (step === 2)
      return run(t("setup.testing.model", { model }), request<Tried>("setup.try", { ...answers(), model }), (r) =>
        r.ok ? (setResult({ ...r, models: result?.models ?? r.models }), setStep(3)) : setError(tryText(r)),
      );
    save();
  };

  const titles = [t("setup.step.source"), t("setup.step.model"), t("setup.step.limit")];

  return (
    <form onSubmit={next}>
      <div class="row head">
        <h2 ref={head} tabIndex={-1}>
          {titles[step - 1]}
        </h2>
        <span class="hint">{t("setup.step", { n: step })}</span>
      </div>
      {step === 1 && (
        <SourceStep
          data={data}
          chosen={chosen}
          other={other}
          keyText={key}
          address={address}
          onChoose={setChosen}
          onOther={setOther}
          onKey={setKey}
          onAddress={setAddress}
        />
      )}
      {step === 2 && <ModelStep models={result?.models ?? []} value={model} onChange={setModel} />}
      {step === 3 && (
        <Field label={t("setup.limit.label")} hint={t("setup.limit.hint")}>
          <input
            class="input number"
            type="number"
            min="0"
            step="any"
            required
            value={limit}
            onInput={(e) => setLimit(e.currentTarget.value)}
          />
        </Field>
      )}
      <p class={error ? "wrong" : "hint"} role="status">
        {busy || error || (step > 1 && result ? tryText(result) : "")}
      </p>
      <div class="row ends">
        <a class="button plain" href="#/">
          {t("setup.skip")}
        </a>
        <span class="row">
          {step > 1 && (
            <button type="button" class="button" onClick={() => (setError(""), setStep(step - 1))}>
              {t("setup.back")}
            </button>
          )}
          <button
            type="submit"
            class="button primary"
            aria-disabled={busy !== ""}
            disabled={source === undefined || (step === 2 && model === "")}
          >
            {step === 3 ? t("setup.finish") : t("setup.next")}
          </button>
        </span>
      </div>
      <p class="hint">
        {data.demo ? t("setup.demo") : t("setup.now", { model: visible(data.model), provider: visible(data.provider) })}
      </p>
    </form>
  );
}

function about(s: Source): string {
  switch (s.kind) {
    case "server":
      return t("setup.found.server", {
        name: visible(s.display),
        models: visible((s.models ?? []).slice(0, 2).join(", ")),
      });
    case "variable":
      return t("setup.found.variable", { name: visible(s.display), variable: visible(s.variable ?? "") });
    case "sign_in":
      return t("setup.found.signin", { name: visible(s.display) });
  }
  return t("setup.found.file", { name: visible(s.display) });
}

function SourceStep(p: {
  data: SetupRead;
  chosen: string;
  other: string;
  keyText: string;
  address: string;
  onChoose(v: string): void;
  onOther(v: string): void;
  onKey(v: string): void;
  onAddress(v: string): void;
}) {
  const other = p.data.providers.find((s) => s.name === p.other);
  const keys = other?.keys_url ? safeHref(other.keys_url) : undefined;
  return (
    <>
      <fieldset class="picks">
        <legend class="sr">{t("setup.step.source")}</legend>
        {p.data.found.map((s) => (
          <label key={s.name} class="pick">
            <input type="radio" name="source" checked={p.chosen === s.name} onChange={() => p.onChoose(s.name)} />
            <span class="name">{about(s)}</span>
          </label>
        ))}
        {p.data.found.length === 0 && <p class="hint">{t("setup.found.none")}</p>}
        <label class="pick">
          <input type="radio" name="source" checked={p.chosen === ""} onChange={() => p.onChoose("")} />
          <span class="name">{t("setup.other")}</span>
        </label>
      </fieldset>
      {p.chosen === "" && other && (
        <div class="other">
          <Field label={t("setup.provider")}>
            <select class="input" value={p.other} onChange={(e) => p.onOther(e.currentTarget.value)}>
              {p.data.providers.map((s) => (
                <option key={s.name} value={s.name}>
                  {s.name === "custom" ? t("setup.custom") : visible(s.display)}
                </option>
              ))}
            </select>
          </Field>
          {other.needs_address && (
            <Field label={t("setup.address")}>
              <input
                class="input"
                type="url"
                required={!other.base}
                placeholder={other.base || "http://127.0.0.1:8000/v1"}
                value={p.address}
                onInput={(e) => p.onAddress(e.currentTarget.value)}
              />
            </Field>
          )}
          {other.sign_in ? (
            <p>
              {t("setup.signin")} <a href="#/settings/providers">{t("setup.signin.link")}</a>
            </p>
          ) : (
            <Field
              label={other.key_optional ? t("setup.key.optional") : t("setup.key")}
              hint={
                keys && (
                  <a href={keys} target="_blank" rel="noreferrer noopener">
                    {t("setup.key.get")}
                  </a>
                )
              }
            >
              <input
                class="input"
                type="password"
                autocomplete="off"
                required={!other.key_optional}
                value={p.keyText}
                onInput={(e) => p.onKey(e.currentTarget.value)}
              />
            </Field>
          )}
        </div>
      )}
    </>
  );
}
