// What the state of the page consists of. Other files of this folder change it.
import { signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { Outbox } from "../wire/outbox";
import type { Link, Socket } from "../wire/socket";
import type { Failure, Gateway, Session } from "../wire/types";
import { emptyThread } from "./items";
import type { Thread } from "./items";
import { Drafts, uuid } from "./local";

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
/** keyOf is the conversation of a chat; @ begins those of other channels, which are watched. */
export const keyOf = (chat: string) => (chat.startsWith("@") ? chat.slice(1) : prefix + chat);
/** chatOf is undefined for a conversation of another channel, which is read-only here. */
export const chatOf = (key: string) => (key.startsWith(prefix) ? key.slice(prefix.length) : undefined);

export const wireId = (key: string) => chatOf(key) ?? "@" + key;
const temporaryPrefix = prefix + "temp-";
export const isTemporary = (key: string) => key.startsWith(temporaryPrefix);
/** temporaries are the chats that are not stored, and end when this page is away. */
export const temporaries = signal<string[]>([]);
/** asking is how many questions are open in the conversations that were opened. */
export const asking = signal(0);

/** fresh is the conversation of a page without a route; it gets one with its
 *  first message. */
export const fresh = signal(keyOf(uuid()));

let skew = 0; // of this device's clock
export const setClock = (server: string) => (skew = (Date.parse(server) || Date.now()) - Date.now());
/** serverNow is the time as the gateway has it. */
export const serverNow = () => Date.now() + skew;

export const threads = new Map<string, Signal<Thread>>();

export function thread(key: string): Signal<Thread> {
  let t = threads.get(key);
  if (!t) threads.set(key, (t = signal(emptyThread)));
  return t;
}

/** wired is what was made for the gateway that the page belongs to. */
export const wired: { socket?: Socket; outbox: Outbox } = { outbox: new Outbox(undefined, "") };
export let drafts = new Drafts(undefined, "");
export const setDrafts = (d: Drafts) => (drafts = d);

/** request changes something; docs/reference/web-clients.md lists the actions. */
export function request<T = unknown>(action: string, payload: unknown): Promise<T> {
  if (!wired.socket) return Promise.reject({ status: 0, code: "unreachable", message: "" } satisfies Failure);
  return wired.socket.request(action, payload) as Promise<T>;
}
