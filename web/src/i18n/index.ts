// The language of the pages.
import { computed, signal } from "@preact/signals";
import { applyLook, languageOf, readLook, writeLook } from "../state/look";
import type { Look } from "../state/look";
import type { Failure } from "../wire/types";
import { errors } from "./errors";
import { main } from "./main";

const all = { ...main, ...errors };
export type Key = keyof typeof all;
export const look = signal<Look>(readLook());
export const language = computed(() => languageOf(look.value));

export function setLook(change: Partial<Look>) {
  look.value = { ...look.peek(), ...change };
  writeLook(look.peek());
  applyLook(look.peek());
}

/** has says whether there is a text for a name that came over the wire. */
export const has = (key: string): key is Key => Object.hasOwn(all, key);

/** t is a text in the language of the page, with values in the place of {names}. */
export const t = texts<Key>(all);

type Values = Record<string, string | number>;

const fill = (text: string, values: Values) => text.replace(/\{(\w+)\}/g, (all, name: string) => (name in values ? String(values[name]) : all));

/** texts are those of one page, in English and Chinese; they are loaded with it. */
export function texts<K extends string>(all: Record<K, readonly [string, string]>) {
  return (key: K, values: Values = {}): string => fill(all[key][language.value === "zh" ? 1 : 0], values);
}

const locale = () => (language.value === "zh" ? "zh-CN" : undefined);

export const fullDate = (at: string) => new Date(at).toLocaleString(locale(), { dateStyle: "full", timeStyle: "short" });
export const shortTime = (at: string) => new Date(at).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit" });

/** count is a number as people read it: 950, 18.2k, 1.2M. */
export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 1_000_000) return trim(n / 1000) + "k";
  return trim(n / 1_000_000) + "M";
}

const trim = (n: number) => n.toFixed(1).replace(/\.0$/, "");

export const money = (usd: number) => "$" + (usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2));

/** refusalText is why a message was refused, in words if we know the reason. */
export function refusalText(why: string): string {
  const key = `value.refused.${why.replace(/^.*: /, "")}`;
  return has(key) ? t(key) : why;
}

/** failureText is an error in the language of the page, if it has a code we know. */
export function failureText(f: Failure): string {
  const key = `error.${f.code ?? ""}`;
  if (has(key)) return t(key, f.params);
  return f.message || t("error.status", { status: f.status });
}
