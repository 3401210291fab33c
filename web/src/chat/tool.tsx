// A call of a tool: one line that says in words what was done, and the details.
import { useEffect, useRef, useState } from "preact/hooks";
import { has, t } from "../i18n";
import { t as tt } from "../i18n/tools";
import { counts } from "../state/group";
import { works } from "../state/items";
import type { GroupItem, ToolItem } from "../state/items";
import { showFile } from "../state/panel";
import { ansi } from "../text/ansi";
import { visible } from "../text/links";
import { Text } from "../text/markdown";
import { Icon } from "../ui/icon";
import { Diff } from "./diff";

/** subject is the argument that says most, on one line. */
export function subject(args: string): string {
  const o = argsOf(args);
  if (!o) return oneLine(args);
  for (const name of [
    "command",
    "path",
    "file_path",
    "url",
    "query",
    "pattern",
    "name",
    "content",
    "task",
    "message",
  ]) {
    if (typeof o[name] === "string") return oneLine(o[name]);
  }

  const first = Object.values(o).find((v) => typeof v === "string");
  return oneLine(typeof first === "string" ? first : Object.keys(o).length ? args : "");
}

const oneLine = (s: string) => visible(s.slice(0, 300).replace(/\s+/g, " ").trim());

function argsOf(args: string): Record<string, unknown> | undefined {
  try {
    const a: unknown = JSON.parse(args);
    return typeof a === "object" && a !== null && !Array.isArray(a) ? (a as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // cut, or no JSON
  }
}

const acts = [
  "read_file",
  "write_file",
  "edit_file",
  "list_dir",
  "apply_patch",
  "glob",
  "grep",
  "exec",
  "web_search",
  "web_fetch",
  "spawn",
] as const;
const orders = [...acts, "message"] as const;

/** Standing is how far a call has come, for the person who reads along. */
type Standing = "working" | "waiting" | "done" | "failed" | "denied" | "lost";

function standing(item: ToolItem, waiting: boolean): Standing {
  switch (item.phase) {
    case "writing":
    case "running":
      return waiting ? "waiting" : "working";
    case "error":
      return "failed";
    case "done":
      return exitCode(item) === 0 ? "done" : "failed";
    default:
      return item.phase;
  }
}

/** exitCode is that of a command which is over; other calls have none, and count as 0. */
function exitCode(item: ToolItem): number {
  if (item.name !== "exec") return 0;
  const said = item.result?.slice(-400).match(/(?:^|\n)Exit code: (-?\d+)(?=\s|$)/g);
  return Number(said?.[said.length - 1]?.replace(/^\s*Exit code: /, "") ?? 0);
}

/** words say what a call did, does, or was to do. */
export function words(name: string, how: Standing): string {
  switch (how) {
    case "done": {
      const known = "tool." + name;
      return has(known) ? t(known) : t("tool.other", { name: visible(name) });
    }
    case "working": {
      const doing = acts.find((x) => x === name);
      return doing ? tt(`value.doing.${doing}`) : tt("value.doing.other", { name: visible(name) });
    }
    default: {
      const order = orders.find((x) => x === name);
      return order ? tt(`value.order.${order}`) : tt("value.order.other", { name: visible(name) });
    }
  }
}

/** seconds is how long something took, if that is worth saying. */
const seconds = (ms: number) => (ms < 50 ? "" : t("end.seconds", { n: (ms / 1000).toFixed(1) }));

export function Tool({ item, waiting = false }: { item: ToolItem; waiting?: boolean }) {
  const [chosen, setOpen] = useState<boolean | undefined>(undefined);
  const running = item.phase === "running" || item.phase === "writing";
  const how = standing(item, waiting);
  const open = chosen ?? (running && item.output !== undefined); // what runs shows its output
  const changed = item.edits?.reduce((n, e) => [n[0]! + (e.added ?? 0), n[1]! + (e.deleted ?? 0)], [0, 0]);

  return (
    <details class="tool" open={open} onToggle={(e) => e.currentTarget.open !== open && setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" class="chevron" />
        <span class="what">{words(item.name, how)}</span>
        <code>{subject(item.args)}</code>
        {item.untrusted && <span class="mark">{t("tool.untrusted")}</span>}
        {changed && (
          <span class="numbers">
            <span class="add">+{changed[0]}</span> <span class="del">−{changed[1]}</span>
          </span>
        )}
        <span class={how === "failed" || how === "denied" ? "time bad" : "time"}>{state(item, how)}</span>
      </summary>
      {open && <Details item={item} />}
    </details>
  );
}

function state(item: ToolItem, how: Standing) {
  switch (how) {
    case "working":
      return item.phase === "writing" ? t("tool.writing") : <Elapsed />;
    case "waiting":
      return tt("tools.waiting");
    case "failed":
      return item.phase === "done" ? tt("tools.exit", { n: exitCode(item) }) : t("tool.failed");
    case "denied":
      return tt("tools.denied");
    case "lost":
      return t("tool.lost");
    case "done":
      if (item.answer !== undefined) return tt("tools.finished");
      return works(item) ? tt("tools.works") : seconds(item.ms ?? 0);
  }
}

/** Elapsed counts the seconds since the call was first seen to run. */
function Elapsed() {
  const [n, setN] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setN((x) => x + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return <>{n < 2 ? "" : t("end.seconds", { n })}</>;
}

/** Group is several calls in one line. */
export function Group({ item }: { item: GroupItem }) {
  const [open, setOpen] = useState(false);
  const running = item.tools.some((x) => x.phase === "running");
  const [failed, denied] = (["error", "denied"] as const).map(
    (p) => item.tools.filter((x) => x.phase === p).length,
  ) as [number, number];
  const said = counts(item.tools)
    .map(({ kind, n }) => (n === 1 ? tt(`value.group.${kind}.one`) : tt(`value.group.${kind}`, { n })))
    .join(tt("tools.and"));
  const ms = item.tools.reduce((sum, x) => sum + (x.ms ?? 0), 0);

  return (
    <details class="tool" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Icon name="chevron" class="chevron" />
        <span class="what flex">{said.slice(0, 1).toUpperCase() + said.slice(1)}</span>
        {item.tools.some((x) => x.untrusted) && <span class="mark">{t("tool.untrusted")}</span>}
        {failed > 0 && <span class="bad">{tt("tools.failed", { n: failed })}</span>}
        {denied > 0 && <span class="bad">{tt("tools.denied.n", { n: denied })}</span>}
        <span class="time">{running ? <Elapsed /> : seconds(ms)}</span>
      </summary>
      {open && (
        <div class="inside">
          {item.tools.map((x) => (
            <Tool key={x.id} item={x} />
          ))}
        </div>
      )}
    </details>
  );
}

const runs = (text: string) => ansi(text).map((r) => (r.cls ? <span class={r.cls}>{r.text}</span> : r.text));

function Details({ item }: { item: ToolItem }) {
  const args = argsOf(item.args);
  const path = args?.path ?? args?.file_path;
  const command = item.name === "exec" && typeof args?.command === "string" ? args.command : undefined;
  const rest =
    command === undefined
      ? pretty(item.args, args)
      : pretty("", args && Object.fromEntries(Object.entries(args).filter(([k]) => k !== "command")));
  return (
    <>
      {command !== undefined && (
        <pre class="output part" tabIndex={0}>
          {lines(command)}
        </pre>
      )}
      {rest !== "" && !item.edits && (
        <div class="part">
          <h4>{t("tool.arguments")}</h4>
          <pre class="output" tabIndex={0}>
            {rest}
          </pre>
        </div>
      )}
      {item.edits?.map((e) => (
        <Diff path={e.path} added={e.added} deleted={e.deleted} diff={e.diff} />
      ))}
      {typeof path === "string" && /file|patch/.test(item.name) && (
        <p class="part">
          <button type="button" class="button" onClick={() => showFile(path)}>
            {tt("tools.open")}
          </button>
        </p>
      )}
      {(item.result === undefined || works(item)) && item.output !== undefined && (
        <Output text={item.output} steps={works(item)} />
      )}
      {item.result !== undefined && item.answer === undefined && !(item.edits && item.phase === "done") && (
        <div class={item.untrusted ? "part outside" : "part"}>
          <h4>{item.untrusted ? t("tool.untrusted") : t("tool.result")}</h4>
          <pre class="output" tabIndex={0}>
            {runs(item.result)}
          </pre>
        </div>
      )}
      {item.answer !== undefined && (
        <div class="part outside">
          <h4>{tt("value.note.subagent_result")}</h4>
          <Text text={item.answer} open={false} />
        </div>
      )}
    </>
  );
}

/** Output is what a command prints while it runs; its end stays in view. */
function Output({ text, steps }: { text: string; steps: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const away = useRef(false);
  useEffect(() => {
    if (!away.current && box.current) box.current.scrollTop = 1e9;
  }, [text]);
  const scrolled = (e: Event) => {
    const b = e.currentTarget as HTMLElement;
    away.current = b.scrollHeight - b.scrollTop - b.clientHeight > 24;
  };

  return (
    <div class="part">
      <h4>{steps ? tt("tools.steps") : tt("tools.output")}</h4>
      <pre ref={box} class="output" tabIndex={0} onScroll={scrolled}>
        {runs(text)}
      </pre>
    </div>
  );
}

/** pretty is the arguments, one a line. */
export function pretty(text: string, args: Record<string, unknown> | undefined): string {
  if (!args) return lines(text);
  return Object.entries(args)
    .map(([k, v]) => `${k}: ${typeof v === "string" ? v : JSON.stringify(v)}`)
    .map(lines)
    .join("\n");
}

export const lines = (s: string) => s.split("\n").map(visible).join("\n");
