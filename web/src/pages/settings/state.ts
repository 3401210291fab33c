// The settings as the pages show them: one entry per setting of the schema, with
// its value, where that comes from, and what was typed and not saved.
import { signal } from "@preact/signals";
import type { SettingsRead } from "../../wire/reads";

export interface SchemaNode {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  writeOnly?: boolean;
  deprecated?: boolean;
  properties?: Record<string, SchemaNode>;
  additionalProperties?: SchemaNode;
  items?: SchemaNode;
  "x-unit"?: string;
  "x-restart"?: boolean;
  "x-danger"?: boolean;
}

export type Kind = "text" | "secret" | "number" | "switch" | "choice" | "list" | "json";

export interface Setting {
  path: string;
  parts: string[];
  kind: Kind;
  schema: SchemaNode;
}

const typesOf = (s: SchemaNode) => (Array.isArray(s.type) ? s.type : s.type ? [s.type] : []);

function kindOf(s: SchemaNode): Kind {
  const types = typesOf(s);
  if (s.writeOnly) return "secret";
  if (s.enum) return "choice";
  if (types.includes("boolean")) return "switch";
  if (types.includes("integer") || types.includes("number")) return "number";
  if (types.includes("array") && typesOf(s.items ?? {}).includes("string") && !s.items?.writeOnly) return "list";
  if (types.includes("string") && !types.includes("object")) return "text";
  return "json";
}

/** escape makes one part of a path of a name that has dots. */
export const escape = (name: string) => name.replace(/[\\.[]/g, "\\$&");

/** flatten lists the settings of a schema; of open maps those of their entries. */
export function flatten(node: SchemaNode, config: unknown, parts: string[] = []): Setting[] {
  const known = Object.entries(node.properties ?? {}).filter(([name, s]) => !s.deprecated && name !== "$schema");
  const below =
    config && typeof config === "object" && !Array.isArray(config) ? (config as Record<string, unknown>) : {};
  const extra = node.additionalProperties?.properties
    ? Object.keys(below).filter((name) => !node.properties?.[name])
    : [];
  if (parts.length > 0 && known.length === 0 && extra.length === 0) {
    return node.additionalProperties?.properties
      ? []
      : [{ path: parts.map(escape).join("."), parts, kind: kindOf(node), schema: node }];
  }

  return [
    ...known.flatMap(([name, s]) => flatten(s, below[name], [...parts, name])),
    ...extra.flatMap((name) => flatten(node.additionalProperties!, below[name], [...parts, name])),
  ];
}

export function valueAt(config: unknown, parts: string[]): unknown {
  let at = config;
  for (const p of parts) at = at && typeof at === "object" ? (at as Record<string, unknown>)[p] : undefined;
  return at;
}

/** originOf is the source that decides a setting, if one sets it. */
export function originOf(read: SettingsRead, s: Setting) {
  const path = s.parts.join(".");
  return read.set.find((x) => x.path === path) ?? read.set.find((x) => x.path.startsWith(path + "."));
}

/** drafts are values that were typed and not saved, by path; null takes the
 *  setting out of the file. They stay while the tab is open. */
export const drafts = signal<ReadonlyMap<string, unknown>>(new Map());
/** base is the version of the file that the first of them is based on. */
export const base = signal("");
/** wrong are values that cannot be read, by path. */
export const wrong = signal<ReadonlyMap<string, string>>(new Map());

export function draft(path: string, value: unknown, version: string) {
  if (drafts.peek().size === 0) base.value = version;
  drafts.value = new Map(drafts.peek()).set(path, value);
  clearWrong([path]);
}

export function forget(paths: string[]) {
  const next = new Map(drafts.peek());
  for (const p of paths) next.delete(p);
  drafts.value = next;
  clearWrong(paths);
}

function clearWrong(paths: string[]) {
  if (!paths.some((p) => wrong.peek().has(p))) return;
  const next = new Map(wrong.peek());
  for (const p of paths) next.delete(p);
  wrong.value = next;
}

export const setWrong = (path: string, text: string) => (wrong.value = new Map(wrong.peek()).set(path, text));

/** shown is a value for people. */
export const shown = (v: unknown) =>
  v === null || v === undefined ? "" : typeof v === "string" ? v : JSON.stringify(v);
