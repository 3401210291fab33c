// The state of the page, and what changes it.
import { batch, effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import * as api from "../wire/api";
import { Outbox } from "../wire/outbox";
import { Socket } from "../wire/socket";
import type { Link, Wire } from "../wire/socket";
import type { Event, Failure, Gateway, Session, SlashCommand } from "../wire/types";
import { emptyThread } from "./items";
import type { Thread } from "./items";
import { Drafts, nameOf, storage, uuid } from "./local";
import { withOlder, withPage, withSent } from "./page";
import { reduce } from "./reduce";
import { chatHref, go, route } from "./route";
import { connected, fail } from "./toast";

export const gateway = signal<Gateway | undefined>(undefined);
export const reachable = signal(true); // the first read of the state worked
export const link = signal<Link>({ state: "connecting" });
export const sessions = signal<Session[] | undefined>(undefined);
export const filter = signal("");
export const drawer = signal(false);
export const says = signal(""); // for screen readers
export const unsaved = signal(false); // the browser keeps nothing
export const newer = signal(false); // the gateway has another build of the page

const prefix = "websocket:";
export const keyOf = (chat: string) => prefix + chat;
/** chatOf is undefined for a conversation of another channel, which is read-only here. */
export const chatOf = (key: string) => (key.startsWith(prefix) ? key.slice(prefix.length) : undefined);

/** fresh is the conversation of a page without a route; it gets one with its
 *  first message. */
export const fresh = signal(keyOf(uuid()));

let skew = 0; // of this device's clock
/** serverNow is the time as the gateway has it. */
export const serverNow = () => Date.now() + skew;

const threads = new Map<string, Signal<Thread>>();
const reading = new Map<string, Promise<void>>();
const ends = new Map<string, number>(); // turns that ended, by conversation
let socket: Socket | undefined;
let outbox = new Outbox(undefined, "");
export let drafts = new Drafts(undefined, "");

export function thread(key: string): Signal<Thread> {
  let t = threads.get(key);
  if (!t) threads.set(key, (t = signal(emptyThread)));
  return t;
}

// ---- start and sign-in

/** start reads who we are and connects. */
export async function start() {
  api.onSignedOut(() => void signedOut());
  let state: Gateway;
  try {
    state = await api.readState();
    reachable.value = true;
  } catch {
    reachable.value = false;
    setTimeout(start, 3000);
    return;
  }
  const build = /\/assets\/([^/]+)\//.exec(import.meta.url)?.[1];
  skew = (Date.parse(state.time) || Date.now()) - Date.now();
  batch(() => {
    gateway.value = state;
    newer.value = build !== undefined && state.build !== "" && build !== state.build;
  });
  const store = storage();
  unsaved.value = store === undefined;
  outbox = new Outbox(store, nameOf(state.gateway, "outbox"));
  drafts = new Drafts(store, state.gateway);
  if (!state.signed_in) return;
  socket ??= new Socket(host(state.gateway), { event: enqueue, link: linked, ready: flush, seq: (chat) => threads.get(keyOf(chat))?.peek().seq });
  socket.connect();
  void refreshSessions();
}

// A device that comes back does not wait for the next attempt.
const wake = () => link.peek().state === "waiting" && retryNow();
addEventListener("online", wake);

function host(id: string) {
  const store = storage();
  const name = nameOf(id, "client");
  let client = "page-" + uuid();
  try {
    client = store?.getItem(name) ?? client;
    store?.setItem(name, client);
  } catch {
    // Full: this page has a name of its own.
  }
  return {
    open(): Wire {
      const at = new URL("webui/socket", document.baseURI);
      at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
      at.hash = "";
      at.searchParams.set("client_id", client);
      return new WebSocket(at) as unknown as Wire;
    },
    after(ms: number, f: () => void) {
      const timer = setTimeout(f, ms);
      return () => clearTimeout(timer);
    },
    random: Math.random,
    id: uuid,
  };
}

async function signedOut() {
  socket?.stop();
  socket = undefined;
  const g = gateway.peek();
  if (g) gateway.value = { ...g, signed_in: false, device: undefined };
}

export async function signOut() {
  try {
    await api.logout();
  } finally {
    await signedOut();
  }
}

export const retryNow = () => socket?.connect();

function linked(l: Link) {
  const before = link.peek();
  link.value = l;
  connected.value = l.state === "open";
  if (l.state === "signed-out") void signedOut();
  // A gateway that was restarted may have another build, and may not know us.
  if (l.state === "open" && before.state === "connecting") void recheck();
}

async function recheck() {
  try {
    const state = await api.readState();
    const build = /\/assets\/([^/]+)\//.exec(import.meta.url)?.[1];
    newer.value = build !== undefined && state.build !== "" && build !== state.build;
    if (!state.signed_in) void signedOut();
  } catch {
    // The socket is open: the next connection asks again.
  }
}

// ---- events, applied once per frame

const queue: Event[] = [];
let planned = false;

function enqueue(e: Event) {
  queue.push(e);
  if (planned) return;
  planned = true;
  if (document.hidden) setTimeout(apply, 50);
  else requestAnimationFrame(apply);
}

addEventListener("visibilitychange", () => {
  if (!document.hidden) wake();
  else if (planned) apply();
});

function apply() {
  planned = false;
  const events = queue.splice(0);
  batch(() => {
    const changed = new Map<string, Thread>();
    for (const e of events) {
      const key = e.chat_id === undefined ? undefined : keyOf(e.chat_id);
      if (key === undefined) continue;
      notice(key, e);
      changed.set(key, reduce(changed.get(key) ?? thread(key).peek(), e));
    }
    for (const [key, t] of changed) {
      thread(key).value = t;
      if (t.stale) void readNewest(key);
    }
  });
}

/** notice does what an event causes besides its conversation. */
function notice(key: string, e: Event) {
  switch (e.event) {
    case "message_accepted":
      if (e.turn_id) outbox.remove(e.turn_id);
      void refreshSessions();
      break;
    case "error":
      if (e.turn_id) outbox.fail(e.turn_id, [e.detail, e.reason].filter(Boolean).join(": "));
      break;
    case "turn_end":
      ends.set(key, (ends.get(key) ?? 0) + 1);
      void refreshSessions();
      break;
    case "session_updated":
      void refreshSessions();
  }
}

// ---- conversations

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
        sessions.value = (await api.readSessions(filter.peek())).sessions;
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
  if (chat !== undefined) {
    socket?.attach(chat);
    for (const m of outbox.of(chat)) t.value = withSent(t.peek(), m);
  }
  if (key === fresh.peek()) t.value = { ...t.peek(), loaded: true }; // nothing was said yet
  else if (!t.peek().loaded || chat === undefined) void readNewest(key);
}

