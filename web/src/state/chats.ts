// Conversations: the list, and what is read of each.
import { effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { language } from "../i18n";
import * as api from "../wire/api";
import type { SlashCommand, ThreadPage } from "../wire/types";
import {
  chatOf,
  drawer,
  filter,
  fresh,
  isTemporary,
  request,
  sessions,
  temporaries,
  thread,
  threads,
  wireId,
  wired,
} from "./base";
import { emptyThread } from "./items";
import type { Thread } from "./items";
import { itemsOf, withNewer, withOlder, withPage, withSent } from "./page";
import { go, route } from "./route";
import { fail } from "./toast";

const reading = new Map<string, Promise<void>>();
const ends = new Map<string, number>(); // turns that ended, by conversation
const missed = new Set<string>(); // conversations whose newest page could not be read

/** readMissed reads again what could not be read. */
export const readMissed = () => missed.forEach((key) => void readNewest(key));

/** ended notes that a turn of a conversation is over. */
export const ended = (key: string) => void ends.set(key, (ends.get(key) ?? 0) + 1);

const step = 300;
let limit = step;
/** unlisted is how many conversations are not in the list. */
export const unlisted = signal(0);

export function listMore() {
  limit += step;
  void refreshSessions();
}

let refreshing: Promise<void> | undefined;
let again = false;

/** refreshSessions reads the list; requests while it is read become one. */
export function refreshSessions(): Promise<void> {
  if (refreshing) {
    again = true;
    return refreshing;
  }

  refreshing = (async () => {
    try {
      do {
        again = false;
        const list = await api.readSessions(filter.peek(), limit);
        sessions.value = list.sessions;
        unlisted.value = list.total - list.sessions.length;
      } while (again);
    } catch (e) {
      sessions.value ??= [];
      fail(e);
    } finally {
      refreshing = undefined;
    }
  })();

  return refreshing;
}

/** open shows a conversation: it joins its events and reads its newest page. */
export function open(key: string) {
  const chat = chatOf(key);
  const t = thread(key);
  if (!isTemporary(key) || temporaries.peek().includes(key)) wired.socket?.attach(wireId(key));
  if (chat !== undefined) for (const m of wired.outbox.of(chat)) t.value = withSent(t.peek(), m);
  if (key === fresh.peek() || isTemporary(key))
    t.value = { ...t.peek(), loaded: true }; // nothing of it is stored
  else if (!t.peek().loaded) void readNewest(key);
}

/** partOf names the part of a conversation around a message. It is a thread of its
 *  own, without events. */
export const partOf = (key: string, at: number) => `${key}\n${at}`;

export async function openPart(key: string, at: number) {
  const t = thread(partOf(key, at));
  if (t.peek().loaded) return;
  try {
    const page = await api.readThread(key, { around: at });
    t.value = {
      ...emptyThread,
      items: itemsOf(page),
      more: page.has_more,
      before: page.before,
      newer: page.has_newer === true,
      after: page.after,
      loaded: true,
    };
  } catch (e) {
    fail(e); // it is read again when it is opened again
  }
}

export function readNewest(key: string): Promise<void> {
  let p = reading.get(key);
  if (p) return p;
  p = (async () => {
    const t = thread(key);
    missed.delete(key);
    try {
      for (;;) {
        const n = ends.get(key);
        const page = await api.readThread(key);
        const seq = api.kept.has(key) ? undefined : page.seq; // the numbers are those of another chat
        await caughtUp(t, seq);
        if (n !== ends.get(key)) continue; // a turn ended meanwhile: the page may lack it
        t.value = {
          ...withPage(t.peek(), page),
          missing: false,
          read: seq !== undefined && (t.peek().seq ?? 0) < seq ? seq : undefined,
        };

        break;
      }
    } catch (e) {
      const none = e instanceof api.Refused && e.failure.status === 404; // nothing was said yet
      if (!none) (missed.add(key), fail(e));
      t.value = { ...t.peek(), loaded: none || t.peek().loaded, missing: none, stale: false, frozen: undefined };
    } finally {
      reading.delete(key);
    }
  })();

  reading.set(key, p);
  return p;
}

/** readAgain reads the newest page, after one that is being read. */
export const readAgain = async (key: string) => (await reading.get(key), readNewest(key));

/** caughtUp waits until the events that a page contains have come, so that they
 *  are not shown twice; not for long, because the connection may be gone. */
function caughtUp(t: Signal<Thread>, seq: number | undefined): Promise<void> {
  return new Promise((done) => {
    let stop: (() => void) | undefined;
    const timer = setTimeout(() => finish(), 1000);
    const finish = () => {
      clearTimeout(timer);
      done();
      queueMicrotask(() => stop?.());
    };

    stop = effect(() => {
      const now = t.value.seq;
      if (seq === undefined || now === undefined || now >= seq) finish();
    });
  });
}

/** more reads a page beside what is shown of a conversation or of a part of it. */
async function more(id: string, where: api.Where, put: (t: Thread, page: ThreadPage) => Thread, give: Partial<Thread>) {
  if (reading.has(id)) return;
  const t = thread(id);
  const p = (async () => {
    try {
      t.value = put(t.peek(), await api.readThread(id.split("\n")[0]!, where));
    } catch (e) {
      t.value = { ...t.peek(), ...give };
      fail(e);
    } finally {
      reading.delete(id);
    }
  })();

  reading.set(id, p);
  await p;
}

export async function readOlder(id: string) {
  const t = thread(id).peek();
  if (t.more && t.before !== null) await more(id, { before: t.before }, withOlder, { more: false });
}

export async function readNewer(id: string) {
  const t = thread(id).peek();
  if (t.newer && t.after != null) await more(id, { after: t.after }, withNewer, { newer: false });
}

export function newChat() {
  drawer.value = false;
  go("#/");
}

const known = new Map<string, Promise<SlashCommand[]>>();

/** commands are the slash commands, read with the first slash. */
export function commands(): Promise<SlashCommand[]> {
  const to = language.value;
  const list =
    known.get(to) ??
    api.readCommands(to).then(
      (r) => r.commands,
      () => (known.delete(to), []),
    );

  known.set(to, list);
  return list;
}

export async function rename(key: string, title: string) {
  await request("session.rename", { key, title });
  await refreshSessions();
}

/** erase removes a conversation for good. */
export async function erase(key: string, automations: boolean) {
  await request("session.erase", { key, delete_automations: automations });
  gone(key);
  await refreshSessions();
}

/** seen says that the answers of a conversation were shown. */
export function seen(key: string) {
  sessions.value = sessions.peek()?.map((s) => (s.key === key ? { ...s, unread: undefined } : s));
  request("session.seen", { key }).catch(() => {}); // it is said again with the next answer
}

// ---- the list: pinned, archived, temporary

/** sidebar is what the pages keep about the list, the same on all devices. */
export const sidebar = signal<{ pinned?: string[] }>({});

export function setSidebar(state: unknown) {
  const pinned = (state as { pinned?: unknown } | undefined)?.pinned;
  sidebar.value = {
    ...(state as object),
    pinned: Array.isArray(pinned) ? pinned.filter((k) => typeof k === "string") : [],
  };
}

export const readSidebar = () => void api.read("webui/sidebar-state").then(setSidebar, () => {});

export function pin(key: string, on: boolean) {
  const before = sidebar.peek();
  const others = (before.pinned ?? []).filter((k) => k !== key);
  sidebar.value = { ...before, pinned: on ? [...others, key] : others };
  request("sidebar.update", { state: sidebar.peek() }).catch((e) => {
    sidebar.value = before;
    fail(e);
  });
}

export async function archive(key: string) {
  await request("session.archive", { key });
  gone(key);
  await refreshSessions();
}

function gone(key: string) {
  threads.delete(key);
  const r = route.peek();
  if (r.page === "chat" && r.key === key) go("#/");
}

export function newTemporary() {
  drawer.value = false;
  if (!wired.socket?.send({ type: "new_temporary_chat" })) fail({ status: 0, code: "unreachable", message: "" });
}

export function endTemporary(key: string) {
  wired.socket?.send({ type: "discard_temporary_chat", chat_id: chatOf(key) });
  over(key);
  gone(key);
}

/** over takes a temporary chat that has ended out of the list; what was said stays. */
export function over(key: string) {
  wired.socket?.leave(chatOf(key)!);
  temporaries.value = temporaries.peek().filter((k) => k !== key);
}
