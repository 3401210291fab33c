// The state of the page: how it starts, and how events change it.
import { batch } from "@preact/signals";
import * as api from "../wire/api";
import { Outbox } from "../wire/outbox";
import { Socket } from "../wire/socket";
import type { Link, Wire } from "../wire/socket";
import type { Event, Gateway } from "../wire/types";
import {
  asking,
  chatOf,
  gateway,
  keyOf,
  link,
  newer,
  reachable,
  setClock,
  setDrafts,
  temporaries,
  thread,
  threads,
  unsaved,
  wired,
} from "./base";
import { ended, over, readAgain, readMissed, readNewest, readSidebar, refreshSessions, setSidebar } from "./chats";
import type { Thread } from "./items";
import { Drafts, nameOf, storage, uuid } from "./local";
import { changedAll, onChange, told, topics } from "./read";
import { reduce } from "./reduce";
import { chatHref, go } from "./route";
import { flush, forked } from "./say";
import { connected } from "./toast";
import { heard } from "./voice";

export * from "./base";
export * from "./chats";
export * from "./say";

/** start reads who we are and connects. */
export async function start() {
  api.onSignedOut(() => void recheck()); // the answer to a request from before the sign-in may come after it
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
  const known = gateway.peek();
  setClock(state.time);
  batch(() => {
    gateway.value = state;
    newer.value = build !== undefined && state.build !== "" && build !== state.build;
  });
  const store = storage();
  unsaved.value = store === undefined;
  if (known?.gateway !== state.gateway) {
    // signed in again: what is only in memory stays
    const early = known ? [] : wired.outbox.unsent(); // written before the gateway was known
    wired.outbox = new Outbox(store, nameOf(state.gateway, "outbox"));
    for (const m of early) wired.outbox.add(m);
    setDrafts(new Drafts(store, state.gateway));
  }

  if (!state.signed_in) return;
  wired.socket ??= new Socket(host(state.gateway), {
    event: enqueue,
    link: linked,
    ready,
    seq: (chat) => threads.get(keyOf(chat))?.peek().seq,
  });

  wired.socket.connect();
  void refreshSessions();
}

// A device that comes back does not wait for the next attempt, and does not believe that it is still connected.
const wake = () => {
  if (link.peek().state === "waiting") retryNow();
  else if (wired.socket?.send({ type: "subscribe", topics })) wired.socket.prove();
};
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
  wired.socket?.stop();
  wired.socket = undefined;
  const g = gateway.peek();
  if (g) gateway.value = { ...g, signed_in: false, device: undefined };
}

/** signOut asks the gateway first: a page that only looks signed out would be worse. */
export async function signOut() {
  await api.logout();
  await signedOut();
}

export const retryNow = () => wired.socket?.connect();

function linked(l: Link) {
  const before = link.peek();
  link.value = l;
  connected.value = l.state === "open";
  if (l.state === "signed-out") void signedOut();
  // A gateway that was restarted may have another build, and may not know us.
  // A browser does not say why a connection was refused.
  if ((l.state === "open" || l.state === "waiting") && before.state === "connecting") void recheck();
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

/** begun shows a temporary chat. */
function begun(key: string, chat: string) {
  wired.socket?.attach(chat);
  temporaries.value = [key, ...temporaries.peek()];
  go(chatHref(key));
}

// ---- topics

let subscribed = false; // the gateway tells what changes
let events = 0; // of topics on this connection
let before = false; // there was a connection before this one

function ready() {
  subscribed = false;
  events = 0;
  wired.socket?.send({ type: "subscribe", topics });
  if (before) resync(); // whatever happened meanwhile
  readSidebar();
  readMissed();
  before = true;
  flush();
}

onChange("sessions", () => {
  void refreshSessions();
  // Other chats add to a conversation that several share.
  for (const key of api.kept.keys())
    if (wired.socket?.has(chatOf(key)!) && !thread(key).peek().running) void readAgain(key);
});

/** topical handles an event that belongs to no conversation. */
function topical(e: Event) {
  switch (e.event) {
    case "subscribed":
      subscribed = true;
      break;
    case "changed": {
      const topic = topics.find((x) => x === e.topic);
      const missed = e.n !== undefined && e.n !== ++events;
      events = e.n ?? events;
      if (missed) resync();
      else if (topic) told(topic, e.data);
      break;
    }
    case "resync":
      resync();
      break;
    case "sidebar_state_updated":
      setSidebar(e.state);
      break;
    case "transcription_result":
    case "transcription_error":
      heard(e);
  }
}

function resync() {
  changedAll();
  void refreshSessions();
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
      if (key === undefined) {
        topical(e);
        if (e.event === "runtime_model_updated")
          for (const [k, t] of threads) changed.set(k, reduce(changed.get(k) ?? t.peek(), e));
        continue;
      }

      if (e.event === "error" && !e.turn_id && temporaries.peek().includes(key)) {
        over(key); // this page was away for too long
        continue;
      }

      notice(key, e);
      const t = reduce(changed.get(key) ?? thread(key).peek(), e);
      changed.set(key, e.event === "turn_end" && chatOf(key) === undefined ? { ...t, stale: true } : t); // files are only in the stored one
    }

    for (const [key, t] of changed) {
      thread(key).value = t;
      if (t.stale) void readNewest(key);
    }

    let open = 0;
    for (const t of threads.values())
      for (const i of t.peek().items) if (i.kind === "question" && i.state === "open" && i.code !== undefined) open++;
    asking.value = open;
  });
}

/** notice does what an event causes besides its conversation. */
function notice(key: string, e: Event) {
  switch (e.event) {
    case "attached":
      if (e.temporary) begun(key, e.chat_id!);
      else if (!wired.socket?.has(e.chat_id!)) forked(e.chat_id!);
      if (e.session === undefined) api.kept.delete(key);
      else (api.kept.set(key, e.session), void readAgain(key));
      break;
    case "message_accepted":
      if (e.turn_id) wired.outbox.remove(e.turn_id);
      if (!subscribed) void refreshSessions();
      break;
    case "error":
      if (e.turn_id) wired.outbox.fail(e.turn_id, [e.detail, e.reason].filter(Boolean).join(": "));
      break;
    case "turn_end":
      ended(key);
      if (!subscribed) void refreshSessions();
      break;
    case "session_updated":
      if (!subscribed) void refreshSessions();
  }
}
