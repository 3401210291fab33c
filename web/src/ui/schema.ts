// JSON Schemas and values of settings.
import { visible } from "../text/links";

export interface Schema {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  minimum?: number;
  maximum?: number;
  writeOnly?: boolean;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
}

export type Values = Record<string, unknown>;

/** hidden is what the gateway sends instead of a secret. */
export const hidden = "***";

export const isObject = (v: unknown): v is Values => typeof v === "object" && v !== null && !Array.isArray(v);

/** typeOf is the type of a schema besides null. */
export function typeOf(s: Schema): string {
  const types = Array.isArray(s.type) ? s.type : [s.type];
  return types.find((x) => x !== "null") ?? "";
}

/** labelOf makes words of a name: groupAllowFrom is Group allow from. */
export function labelOf(name: string): string {
  const words = visible(name)
    .replace(/_/g, " ")
    .replace(/([a-z0-9])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** patchOf is the merge patch that makes after of before; undefined if they are equal. */
export function patchOf(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after))
    return JSON.stringify(before) === JSON.stringify(after) ? undefined : (after ?? null);
  const out: Values = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const change =
      after[name] === undefined ? (before[name] === undefined ? undefined : null) : patchOf(before[name], after[name]);
    if (change !== undefined) out[name] = change;
  }
  return Object.keys(out).length > 0 ? out : undefined;
}
