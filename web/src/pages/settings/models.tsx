// Which model answers, what is used instead, and named model settings.
import { useState } from "preact/hooks";
import { t as common } from "../../i18n";
import { t } from "../../i18n/settings";
import { request } from "../../state/store";
import { fail } from "../../state/toast";
import { visible } from "../../text/links";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";
import { Table } from "../../ui/table";
import type { SettingsRead } from "../../wire/reads";
import { Section, tellSaved } from "./section";
import { valueAt } from "./state";
import type { Setting } from "./state";

interface Preset {
  name: string;
  model: string;
  provider: string;
  label: string;
}

export const modelPaths = [
  "model",
  "provider",
  "modelPreset",
  "fallbackModels",
  "temperature",
  "maxTokens",
  "contextWindowTokens",
  "reasoningEffort",
].map((n) => "agents.defaults." + n);

export function Models({ read, settings, onSaved }: { read: SettingsRead; settings: Setting[]; onSaved(): void }) {
  const [edit, setEdit] = useState<Partial<Preset> | undefined>(undefined);
  const presets: Preset[] = Object.entries((read.config.modelPresets ?? {}) as Record<string, Partial<Preset>>).map(
    ([name, p]) => ({ name, model: p.model ?? "", provider: p.provider ?? "", label: p.label ?? "" }),
  );
  const used = valueAt(read.config, ["agents", "defaults", "modelPreset"]);
  const act = (action: string, payload: unknown) =>
    request<Parameters<typeof tellSaved>[0]>(action, payload).then((r) => (tellSaved(r), onSaved()), fail);

  return (
    <>
      <Section title={t("settings.models.title")} settings={settings} read={read} onSaved={onSaved}>
        <p>
          {read.model.demo
            ? t("settings.models.demo")
            : t("settings.models.now", {
                model: visible(read.model.name),
                provider: visible(read.model.provider),
              })}{" "}
          <a href="#/setup">{t("settings.models.setup")}</a>
        </p>
      </Section>
      <section>
        <h2>{t("settings.presets")}</h2>
        <p class="hint">{t("settings.presets.about")}</p>
        <Table
          label={t("settings.presets")}
          rows={presets}
          id={(p) => p.name}
          empty={t("settings.presets.none")}
          columns={[
            { title: t("settings.preset.name"), cell: (p) => visible(p.label ? `${p.name} (${p.label})` : p.name) },
            { title: t("settings.preset.model"), cell: (p) => visible(p.model) },
            { title: t("settings.preset.provider"), cell: (p) => visible(p.provider) },
            {
              title: t("settings.actions"),
              cell: (p) => (
                <div class="row">
                  {used === p.name ? (
                    <strong>{t("settings.preset.used")}</strong>
                  ) : (
                    <button
                      type="button"
                      class="button"
                      onClick={() => void act("settings.update", { patch: { "agents.defaults.modelPreset": p.name } })}
                    >
                      {t("settings.preset.use")}
                    </button>
                  )}
                  <button
                    type="button"
                    class="button"
                    aria-label={t("settings.preset.edit", { name: p.name })}
                    onClick={() => setEdit(p)}
                  >
                    {t("settings.edit")}
                  </button>
                  <button
                    type="button"
                    class="button danger"
                    aria-label={t("settings.preset.delete", { name: p.name })}
                    onClick={() => void act("settings.model_configuration.delete", { name: p.name })}
                  >
                    {t("settings.delete")}
                  </button>
                </div>
              ),
            },
          ]}
        />
        <div>
          <button type="button" class="button" onClick={() => setEdit({})}>
            {t("settings.preset.new")}
          </button>
        </div>
      </section>
      {edit && (
        <PresetDialog
          of={edit}
          onClose={() => setEdit(undefined)}
          onSave={(p, fresh) =>
            act(fresh ? "settings.model_configuration.create" : "settings.model_configuration.update", p)
          }
        />
      )}
    </>
  );
}

function PresetDialog({
  of,
  onClose,
  onSave,
}: {
  of: Partial<Preset>;
  onClose(): void;
  onSave(p: { name: string; settings: Record<string, string | null> }, fresh: boolean): Promise<void>;
}) {
  const [name, setName] = useState(of.name ?? "");
  const [model, setModel] = useState(of.model ?? "");
  const [provider, setProvider] = useState(of.provider ?? "auto");
  const [label, setLabel] = useState(of.label ?? "");
  const fresh = of.name === undefined;
  const submit = (e: Event) => {
    e.preventDefault();
    void onSave({ name, settings: { model, provider: provider || null, label: label || null } }, fresh).then(onClose);
  };

  return (
    <Dialog title={fresh ? t("settings.preset.new") : t("settings.preset.edit", { name: of.name! })} onClose={onClose}>
      <form onSubmit={submit}>
        {fresh && (
          <Field label={t("settings.preset.name")}>
            <input class="input" required value={name} onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
        )}
        <Field label={t("settings.preset.model")}>
          <input class="input" required value={model} onInput={(e) => setModel(e.currentTarget.value)} />
        </Field>
        <Field label={t("settings.preset.provider")} hint={t("settings.preset.provider.hint")}>
          <input class="input" value={provider} onInput={(e) => setProvider(e.currentTarget.value)} />
        </Field>
        <Field label={t("settings.preset.label")}>
          <input class="input" value={label} onInput={(e) => setLabel(e.currentTarget.value)} />
        </Field>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>
            {common("dialog.cancel")}
          </button>
          <button type="submit" class="button primary">
            {common("dialog.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
