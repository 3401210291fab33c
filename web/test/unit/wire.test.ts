import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../../src/wire/outbox";
import type { Store } from "../../src/wire/outbox";
import { Socket } from "../../src/wire/socket";
import type { Link, Wire } from "../../src/wire/socket";
import type { Event, Frame } from "../../src/wire/types";

class FakeWire implements Wire {
  sent: Frame[] = [];
  closedWith: number | undefined;
  onopen: (() => void) | null = null;
  onmessage: ((e: { data: unknown }) => void) | null = null;
  onclose: ((e: { code: number }) => void) | null = null;
  send(data: string) {
    this.sent.push(JSON.parse(data));
  }
  close(code?: number) {
    this.closedWith = code;
  }
  say(e: unknown) {
    this.onmessage?.({ data: typeof e === "string" ? e : JSON.stringify(e) });
  }
}

function rig() {
  const wires: FakeWire[] = [];
  const timers: { ms: number; f: () => void; off: boolean }[] = [];
  const links: Link[] = [];
  const events: Event[] = [];
  const seqs = new Map<string, number>();
  let ready = 0;
  let ids = 0;
  const socket = new Socket(
    {
      open: () => {
        const w = new FakeWire();
        wires.push(w);
        return w;
      },
      after: (ms, f) => {
        const timer = { ms, f, off: false };
        timers.push(timer);
        return () => (timer.off = true);
      },
      random: () => 0.5,
      id: () => `id${++ids}`,
    },
    { event: (e) => events.push(e), link: (l) => links.push(l), ready: () => ready++, seq: (c) => seqs.get(c) },
  );
  const retry = () => {
    const timer = timers.findLast((t) => !t.off && t.ms < 60_000)!;
    timer.off = true;
    timer.f();
  };
  return { socket, wires, timers, links, events, seqs, retry, ready: () => ready };
}

test("it attaches first and resumes with the last number", () => {
  const r = rig();
  r.socket.connect();
  r.socket.attach("c");
  assert.deepEqual(r.wires[0]!.sent, []);
  r.wires[0]!.say({ event: "ready" });
  assert.deepEqual(r.wires[0]!.sent, [{ type: "attach", chat_id: "c" }]);
  r.seqs.set("c", 42);
  r.wires[0]!.onclose?.({ code: 1006 });
  r.retry();
  r.wires[1]!.say({ event: "ready" });
  assert.deepEqual(r.wires[1]!.sent, [{ type: "resume", chat_id: "c", last_seq: 42 }]);
  assert.equal(r.ready(), 2);
});

