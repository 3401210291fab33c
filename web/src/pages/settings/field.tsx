// One setting: what it is for, its control, and where its value comes from.
import { useEffect, useState } from "preact/hooks";
import { said } from "../../i18n/said";
import { t } from "../../i18n/settings";
import { visible } from "../../text/links";
import type { SettingsRead } from "../../wire/reads";
import { draft, drafts, forget, originOf, setWrong, shown, valueAt, wrong } from "./state";
import type { Setting } from "./state";
import { useName } from "../../ui/portal";

/** titled are the settings with a title in both languages. */
const titled = [
  "agents.defaults.model",
  "agents.defaults.provider",
  "agents.defaults.modelPreset",
  "agents.defaults.fallbackModels",
  "agents.defaults.temperature",
  "agents.defaults.maxTokens",
  "agents.defaults.contextWindowTokens",
  "agents.defaults.reasoningEffort",
  "tools.approval.mode",
  "tools.approval.timeout",
  "tools.approval.fallback",
  "tools.approval.rules",
  "tools.exec.enable",
  "tools.exec.sandbox",
  "tools.exec.network",
  "tools.exec.allowedHosts",
  "tools.restrictToWorkspace",
  "tools.protectConfigDir",
  "tools.ssrfWhitelist",
  "transcription.enabled",
  "transcription.provider",
  "transcription.model",
  "transcription.language",
  "transcription.maxDurationSec",
  "transcription.maxUploadMb",
  "tools.imageGeneration.enabled",
  "tools.imageGeneration.provider",
  "tools.imageGeneration.model",
  "tools.imageGeneration.defaultAspectRatio",
  "tools.imageGeneration.defaultImageSize",
  "tools.imageGeneration.maxImagesPerTurn",
  "tools.imageGeneration.saveDir",
  "tools.web.enable",
  "tools.web.proxy",
  "tools.web.userAgent",
  "tools.web.search.provider",
  "tools.web.search.apiKey",
  "tools.web.search.baseUrl",
  "tools.web.search.maxResults",
  "tools.web.search.timeout",
  "tools.web.fetch.useJinaReader",
] as const;

/** titleOf is the name of a setting for people. */
export function titleOf(path: string): string {
  const known = titled.find((p) => p === path);
  return known ? t(`value.${known}`) : path;
}

export function SettingRow({ setting: s, read }: { setting: Setting; read: SettingsRead }) {
  const id = useName();
  const changed = drafts.value.has(s.path);
  const now = valueAt(read.config, s.parts);
  const raw = changed ? drafts.value.get(s.path) : now;
  const value = changed && raw === null ? s.schema.default : raw;
  const bad = wrong.value.get(s.path);
  const origin = originOf(read, s);
  const title = titleOf(s.path);
  const set = (v: unknown) => {
    if (JSON.stringify(v) === JSON.stringify(now ?? (s.kind === "text" ? "" : now))) forget([s.path]);
    else draft(s.path, v, read.base);
  };

  return (
    <div class={changed ? "setting changed" : "setting"}>
      <div class="about">
        <label for={id}>{visible(title)}</label>
        {s.schema.description && (
          <p class="hint" id={id + "d"}>
            {visible(said(s.schema.description))}
          </p>
        )}
      </div>
      <div class="control">
        <Control id={id} setting={s} value={value} onChange={set} />
        {s.schema["x-unit"] && (
          <span class="unit">{s.schema["x-unit"] === "tokens" ? t("settings.tokens") : s.schema["x-unit"]}</span>
        )}
      </div>
      <p class="origin">
        {changed ? <strong>{t("settings.unsaved")}</strong> : originText(origin)}
        {s.schema["x-restart"] && <span>{t("settings.restart")}</span>}
        {s.schema["x-danger"] && <span>{t("settings.danger")}</span>}
        {!changed && origin?.layer === "env" && <span>{t("settings.overridden")}</span>}
        {changed ? (
          <button type="button" class="link" onClick={() => forget([s.path])}>
            {t("settings.revert")}
          </button>
        ) : (
          origin?.layer === "file" && (
            <button
              type="button"
              class="link"
              aria-label={t("settings.reset.of", { name: title })}
              onClick={() => draft(s.path, null, read.base)}
            >
              {t("settings.reset")}
            </button>
          )
        )}
      </p>
      {bad && (
        <p class="wrong" role="alert">
          {visible(bad)}
        </p>
      )}
    </div>
  );
}

function originText(o: ReturnType<typeof originOf>): string {
  switch (o?.layer) {
    case "file":
      return t("settings.origin.file", { line: o.line ?? 0 });
    case "env":
      return t("settings.origin.env", { name: o.variable ?? "" });
    case "flag":
      return t("settings.origin.flag");
  }
  return t("settings.origin.default");
}

