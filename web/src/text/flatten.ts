// Nested tokens of the highlighter as a flat list of few kinds.

export type PrismToken = string | { type: string; content: PrismToken | PrismToken[] };

const kinds: Record<string, string> = {
  comment: "comment",
  prolog: "comment",
  doctype: "comment",
  cdata: "comment",
  string: "string",
  char: "string",
  "attr-value": "string",
  regex: "string",
  "template-string": "string",
  inserted: "string",
  "inserted-sign": "string",
  keyword: "keyword",
  boolean: "keyword",
  important: "keyword",
  atrule: "keyword",
  builtin: "keyword",
  null: "keyword",
  number: "number",
  constant: "number",
  symbol: "number",
  entity: "number",
  function: "name",
  "class-name": "name",
  tag: "name",
  "attr-name": "name",
  property: "name",
  selector: "name",
  key: "name",
  table: "name",
  deleted: "gone",
  "deleted-sign": "gone",
};

export function flatten(tokens: PrismToken[]): [string, string][] {
  const out: [string, string][] = [];
  const put = (kind: string, text: string) => {
    const last = out[out.length - 1];
    if (last && last[0] === kind) last[1] += text;
    else if (text !== "") out.push([kind, text]);
  };

  const walk = (t: PrismToken | PrismToken[], kind: string) => {
    if (typeof t === "string") put(kind, t);
    else if (Array.isArray(t)) for (const c of t) walk(c, kind);
    else walk(t.content, Object.hasOwn(kinds, t.type) ? kinds[t.type]! : kind);
  };

  walk(tokens, "");
  return out;
}
