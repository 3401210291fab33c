// Formulas in a text: which parts of it are formulas, and how one comes on the
// screen. The library that draws them is loaded with the first one.
import type { ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface Formula {
  type: "math";
  raw: string;
  text: string;
  display: boolean;
}

const longest = 10 << 10;
const slice = 8; // milliseconds of drawing in one task
const kept = 500; // drawn formulas

const forms: [open: string, close: string, display: boolean][] = [
  ["$$", "$$", true],
  ["\\[", "\\]", true],
  ["\\(", "\\)", false],
  ["$", "$", false],
];

/** formula is the one that a text begins with. Single dollars next to a space or
 *  before a letter or digit are prices and variables. */
export function formula(src: string): Formula | undefined {
  const form = src[0] === "$" || src[0] === "\\" ? forms.find(([open]) => src.startsWith(open)) : undefined;
  if (!form) return undefined;
  const [open, close, display] = form;
  const part = src.slice(0, longest);
  let end = part.indexOf(close, open.length);
  while (end >= 0 && /\\*$/.exec(part.slice(Math.max(0, end - 64), end))![0].length % 2 === 1)
    end = part.indexOf(close, end + 1);
  const text = part.slice(open.length, end);
  if (end < 0 || text.trim() === "" || /\n[ \t]*\n/.test(text) || (!display && text.includes("`"))) return undefined;
  if (open === "$" && (/^\s|\s$|\n/.test(text) || /\w/.test(part[end + 1] ?? ""))) return undefined;
  return { type: "math", raw: part.slice(0, end + close.length), text, display };
}

function block(src: string): Formula | undefined {
  const lead = /^ {0,3}(?=\$\$|\\\[)/.exec(src)?.[0];
  const found = lead === undefined ? undefined : formula(src.slice(lead.length));
  const rest = found && /^[ \t]*(?:\n|$)/.exec(src.slice(lead!.length + found.raw.length));
  return rest ? { ...found!, raw: lead + found!.raw + rest[0] } : undefined;
}

// A paragraph ends where a formula begins; one that is still open does not end it.
function startBlock(src: string): number | undefined {
  const end = src.indexOf("\n\n");
  const part = end < 0 ? src : src.slice(0, end + 1);
  for (const m of part.matchAll(/\n(?= {0,3}(?:\$\$|\\\[))/g)) if (block(part.slice(m.index + 1))) return m.index + 1;
  return undefined;
}

/** formulas are what the lexer of Markdown has to know. */
export const formulas = {
  block: [block],
  startBlock: [startBlock],
  inline: [formula],
  startInline: [(src: string) => src.search(/(?<![\w\\])\$(?!\s)/)],
  renderers: {},
  childTokens: {},
};

const drawn = new Map<string, ComponentChild>(); // null: it stays text
const waiting = new Set<() => void>();
let busy = false;
let draw: typeof import("./math").draw;

function run() {
  const until = performance.now() + slice;
  for (const job of waiting) {
    waiting.delete(job);
    job();
    if (performance.now() > until) break;
  }
  busy = waiting.size > 0;
  if (busy) setTimeout(run);
}

function enqueue(job: () => void) {
  waiting.add(job);
  if (busy) return;
  busy = true;
  // After a failure the next formula tries again.
  import("./math").then(
    (m) => ((draw = m.draw), setTimeout(run)),
    () => ((busy = false), waiting.clear()),
  );
}

export function MathView({ of }: { of: Formula }) {
  const { text, display } = of;
  const id = (display ? "$" : "") + text;
  const [state, set] = useState<{ id: string; made: ComponentChild }>();
  useEffect(() => {
    if (drawn.has(id)) return;
    const job = () => {
      if (!drawn.has(id)) drawn.set(id, draw(text, display));
      set({ id, made: drawn.get(id) });
      if (drawn.size > kept) drawn.delete(drawn.keys().next().value!);
    };
    enqueue(job);
    return () => void waiting.delete(job);
  }, [id]);

  const made = state?.id === id ? state.made : drawn.get(id);
  if (!made) return <code class={display ? "tex block" : "tex"}>{of.raw.trim()}</code>;

  return display ? (
    <span class="formula block" tabIndex={0}>
      {made}
    </span>
  ) : (
    <span class="formula">{made}</span>
  );
}
