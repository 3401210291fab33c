// The model and the folder of a conversation.
import { useState } from "preact/hooks";
import { t } from "../i18n/chat";
import type { Thread } from "../state/items";
import { useRead } from "../state/read";
import { setModel, setScope } from "../state/store";
import { toast } from "../state/toast";
import { visible } from "../text/links";
import { Dialog } from "../ui/dialog";
import type { Folders, OfferList, SettingsRead } from "../wire/reads";

type Settings = SettingsRead & { config: { modelPresets?: Record<string, { model?: string }> } };

const modelPrefix = "model "; // of a preset that is the name of a model

/** Offers are the models of a provider, as far as it tells. */
function Offers({ provider }: { provider: string }) {
  const offered = useRead<OfferList>("settings/provider-models", { provider });
  return (
    <>
      {offered.data?.models.map((m) => (
        <option key={m.id} value={`${provider}/${m.id}`} />
      ))}
    </>
  );
}

export function Options({ chat, thread, onClose }: { chat: string; thread: Thread; onClose(): void }) {
  const settings = useRead<Settings>("settings", {}, "settings");
  const folders = useRead<Folders>("workspaces");
  const preset = thread.preset ?? "";
  const own = preset.startsWith(modelPrefix) ? preset.slice(modelPrefix.length) : undefined;
  const [model, setChoice] = useState(own === undefined ? preset : "\n");
  const [access, setAccess] = useState(thread.scope?.access_mode ?? "full");
  const presets = Object.entries(settings.data?.config?.modelPresets ?? {});
  const usual = folders.data?.default ?? "";
  const providers =
    settings.data?.providers?.filter(
      (p) => p.ready && (p.own || p.key_source || p.name === settings.data?.model?.provider),
    ) ?? [];
  const save = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const name = String(form.get("name") ?? "").trim();
    const path = String(form.get("path") ?? "").trim();
    let sent = true;
    if (model === "\n" ? name !== "" && name !== own : model !== preset)
      sent = setModel(chat, model === "\n" ? { model: name } : { preset: model });
    const before = thread.scope ?? { project_path: usual, access_mode: "full" };
    if (path !== "" && (path !== before.project_path || access !== before.access_mode))
      sent = setScope(chat, { project_path: path, access_mode: access }) && sent;
    if (sent) onClose();
    else toast(t("options.offline"), true);
  };

  const pick = (value: string, label: string, hint = "") => (
    <label key={value}>
      <input type="radio" name="model" checked={model === value} onChange={() => setChoice(value)} /> {visible(label)}{" "}
      {hint && <span class="hint">{visible(hint)}</span>}
    </label>
  );

  return (
    <Dialog title={t("options.title")} onClose={onClose}>
      <form class="options" onSubmit={save}>
        <fieldset>
          <legend>{t("options.model")}</legend>
          {pick("", t("options.model.usual", { name: settings.data?.model?.name ?? "" }))}
          {presets.map(([name, p]) => pick(name, name, p.model))}
          {pick("\n", t("options.model.other"))}
          {model === "\n" && (
            <input
              class="input"
              name="name"
              list="models"
              aria-label={t("options.model.name")}
              placeholder={t("options.model.name")}
              defaultValue={own ?? ""}
              maxLength={200}
            />
          )}
          {model === "\n" && (
            <datalist id="models">
              {providers.map((p) => (
                <Offers key={p.name} provider={p.name} />
              ))}
            </datalist>
          )}
        </fieldset>
        <fieldset>
          <legend>{t("options.folder")}</legend>
          <label class="field">
            <span>{t("options.folder.path")}</span>
            <input
              key={usual}
              class="input"
              name="path"
              list="folders"
              defaultValue={thread.scope?.project_path ?? usual}
            />
          </label>
          <datalist id="folders">
            {folders.data?.workspaces.map((w) => (
              <option key={w.path} value={w.path}>
                {visible(w.name)}
              </option>
            ))}
          </datalist>
          <p class="hint">{t("options.folder.hint")}</p>
          <div class="row" role="radiogroup" aria-label={t("options.access")}>
            {(["options.access.restricted", "options.access.full"] as const).map((key) => (
              <label key={key}>
                <input
                  type="radio"
                  name="access"
                  checked={"options.access." + access === key}
                  onChange={() => setAccess(key.slice(15))}
                />{" "}
                {t(key)}
              </label>
            ))}
          </div>
        </fieldset>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>
            {t("options.cancel")}
          </button>
          <button type="submit" class="button primary">
            {t("options.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
