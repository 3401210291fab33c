// The socket: it connects, comes back by itself, and continues every chat where
// it was. Everything it needs of the browser is handed in, so tests run without one.
import type { Event, Failure, Frame } from "./types";

export interface Wire {
  send(data: string): void;
  close(code?: number): void;
  onopen: (() => void) | null;
  onmessage: ((e: { data: unknown }) => void) | null;
  onclose: ((e: { code: number }) => void) | null;
}

export interface Host {
  open(): Wire;
  after(ms: number, f: () => void): () => void; // returns its cancellation
  random(): number;
  id(): string;
}

export type Link =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "waiting"; seconds: number; restarting: boolean }
  | { state: "signed-out" };

export interface Listener {
  event(e: Event): void; // of a chat, or of none
  link(l: Link): void;
  ready(): void; // connected, chats are attached: what waits may be sent
  /** seq is the number of the last event that was applied to a chat, if any. */
  seq(chat: string): number | undefined;
}

interface Waiting {
  frame: Frame;
  done(result: unknown): void;
  failed(f: Failure): void;
}

const texts = [
  "chat_id",
  "text",
  "id",
  "turn_id",
  "stream_id",
  "kind",
  "call_id",
  "name",
  "arguments",
  "question_id",
  "request_id",
  "status",
  "topic",
  "title",
  "model_name",
  "model_preset",
] as const;

/** sound reports whether something is an event whose members can be used. */
function sound(e: unknown): e is Event {
  if (typeof e !== "object" || e === null) return false;
  const o = e as Event;
  if (typeof o.event !== "string" || (o.seq !== undefined && !Number.isSafeInteger(o.seq))) return false;
  return texts.every((k) => o[k] === undefined || typeof o[k] === "string");
}

const slowest = 30_000;
const silence = 60_000; // without a reply to a request
const patience = 20_000; // for a sign of life

export class Socket {
  private wire: Wire | undefined;
  private ready = false;
  private attempt = 0;
  private restarting = false;
  private stopRetry: (() => void) | undefined;
  private stopProof: (() => void) | undefined;
  private readonly chats = new Set<string>();
  private readonly waiting = new Map<string, Waiting>();

  constructor(
    private readonly host: Host,
    private readonly to: Listener,
  ) {}

  connect() {
    this.stopRetry?.();
    this.stopRetry = undefined;
    if (this.wire) return;
    this.to.link({ state: "connecting" });
    let wire: Wire;
    try {
      wire = this.host.open();
    } catch {
      this.retry(0);
      return;
    }

    this.wire = wire;
    wire.onmessage = (e) => this.wire === wire && this.receive(e.data);
    wire.onclose = (e) => {
      if (this.wire !== wire) return;
      this.wire = undefined;
      this.ready = false;
      this.closed(e.code);
    };

    this.prove(); // a proxy may accept a connection and say nothing for minutes
  }

  /** stop ends the connection for good, until connect. */
  stop() {
    this.stopRetry?.();
    const wire = this.wire;
    this.wire = undefined;
    this.ready = false;
    wire?.close(1000);
  }

  /** attach joins a chat, now and after every new connection. */
  attach(chat: string) {
    if (this.chats.has(chat)) return;
    this.chats.add(chat);
    if (this.ready) this.join(chat);
  }

  /** leave forgets a chat that is over. */
  leave(chat: string) {
    this.chats.delete(chat);
  }

  has(chat: string): boolean {
    return this.chats.has(chat);
  }

  /** send reports whether the frame went out. */
  send(frame: Frame): boolean {
    if (!this.ready || !this.wire) return false;
    this.wire.send(JSON.stringify(frame));
    return true;
  }

  /** prove gives a connection up on which nothing comes although an answer is due: one
   *  that was lost without a word looks open for minutes. */
  prove() {
    const wire = this.wire;
    this.stopProof ??= wire && this.host.after(patience, () => (wire.close(), wire.onclose?.({ code: 1006 })));
  }

  /** request changes something. It is sent again after a lost connection; the
   *  gateway does it once, because the id stays the same. */
  request(action: string, payload: unknown): Promise<unknown> {
    const id = this.host.id();
    const frame: Frame = { type: "webui_request", request_id: id, action, payload };
    return new Promise((done, reject) => {
      const cancel = this.host.after(silence, () => {
        this.waiting.delete(id);
        reject({ status: 0, code: "unreachable", message: "" } satisfies Failure);
      });

      this.waiting.set(id, {
        frame,
        done: (r) => (cancel(), done(r)),
        failed: (f) => (cancel(), reject(f)),
      });

      this.send(frame);
    });
  }

  private join(chat: string) {
    const seq = this.to.seq(chat);
    if (chat.startsWith("@"))
      this.send({ type: "watch", key: chat.slice(1), ...(seq === undefined ? {} : { last_seq: seq }) });
    else if (seq === undefined) this.send({ type: "attach", chat_id: chat });
    else this.send({ type: "resume", chat_id: chat, last_seq: seq });
  }

  private receive(data: unknown) {
    this.stopProof = void this.stopProof?.();
    let e: Event;
    try {
      e = JSON.parse(String(data));
    } catch {
      return; // no event
    }

    if (!sound(e)) return;
    switch (e.event) {
      case "ready":
        this.ready = true;
        this.attempt = 0;
        this.restarting = false;
        this.to.link({ state: "open" });
        for (const chat of this.chats) this.join(chat);
        for (const w of this.waiting.values()) this.send(w.frame);
        this.to.ready();
        return;
      case "server_restarting":
        this.restarting = true;
        return;
      case "webui_response": {
        const w = this.waiting.get(e.request_id ?? "");
        if (!w) return;
        this.waiting.delete(e.request_id ?? "");
        if (e.error) w.failed(e.error as Failure);
        else w.done(e.result);
        return;
      }
    }

    this.to.event(e);
  }

  private closed(code: number) {
    this.stopProof = void this.stopProof?.();
    if (code === 4401) {
      this.to.link({ state: "signed-out" });
      return;
    }
    if (code === 1012) this.restarting = true;
    this.retry(code);
  }

  // retry waits 0.5 s after the first failure, twice as long after each, at most
  // 30 s, with a random part so that many pages do not come at once.
  private retry(code: number) {
    const base = code === 1013 || code === 1012 ? 500 : 500 * 2 ** this.attempt;
    const wait = Math.min(slowest, base) * (0.75 + this.host.random() / 2);
    this.attempt = Math.min(this.attempt + 1, 8);
    this.to.link({ state: "waiting", seconds: Math.ceil(wait / 1000), restarting: this.restarting });
    this.stopRetry = this.host.after(wait, () => {
      this.stopRetry = undefined;
      this.connect();
    });
  }
}
