// Calls in a row that only look at something are shown as one line.
import type { GroupItem, Item, ToolItem } from "./items";

const looks = new Set(["read_file", "list_dir", "glob", "grep", "web_search", "web_fetch"]);

const cache = new WeakMap<readonly Item[], readonly Item[]>();
let last = new Map<string, GroupItem>();

const same = (a: readonly unknown[], b: readonly unknown[]) => a.length === b.length && a.every((x, i) => x === b[i]);

/** grouped is the list as it is shown. Groups that did not change are the same
 *  objects as before, so that they are not rendered again. */
export function grouped(items: readonly Item[]): readonly Item[] {
  const done = cache.get(items);
  if (done) return done;
  const out: Item[] = [];
  const groups = new Map<string, GroupItem>();
  for (let n = 0; n < items.length;) {
    const tools: ToolItem[] = [];
    for (
      let i = items[n];
      i?.kind === "tool" &&
      i.phase !== "writing" &&
      looks.has(i.name) &&
      (tools[0] === undefined || i.turn === tools[0].turn);
      i = items[n + tools.length]
    )
      tools.push(i);

    if (tools.length < 2) {
      out.push(items[n]!);
      n++;
      continue;
    }

    const id = "group:" + tools[0]!.id;
    const before = last.get(id);
    const group = before && same(before.tools, tools) ? before : { kind: "group" as const, id, tools };
    groups.set(id, group);
    out.push(group);
    n += tools.length;
  }

  last = groups;
  cache.set(items, out);
  return out;
}

/** counts says how many things of each kind a group looked at. */
export function counts(
  tools: readonly ToolItem[],
): { kind: "searched" | "listed" | "read" | "web" | "fetched"; n: number }[] {
  const kinds = {
    grep: "searched",
    glob: "searched",
    list_dir: "listed",
    read_file: "read",
    web_search: "web",
    web_fetch: "fetched",
  } as const;

  const seen = new Map<(typeof kinds)[keyof typeof kinds], Set<string>>();
  for (const t of tools) {
    const kind = kinds[t.name as keyof typeof kinds];
    const of = seen.get(kind) ?? new Set();
    seen.set(kind, of.add(target(t)));
  }
  return [...seen].map(([kind, of]) => ({ kind, n: of.size }));
}

/** target is what a call is about: the same file twice is one file. */
function target(t: ToolItem): string {
  try {
    const a = JSON.parse(t.args) as Record<string, unknown>;
    return String(a.path ?? a.url ?? a.query ?? ".");
  } catch {
    return t.args;
  }
}