function readNewest(key: string): Promise<void> {
  let p = reading.get(key);
  if (p) return p;
  p = (async () => {
    const t = thread(key);
    try {
      for (;;) {
        const n = ends.get(key);
        const page = await api.readThread(key);
        await caughtUp(t, page.seq);
        if (n !== ends.get(key)) continue; // a turn ended meanwhile: the page may lack it
        t.value = withPage(t.peek(), page);
        break;
      }
    } catch (e) {
      t.value = { ...t.peek(), loaded: true, stale: false };
      if (!(e instanceof api.Refused) || e.failure.status !== 404) fail(e); // 404: nothing was said yet
    } finally {
      reading.delete(key);
    }
  })();
  reading.set(key, p);
  return p;
}

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

export async function readOlder(key: string) {
  const t = thread(key);
  if (!t.peek().more || reading.has(key)) return;
  const p = (async () => {
    try {
      t.value = withOlder(t.peek(), await api.readThread(key, t.peek().before));
    } catch (e) {
      t.value = { ...t.peek(), more: false };
      fail(e);
    } finally {
      reading.delete(key);
    }
  })();
  reading.set(key, p);
  await p;
}

export function newChat() {
  drawer.value = false;
  go("#/");
}

let known: Promise<SlashCommand[]> | undefined;

/** commands are the slash commands, read with the first slash. */
export function commands(): Promise<SlashCommand[]> {
  known ??= api.readCommands().then(
    (r) => r.commands,
    () => ((known = undefined), []),
  );
  return known;
}

// ---- what the person does

export function send(chat: string, text: string) {
  const m = { chat, turn: uuid(), text, at: new Date(serverNow()).toISOString() };
  outbox.add(m);
  if (keyOf(chat) === fresh.peek()) {
    go(chatHref(keyOf(chat)));
    fresh.value = keyOf(uuid());
  }
  const t = thread(keyOf(chat));
  t.value = withSent(t.peek(), m);
  socket?.attach(chat);
  transmit(m);
}

const transmit = (m: { chat: string; turn: string; text: string }) =>
  socket?.send({ type: "message", chat_id: m.chat, turn_id: m.turn, content: m.text }) ?? false;

/** flush sends what waits, in order. The gateway ignores what it has. */
function flush() {
  for (const m of outbox.unsent()) {
    socket?.attach(m.chat);
    transmit(m);
  }
}

export function resend(chat: string, turn: string) {
  outbox.retry(turn);
  const m = outbox.of(chat).find((x) => x.turn === turn);
  if (!m) return;
  const t = thread(keyOf(chat));
  t.value = withSent(t.peek(), m);
  transmit(m);
}

export function discard(chat: string, turn: string) {
  outbox.remove(turn);
  const t = thread(keyOf(chat));
  t.value = { ...t.peek(), items: t.peek().items.filter((i) => i.kind !== "user" || i.turn !== turn) };
}

export const stop = (chat: string) => send(chat, "/stop");

const answerFrame = (chat: string, question: string, option: string, remark: string) => ({
  type: "answer",
  chat_id: chat,
  question_id: question,
  option,
  ...(remark ? { remark } : {}),
});

/** answer replies to a question; it reports whether the answer went out. */
export function answer(chat: string, question: string, option: string, remark: string): boolean {
  const t = thread(keyOf(chat));
  const item = t.peek().items.find((i) => i.kind === "question" && i.id === question);
  if (item?.kind === "question" && item.code === undefined) send(chat, option); // an ordinary question
  else if (!socket?.send(answerFrame(chat, question, option, remark))) return false;
  const items = t.peek().items.map((i) => (i.kind === "question" && i.id === question ? { ...i, state: "sent" as const, option } : i));
  t.value = { ...t.peek(), items };
  return true;
}

export async function rename(key: string, title: string) {
  await request("session.rename", { key, title });
  await refreshSessions();
}

export async function remove(key: string, automations: boolean) {
  await request("session.delete", { key, delete_automations: automations });
  threads.delete(key);
  const r = route.peek();
  if (r.page === "chat" && r.key === key) go("#/");
  await refreshSessions();
}

function request(action: string, payload: unknown): Promise<unknown> {
  if (!socket) return Promise.reject({ status: 0, code: "unreachable", message: "" } satisfies Failure);
  return socket.request(action, payload);
}
