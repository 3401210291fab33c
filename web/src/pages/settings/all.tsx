// Every setting of the schema, found by its name, its text or its value.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../../i18n/settings";
import { visible } from "../../text/links";
import { Field } from "../../ui/field";
import { SettingRow, titleOf } from "./field";
import { SaveBar } from "./section";
import { drafts } from "./state";
import type { Setting, SettingsRead } from "./state";

const most = 60; // that are shown at a time

/** All opens the group that the address names. */
export function All({ read, settings, onSaved, group }: { read: SettingsRead; settings: Setting[]; onSaved(): void; group?: string }) {
  const list = useRef<HTMLElement>(null);
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
    const at = group ? groups.findIndex(([name]) => name === group || name.startsWith(group + ".")) : -1;
    if (at < 0) return;
    setQuery("");
    setOpen(groups[at]![0]);
    const summary = list.current?.querySelectorAll("summary")[at];
    summary?.focus();
    summary?.scrollIntoView({ block: "center" });
  }, [group]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length === 0 ? [] : settings.filter((s) => {
    const text = `${s.path} ${titleOf(s.path)} ${s.schema.description ?? ""}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  const unsaved = settings.filter((s) => drafts.value.has(s.path)).map((s) => s.path);
  return (
    <section ref={list}>
      <h2>{t("settings.all.title")}</h2>
      <Field label={t("settings.all.search")} hint={words.length > 0 ? t("settings.all.found", { n: hits.length }) : t("settings.all.hint")}>
        <input class="input" type="search" value={query} onInput={(e) => setQuery(e.currentTarget.value)} />
      </Field>
      {hits.slice(0, most).map((s) => <SettingRow key={s.path} setting={s} read={read} />)}
      {hits.length > most && <p class="hint">{t("settings.all.more")}</p>}
      {words.length === 0 && groups.map(([name, list]) => (
        <details key={name} class="group" open={open === name} onToggle={(e) => (e.currentTarget.open ? setOpen(name) : open === name && setOpen(undefined))}>
          <summary>{visible(name)} <span class="count">{list.length}</span></summary>
          {open === name && list.map((s) => <SettingRow key={s.path} setting={s} read={read} />)}
        </details>
      ))}
      <SaveBar paths={unsaved} onSaved={onSaved} />
    </section>
  );
}
