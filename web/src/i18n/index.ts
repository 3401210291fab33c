// The language of the pages.
import { computed, signal } from "@preact/signals";
import { applyLook, languageOf, readLook, writeLook } from "../state/look";
import type { Look } from "../state/look";
import type { Failure } from "../wire/types";
import { en } from "./en";
import type { Key } from "./en";
import { zh } from "./zh";

export type { Key };
export const look = signal<Look>(readLook());
export const language = computed(() => languageOf(look.value));

export function setLook(change: Partial<Look>) {
  look.value = { ...look.peek(), ...change };
  writeLook(look.peek());
  applyLook(look.peek());
}

/** t is a text in the language of the page, with values in the place of {names}. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  const text: string = (language.value === "zh" ? zh : en)[key];
  return text.replace(/\{(\w+)\}/g, (all, name: string) => (name in values ? String(values[name]) : all));
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

/** failureText is an error in the language of the page, if it has a code we know. */
export function failureText(f: Failure): string {
  const key = `error.${f.code ?? ""}`;
  if (key in en) return t(key as Key, f.params);
  return f.message || t("error.status", { status: f.status });
}