function Control({
  id,
  setting: s,
  value,
  onChange,
}: {
  id: string;
  setting: Setting;
  value: unknown;
  onChange(v: unknown): void;
}) {
  const about = s.schema.description ? id + "d" : undefined;
  switch (s.kind) {
    case "switch":
      if (s.schema.default === undefined) {
        return (
          <select
            class="input"
            id={id}
            aria-describedby={about}
            value={value === undefined || value === null ? "" : String(value)}
            onChange={(e) => onChange(e.currentTarget.value === "" ? null : e.currentTarget.value === "true")}
          >
            <option value="">{t("settings.auto")}</option>
            <option value="true">{t("settings.on")}</option>
            <option value="false">{t("settings.off")}</option>
          </select>
        );
      }
      return (
        <input
          type="checkbox"
          id={id}
          aria-describedby={about}
          checked={value === true}
          onChange={(e) => onChange(e.currentTarget.checked)}
        />
      );
    case "choice":
      return (
        <select
          class="input"
          id={id}
          aria-describedby={about}
          value={shown(value)}
          onChange={(e) => onChange(e.currentTarget.value)}
        >
          {!s.schema.enum!.includes(shown(value)) && (
            <option value={shown(value)}>{shown(value) || t("settings.auto")}</option>
          )}
          {s.schema
            .enum!.filter((x) => x !== null)
            .map((x) => (
              <option key={String(x)} value={String(x)}>
                {x === "" ? t("settings.auto") : String(x)}
              </option>
            ))}
        </select>
      );
    case "number":
      return (
        <input
          class="input number"
          type="number"
          id={id}
          aria-describedby={about}
          step="any"
          min={s.schema.minimum}
          max={s.schema.maximum}
          value={shown(value)}
          onInput={(e) => (e.currentTarget.value === "" ? onChange(null) : onChange(Number(e.currentTarget.value)))}
        />
      );
    case "secret":
      return (
        <input
          class="input"
          type="password"
          id={id}
          autocomplete="off"
          aria-describedby={about}
          placeholder={value === "***" ? t("settings.secret.set") : t("settings.secret.none")}
          value={value === "***" ? "" : shown(value)}
          onInput={(e) => onChange(e.currentTarget.value === "" ? value : e.currentTarget.value)}
        />
      );
    case "list":
      if (
        value === undefined ||
        value === null ||
        (Array.isArray(value) && value.every((x) => typeof x === "string"))
      ) {
        return (
          <Area
            id={id}
            about={about}
            path={s.path}
            kind="list"
            text={((value as string[] | undefined) ?? []).join("\n")}
            onChange={onChange}
          />
        );
      }
      return (
        <Area
          id={id}
          about={about}
          path={s.path}
          kind="json"
          text={JSON.stringify(value, null, 2)}
          onChange={onChange}
        />
      );
    case "json":
      return (
        <Area
          id={id}
          about={about}
          path={s.path}
          kind="json"
          text={value === undefined || value === null ? "" : JSON.stringify(value, null, 2)}
          onChange={onChange}
        />
      );
    default:
      return (
        <input
          class="input"
          id={id}
          aria-describedby={about}
          value={shown(value)}
          onInput={(e) => onChange(e.currentTarget.value)}
        />
      );
  }
}

/** Area is a list of lines, or JSON. What is typed stays as it is until it is
 *  saved or taken back. */
function Area({
  id,
  about,
  path,
  kind,
  text,
  onChange,
}: {
  id: string;
  about?: string;
  path: string;
  kind: "list" | "json";
  text: string;
  onChange(v: unknown): void;
}) {
  const [typed, setTyped] = useState<string | undefined>(undefined);
  const open = drafts.value.has(path) || wrong.value.has(path);
  useEffect(() => {
    if (!open) setTyped(undefined);
  }, [open]);
  const input = (now: string) => {
    setTyped(now);
    if (kind === "list")
      return onChange(
        now
          .split("\n")
          .map((x) => x.trim())
          .filter(Boolean),
      );

    try {
      onChange(now.trim() === "" ? null : JSON.parse(now));
    } catch {
      setWrong(path, t("settings.json.wrong"));
    }
  };

  const value = typed ?? text;

  return (
    <textarea
      class={kind === "json" ? "input code" : "input"}
      id={id}
      aria-describedby={about}
      spellcheck={false}
      rows={Math.min(12, value.split("\n").length + 1)}
      placeholder={t(kind === "json" ? "settings.json" : "settings.list")}
      value={value}
      onInput={(e) => input(e.currentTarget.value)}
    />
  );
}
