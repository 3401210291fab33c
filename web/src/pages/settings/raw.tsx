// The configuration file as text, with what is wrong at its line.
import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import { said } from "../../i18n/said";
import { t } from "../../i18n/settings";
import { useRead } from "../../state/read";
import { request } from "../../state/store";
import { fail } from "../../state/toast";
import { visible } from "../../text/links";
import { Read } from "../../ui/read";
import type { Edited, Issue, RawText } from "../../wire/reads";
import { DiffText } from "./difftext";
import { failureOf, tellSaved } from "./section";

/** typed is a text that was changed and not saved, and the version it is based on. */
const typed = signal<{ text: string; base: string } | undefined>(undefined);

export function Raw({ onSaved }: { onSaved(): void }) {
  const read = useRead<RawText>("settings/raw", {}, "settings");
  return <Read of={read}>{(data) => <Editor data={data} onSaved={() => (read.reload(), onSaved())} />}</Read>;
}

function Editor({ data, onSaved }: { data: RawText; onSaved(): void }) {
  const [issues, setIssues] = useState<Issue[]>([]);
  const [stale, setStale] = useState(false);
  const [busy, setBusy] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const text = typed.value?.text ?? data.text;
  const lines = text.split("\n");
  const bad = new Set(issues.map((i) => i.line));
  const input = (now: string) =>
    (typed.value = now === data.text ? undefined : { text: now, base: typed.peek()?.base ?? data.base });
  const clear = () => {
    typed.value = undefined;
    setIssues([]);
    setStale(false);
  };

  const save = (base: string) => {
    setBusy(true);
    request<Edited>("settings.raw.update", { text, base })
      .then(
        (r) => (clear(), tellSaved(r), onSaved()),
        (e) => {
          const f = failureOf(e);
          if (f.code === "settings_stale") return (setStale(true), onSaved());
          const found = (f.params as { issues?: Issue[] } | undefined)?.issues;
          if (found) setIssues(found);
          else fail(e);
        },
      )
      .finally(() => setBusy(false));
  };

  const jump = (line: number) => {
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current?.focus();
    area.current?.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
  };

  return (
    <section>
      <h2>{t("settings.raw.title")}</h2>
      <p class="hint">{t("settings.raw.about", { file: visible(data.file) })}</p>
      {stale && (
        <div class="stale" role="alert">
          <p>{t("settings.raw.stale")}</p>
          <DiffText text={difference(data.text, text)} />
        </div>
      )}
      {issues.length > 0 && (
        <ul class="issues" role="alert" aria-label={t("settings.raw.issues")}>
          {issues.map((i) => (
            <li>
              {i.line ? (
                <button type="button" class="link" onClick={() => jump(i.line!)}>
                  {t("settings.raw.line", { line: i.line })}
                </button>
              ) : null}{" "}
              {visible([i.path, said(i.message)].filter(Boolean).join(": "))}
              {i.hint && <span class="hint"> {visible(said(i.hint))}</span>}
            </li>
          ))}
        </ul>
      )}
      <div class="raw-text">
        <ol aria-hidden="true">
          {lines.map((_, i) => (
            <li class={bad.has(i + 1) ? "bad" : undefined}>
              {bad.has(i + 1) ? "▸ " : ""}
              {i + 1}
            </li>
          ))}
        </ol>
        <textarea
          ref={area}
          class="code"
          aria-label={t("settings.raw.title")}
          aria-invalid={issues.length > 0}
          wrap="off"
          spellcheck={false}
          autocomplete="off"
          rows={lines.length}
          value={text}
          onInput={(e) => (input(e.currentTarget.value), setIssues([]))}
        />
      </div>
      <div class="row save-bar">
        <button
          type="button"
          class="button primary"
          disabled={busy || typed.value === undefined}
          onClick={() => save(stale ? data.base : (typed.peek()?.base ?? data.base))}
        >
          {stale ? t("settings.save.mine") : t("settings.raw.save")}
        </button>
        {typed.value !== undefined && (
          <button type="button" class="button" disabled={busy} onClick={clear}>
            {stale ? t("settings.discard.mine") : t("settings.discard")}
          </button>
        )}
      </div>
    </section>
  );
}

/** difference shows the lines between what two texts have in common at their ends. */
function difference(a: string, b: string): string {
  const x = a.split("\n");
  const y = b.split("\n");
  let start = 0;
  while (start < x.length && start < y.length && x[start] === y[start]) start++;
  let end = 0;
  while (end < x.length - start && end < y.length - start && x[x.length - 1 - end] === y[y.length - 1 - end]) end++;
  return [
    ...x.slice(start, x.length - end).map((l) => "-" + l),
    ...y.slice(start, y.length - end).map((l) => "+" + l),
  ].join("\n");
}
