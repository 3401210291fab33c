// Every setting of the schema, found by its name, its text or its value.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { said } from "../../i18n/said";
import { t } from "../../i18n/settings";
import { visible } from "../../text/links";
import { Field } from "../../ui/field";
import type { SettingsRead } from "../../wire/reads";
import { SettingRow, titleOf } from "./field";
import { SaveBar } from "./section";
import { drafts } from "./state";
import type { Setting } from "./state";

const most = 60; // that are shown at a time

/** All shows the settings below the path that the address names. */
export function All({
  read,
  settings,
  onSaved,
  path,
}: {
  read: SettingsRead;
  settings: Setting[];
  onSaved(): void;
  path?: string;
}) {
  const search = useRef<HTMLInputElement>(null);
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState<string | undefined>(undefined);
  const groups = useMemo(() => {
    const out = new Map<string, Setting[]>();
    for (const s of settings) {
      const name = s.parts.slice(0, s.parts.length > 2 ? 2 : 1).join(".");
      out.set(name, [...(out.get(name) ?? []), s]);
    }
    return [...out];
  }, [settings]);

  useEffect(() => {
    if (!path) return;
    setQuery(path);
    search.current?.focus();
  }, [path]);

  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const hits =
    words.length === 0
      ? []
      : settings.filter((s) => {
          const text =
            `${s.path} ${titleOf(s.path)} ${s.schema.description ? `${s.schema.description} ${said(s.schema.description)}` : ""}`.toLowerCase();
          return words.every((w) => text.includes(w));
        });

  const unsaved = settings.filter((s) => drafts.value.has(s.path)).map((s) => s.path);

  return (
    <section>
      <h2>{t("settings.all.title")}</h2>
      <Field
        label={t("settings.all.search")}
        hint={words.length > 0 ? t("settings.all.found", { n: hits.length }) : t("settings.all.hint")}
      >
        <input
          ref={search}
          class="input"
          type="search"
          value={query}
          onInput={(e) => setQuery(e.currentTarget.value)}
        />
      </Field>
      {hits.slice(0, most).map((s) => (
        <SettingRow key={s.path} setting={s} read={read} />
      ))}
      {hits.length > most && <p class="hint">{t("settings.all.more")}</p>}
      {words.length === 0 &&
        groups.map(([name, list]) => (
          <details
            key={name}
            class="group"
            open={open === name}
            onToggle={(e) => (e.currentTarget.open ? setOpen(name) : open === name && setOpen(undefined))}
          >
            <summary>
              {visible(name)} <span class="count">{list.length}</span>
            </summary>
            {open === name && list.map((s) => <SettingRow key={s.path} setting={s} read={read} />)}
          </details>
        ))}
      <SaveBar paths={unsaved} onSaved={onSaved} />
    </section>
  );
}
