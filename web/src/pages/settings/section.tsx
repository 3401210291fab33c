// A group of settings with its own Save.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { said } from "../../i18n/said";
import { t } from "../../i18n/settings";
import { request } from "../../state/store";
import { fail, toast } from "../../state/toast";
import { visible } from "../../text/links";
import { Refused } from "../../wire/api";
import type { Conflict, Edited, Issue, SettingsRead } from "../../wire/reads";
import type { Failure } from "../../wire/types";
import { Table } from "../../ui/table";
import { SettingRow, titleOf } from "./field";
import { base, drafts, forget, setWrong, shown, wrong } from "./state";
import type { Setting } from "./state";

export const failureOf = (e: unknown): Failure => (e instanceof Refused ? e.failure : (e as Failure));

/** tellSaved says what became of a change. */
export function tellSaved(r: Edited) {
  const parts = [t("settings.saved")];
  if (r.restart_required.length > 0) parts.push(t("settings.saved.restart", { names: r.restart_required.join(", ") }));
  if (r.overridden?.length) parts.push(t("settings.saved.overridden", { names: r.overridden.join("; ") }));
  toast(parts.join(" "));
}

export function Section({
  title,
  settings,
  read,
  onSaved,
  children,
}: {
  title: string;
  settings: Setting[];
  read: SettingsRead;
  onSaved(): void;
  children?: ComponentChildren;
}) {
  return (
    <section>
      <h2>{title}</h2>
      {children}
      {settings.map((s) => (
        <SettingRow key={s.path} setting={s} read={read} />
      ))}
      <SaveBar paths={settings.map((s) => s.path)} onSaved={onSaved} />
    </section>
  );
}

/** SaveBar saves what was typed in some settings, and nothing else. */
export function SaveBar({ paths, onSaved }: { paths: string[]; onSaved(): void }) {
  const [busy, setBusy] = useState(false);
  const [stale, setStale] = useState<{ version: string; conflicts: Conflict[] } | undefined>(undefined);
  const mine = paths.filter((p) => drafts.value.has(p));
  if (mine.length === 0 && !stale) return null;
  const save = (version: string) => {
    setBusy(true);
    const patch = Object.fromEntries(mine.map((p) => [p, drafts.peek().get(p)]));
    request<Edited>("settings.update", { patch, base: version })
      .then(
        (r) => {
          setStale(undefined);
          base.value = r.base; // of what was typed elsewhere and waits
          forget(mine.filter((p) => drafts.peek().get(p) === patch[p])); // the others were typed meanwhile
          tellSaved(r);
          onSaved();
        },
        (e) => {
          const f = failureOf(e);
          const p = f.params as { version?: string; conflicts?: Conflict[]; issues?: Issue[] } | undefined;
          if (f.code === "settings_stale")
            return setStale({ version: p?.version ?? "", conflicts: p?.conflicts ?? [] });
          const issues = p?.issues?.filter((i) => i.path && mine.includes(i.path)) ?? [];
          for (const i of issues) setWrong(i.path!, said(i.hint ? `${i.message}; ${i.hint}` : i.message));
          if (issues.length === 0) fail(e);
        },
      )
      .finally(() => setBusy(false));
  };

  const discard = () => {
    setStale(undefined);
    forget(mine);
    onSaved();
  };

  return (
    <div class="save-bar">
      {stale && (
        <div class="stale" role="alert">
          <p>{t("settings.stale")}</p>
          <Table
            label={t("settings.stale.label")}
            rows={stale.conflicts}
            id={(c) => c.path}
            columns={[
              { title: t("settings.stale.setting"), cell: (c) => visible(titleOf(c.path)) },
              { title: t("settings.stale.file"), cell: (c) => visible(shown(c.current)) },
              { title: t("settings.stale.yours"), cell: (c) => visible(shown(c.yours)) },
            ]}
          />
        </div>
      )}
      <div class="row">
        <button
          type="button"
          class="button primary"
          disabled={busy || mine.some((p) => wrong.value.has(p))}
          onClick={() => save(stale ? stale.version : base.peek())}
        >
          {stale ? t("settings.save.mine") : t("settings.save", { n: mine.length })}
        </button>
        <button type="button" class="button" disabled={busy} onClick={discard}>
          {stale ? t("settings.discard.mine") : t("settings.discard")}
        </button>
      </div>
    </div>
  );
}
