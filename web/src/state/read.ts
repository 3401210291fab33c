// What a page reads from the gateway, and reads again when it changed.
import { signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Refused, read } from "../wire/api";
import type { Failure } from "../wire/types";

export const topics = [
  "sessions",
  "questions",
  "automations",
  "channels",
  "pairing",
  "mcp",
  "memory",
  "settings",
  "budget",
  "log",
  "doctor",
  "devices",
] as const;
export type Topic = (typeof topics)[number];

const versions = new Map<Topic, Signal<number>>();

export function version(topic: Topic): Signal<number> {
  let v = versions.get(topic);
  if (!v) versions.set(topic, (v = signal(0)));
  return v;
}

/** changed says that something of a topic is not what it was. */
export const changed = (topic: Topic) => void version(topic).value++;
export const changedAll = () => topics.forEach(changed);

const listeners = new Map<Topic, Set<(data: unknown) => void>>();

/** onChange calls f with the data of every event of a topic; it returns what ends that. */
export function onChange(topic: Topic, f: (data: unknown) => void): () => void {
  const all = listeners.get(topic) ?? new Set();
  listeners.set(topic, all.add(f));
  return () => void all.delete(f);
}

/** told is an event of a topic. With data it is for those who listen; without, everything is read again. */
export function told(topic: Topic, data: unknown) {
  if (data === undefined) changed(topic);
  for (const f of listeners.get(topic) ?? []) f(data);
}

export interface Reading<T> {
  data?: T;
  failure?: Failure;
  reload(): void;
}

/** useRead reads a path below api/, and again after a change of the topic. The
 *  previous answer stays until the next one is there. */
export function useRead<T>(
  path: string | undefined,
  query: Record<string, string | number | undefined> = {},
  topic?: Topic,
): Reading<T> {
  const [state, setState] = useState<{ of?: string; data?: T; failure?: Failure }>({});
  const [again, setAgain] = useState(0);
  const of = path === undefined ? undefined : path + JSON.stringify(query);
  const n = topic ? version(topic).value : 0;
  useEffect(() => {
    if (path === undefined) return;
    let left = false;
    read<T>(path, query).then(
      (data) => left || setState({ of, data }),
      (e) =>
        left ||
        setState((s) => ({
          of,
          data: s.of === of ? s.data : undefined,
          failure: e instanceof Refused ? e.failure : { status: 0, message: String(e) },
        })),
    );

    return () => {
      left = true;
    };
  }, [of, n, again]);

  return {
    data: state.of === of ? state.data : undefined,
    failure: state.of === of ? state.failure : undefined,
    reload: () => setAgain((x) => x + 1),
  };
}