test("the waits double up to 30 s and begin again after a connection", () => {
  const r = rig();
  r.socket.connect();
  const waits: number[] = [];
  for (let i = 0; i < 9; i++) {
    r.wires.at(-1)!.onclose?.({ code: 1006 });
    waits.push(r.timers.at(-1)!.ms);
    r.retry();
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
  r.wires.at(-1)!.say({ event: "ready" });
  r.wires.at(-1)!.onclose?.({ code: 1006 });
  assert.equal(r.timers.at(-1)!.ms, 500);
});

test("1012 and 1013 come back at once, 4401 not at all", () => {
  for (const code of [1012, 1013]) {
    const r = rig();
    r.socket.connect();
    r.wires[0]!.onclose?.({ code: 1006 });
    r.retry();
    r.wires[1]!.onclose?.({ code });
    assert.equal(r.timers.at(-1)!.ms, 500);
    assert.equal((r.links.at(-1) as { restarting?: boolean }).restarting, code === 1012);
  }
  const r = rig();
  r.socket.connect();
  r.wires[0]!.say({ event: "ready" });
  r.wires[0]!.onclose?.({ code: 4401 });
  assert.deepEqual(r.links.at(-1), { state: "signed-out" });
  assert.ok(
    r.timers.every((t) => t.off),
    "no attempt is planned",
  );
});

test("garbage is ignored", () => {
  const r = rig();
  r.socket.connect();
  for (const data of ["", "{", "[]", "null", "1", '{"event":1}', "\u0000", new Uint8Array(3)])
    r.wires[0]!.onmessage?.({ data });
  assert.deepEqual(r.events, []);
  r.wires[0]!.say({ event: "delta", chat_id: "c" });
  assert.equal(r.events.length, 1);
});

test("a request is sent again with the same id and answered once", async () => {
  const r = rig();
  r.socket.connect();
  r.wires[0]!.say({ event: "ready" });
  const done = r.socket.request("session.rename", { key: "k" });
  r.wires[0]!.onclose?.({ code: 1006 });
  r.retry();
  r.wires[1]!.say({ event: "ready" });
  assert.deepEqual(r.wires[1]!.sent, r.wires[0]!.sent);
  r.wires[1]!.say({ event: "webui_response", request_id: "id1", result: { ok: 1 } });
  r.wires[1]!.say({ event: "webui_response", request_id: "id1", result: { ok: 2 } });
  assert.deepEqual(await done, { ok: 1 });
  const refused = r.socket.request("session.delete", {});
  r.wires[1]!.say({ event: "webui_response", request_id: "id2", error: { status: 409, message: "busy" } });
  await assert.rejects(refused, { status: 409 });
});

test("an old connection says nothing any more", () => {
  const r = rig();
  r.socket.connect();
  r.wires[0]!.onclose?.({ code: 1006 });
  r.retry();
  r.wires[0]!.say({ event: "ready" });
  r.wires[0]!.onclose?.({ code: 4401 });
  assert.equal(r.ready(), 0);
  assert.notEqual(r.links.at(-1)!.state, "signed-out");
});

class Memory implements Store {
  readonly data = new Map<string, string>();
  full = false;
  getItem(k: string) {
    return this.data.get(k) ?? null;
  }
  setItem(k: string, v: string) {
    if (this.full) throw new Error("quota");
    this.data.set(k, v);
  }
  removeItem(k: string) {
    this.data.delete(k);
  }
}

const m = (turn: string) => ({ chat: "c", turn, text: "text " + turn, at: "" });

test("the outbox survives a reload and keeps the order", () => {
  const store = new Memory();
  const a = new Outbox(store, "g");
  assert.equal(a.add(m("1")), true);
  a.add(m("2"));
  const b = new Outbox(store, "g");
  assert.deepEqual(
    b.unsent().map((x) => x.turn),
    ["1", "2"],
  );
  b.remove("1");
  assert.deepEqual(
    a.unsent().map((x) => x.turn),
    ["2"],
  );
  a.fail("2", "too large");
  assert.deepEqual(b.unsent(), []);
  assert.equal(b.of("c")[0]!.failed, "too large");
  b.retry("2");
  assert.equal(b.unsent().length, 1);
});

test("two tabs do not lose each other's messages", () => {
  const store = new Memory();
  const a = new Outbox(store, "g");
  const b = new Outbox(store, "g");
  a.add(m("1"));
  b.add(m("2"));
  a.remove("1");
  assert.deepEqual(
    b.unsent().map((x) => x.turn),
    ["2"],
  );
});

test("storage that is blocked, full or broken loses nothing while the page is open", () => {
  const none = new Outbox(undefined, "g");
  assert.equal(none.add(m("1")), false);
  assert.equal(none.unsent().length, 1);
  const store = new Memory();
  const box = new Outbox(store, "g");
  box.add(m("1"));
  store.full = true;
  assert.equal(box.add(m("2")), false);
  assert.deepEqual(
    box.unsent().map((x) => x.turn),
    ["1", "2"],
  );
  store.data.set("h", '{"no":"list"}');
  assert.deepEqual(new Outbox(store, "h").unsent(), []);
  store.data.set("h", "[1,null,{}]");
  assert.deepEqual(new Outbox(store, "h").unsent(), []);
});

test("a connection on which nothing comes is given up", () => {
  const r = rig();
  r.socket.connect();
  r.wires[0]!.say({ event: "ready" });
  r.socket.prove();
  r.wires[0]!.say({ event: "message_accepted" });
  assert.ok(
    r.timers.every((t) => t.off),
    "any frame is a sign of life",
  );
  r.socket.prove();
  r.retry(); // the time is over
  assert.equal(r.links.at(-1)!.state, "waiting");
  r.retry();
  assert.equal(r.wires.length, 2);
});

test("an attempt that is not answered is given up", () => {
  const r = rig();
  r.socket.connect();
  r.timers.find((t) => !t.off && t.ms === 20_000)!.f();
  assert.equal(r.links.at(-1)!.state, "waiting");
  r.retry();
  r.wires[1]!.say({ event: "ready" });
  assert.equal(r.links.at(-1)!.state, "open");
  assert.ok(r.timers.every((t) => t.off || t.ms !== 20_000 || t === r.timers[0]));
});

test("messages of a temporary chat are not stored", () => {
  const store = new Memory();
  const box = new Outbox(store, "g");
  box.add({ ...m("1"), chat: "temp-1" });
  box.add(m("2"));
  assert.deepEqual(
    box
      .unsent()
      .map((x) => x.turn)
      .sort(),
    ["1", "2"],
  );
  assert.ok(![...store.data.values()].join().includes("temp-"));
  assert.deepEqual(
    new Outbox(store, "g").unsent().map((x) => x.turn),
    ["2"],
  );
});
