// A call of a tool: one line that says in words what was done, and the details.
import { useState } from "preact/hooks";
import { t } from "../i18n";
import type { Key } from "../i18n";
import { en } from "../i18n/en";
import type { ToolItem } from "../state/items";
import { ansi } from "../text/ansi";
import { visible } from "../text/links";
import { Icon } from "../ui/icon";
import { Diff } from "./diff";

/** subject is the argument that says most, on one line. */
export function subject(args: string): string {
  let a: unknown;
  try {
    a = JSON.parse(args);
  } catch {
    return oneLine(args);
  }
  if (typeof a !== "object" || a === null) return oneLine(args);
  const o = a as Record<string, unknown>;
  for (const name of ["command", "path", "file_path", "url", "query", "pattern", "name", "content", "task", "message"]) {
    if (typeof o[name] === "string") return oneLine(o[name]);
  }
  const first = Object.values(o).find((v) => typeof v === "string");
  return oneLine(typeof first === "string" ? first : Object.keys(o).length ? args : "");
}

const oneLine = (s: string) => visible(s.slice(0, 300).replace(/\s+/g, " ").trim());

export function words(name: string): string {
  const key = "tool." + name;
  return Object.hasOwn(en, key) ? t(key as Key) : t("tool.other", { name: visible(name) });
}

export function Tool({ item }: { item: ToolItem }) {
  const [open, setOpen] = useState(false);
  const changed = item.edits?.reduce((n, e) => [n[0]! + (e.added ?? 0), n[1]! + (e.deleted ?? 0)], [0, 0]);
  return (
    <details class="tool" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" class="chevron" />
        <span class="what">{words(item.name)}</span>
        <code>{subject(item.args)}</code>
        {item.untrusted && <span class="mark">{t("tool.untrusted")}</span>}
        {changed && (
          <span>
            <span class="add">+{changed[0]}</span> <span class="del">−{changed[1]}</span>
          </span>
        )}
        <span class={item.phase === "error" ? "time bad" : "time"}>{state(item)}</span>
      </summary>
      {open && <Details item={item} />}
    </details>
  );
}

function state(item: ToolItem): string {
  switch (item.phase) {
    case "writing":
      return t("tool.writing");
    case "running":
      return t("tool.running");
    case "error":
      return t("tool.failed");
    case "lost":
      return t("tool.lost");
    case "done":
      return item.ms === undefined ? "" : t("end.seconds", { n: (item.ms / 1000).toFixed(1) });
  }
}

function Details({ item }: { item: ToolItem }) {
  return (
    <>
      <div class="part">
        <h4>{t("tool.arguments")}</h4>
        <pre class="output" tabIndex={0}>{pretty(item.args)}</pre>
      </div>
      {item.edits?.map((e) => <Diff edit={e} />)}
      {item.result !== undefined && (
        <div class="part">
          <h4>{t("tool.result")}</h4>
          <pre class="output" tabIndex={0}>{ansi(item.result).map((r) => (r.cls ? <span class={r.cls}>{r.text}</span> : r.text))}</pre>
        </div>
      )}
    </>
  );
}

function pretty(args: string): string {
  try {
    const o: unknown = JSON.parse(args);
    if (typeof o === "object" && o !== null && !Array.isArray(o)) {
      return Object.entries(o).map(([k, v]) => `${k}: ${typeof v === "string" ? v : JSON.stringify(v)}`).map(visibleLines).join("\n");
    }
  } catch {
    // cut, or no JSON
  }
  return visibleLines(args);
}

const visibleLines = (s: string) => s.split("\n").map(visible).join("\n");
