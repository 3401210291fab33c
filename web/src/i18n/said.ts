// What the program itself says in English, in Chinese: descriptions of settings,
// findings of the doctor, what is wrong with a configuration. The table is loaded
// with the first such sentence; a test compares it with the program.
import { signal } from "@preact/signals";
import { language } from ".";

/** Table goes from English to Chinese; {1} stands for the first value of a sentence. */
type Table = Record<string, string>;

export interface Sentences {
  whole: Table;
  patterns: { parts: string[]; to: string }[]; // those with values
}

const known = signal<Sentences | undefined>(undefined);
let asked = false;

function load() {
  if (asked) return;
  asked = true;
  import("../../../internal/base/phrase/zh.json").then(
    (m) => (known.value = sentences(m.default)),
    () => (asked = false), // the next sentence tries again
  );
}

/** sentences sorts those with values, the most telling first. */
export function sentences(whole: Table): Sentences {
  const patterns = Object.entries(whole)
    .filter(([english]) => english.includes("{1}"))
    .sort(([a], [b]) => b.length - a.length)
    .map(([english, to]) => ({ parts: english.split(/\{\d\}/), to }));
  return { whole, patterns };
}

/** valuesOf are what stands between the parts of a sentence, if the text has them all. */
function valuesOf(parts: string[], text: string): string[] | undefined {
  const first = parts[0]!;
  const last = parts.at(-1)!;
  const end = text.length - last.length;
  if (!text.startsWith(first) || !text.endsWith(last)) return undefined;
  const values: string[] = [];
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const next = text.indexOf(part, at);
    if (next < 0) return undefined;
    values.push(text.slice(at, next));
    at = next + part.length;
  }
  return at > end ? undefined : [...values, text.slice(at, end)];
}

/** translate finds a sentence, those in its values, and those of a list. */
export function translate(s: Sentences, text: string, depth = 4): string {
  if (Object.hasOwn(s.whole, text)) return s.whole[text]!;
  if (depth === 0 || text.length > 4000) return text;
  for (const p of s.patterns) {
    const values = valuesOf(p.parts, text);
    if (values) return p.to.replace(/\{(\d)\}/g, (_, n: string) => translate(s, values[Number(n) - 1] ?? "", depth - 1));
  }

  for (const [sign, to] of [["; ", "；"], [": ", "："]] as const) {
    const parts = text.split(sign);
    const out = parts.length > 1 ? parts.map((p) => translate(s, p, depth - 1)) : parts;
    if (out.some((p, i) => p !== parts[i])) return out.join(to);
  }
  return text;
}

/** said is a sentence of the program in the language of the page, as far as it is known. */
export function said(text: string): string {
  if (language.value !== "zh") return text;
  if (!known.value) load();
  return known.value ? translate(known.value, text) : text;
}

/** saidName is the label of a setting. */
export function saidName(name: string, english: string): string {
  const key = "@" + name;
  const label = said(key);
  return label === key ? english : label;
}
