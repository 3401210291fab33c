// What the person does in a conversation.
import { language } from "../i18n";
import type { Outgoing } from "../wire/outbox";
import type { Scope } from "../wire/types";
import { chatOf, drafts, fresh, keyOf, serverNow, thread, wired } from "./base";
import { readNewest } from "./chats";
import type { TextItem, UserItem } from "./items";
import { uuid } from "./local";
import { withSent } from "./page";
import { chatHref, go } from "./route";
import { fail } from "./toast";

export function send(chat: string, text: string, media: Outgoing["media"] = []) {
  const m: Outgoing = {
    chat,
    turn: uuid(),
    text,
    at: new Date(serverNow()).toISOString(),
    ...(media.length > 0 ? { media } : {}),
  };

  wired.outbox.add(m);
  if (keyOf(chat) === fresh.peek()) {
    go(chatHref(keyOf(chat)));
    fresh.value = keyOf(uuid());
  }

  const t = thread(keyOf(chat));
  t.value = withSent(t.peek(), m);
  wired.socket?.attach(chat);
  transmit(m);
}

function transmit(m: Outgoing) {
  const media = m.media?.map(({ upload_id, name }) => ({ upload_id, name }));
  const frame = {
    type: "message",
    chat_id: m.chat,
    turn_id: m.turn,
    content: m.text,
    language: language.peek(),
    ...(media ? { media } : {}),
  };

  if (wired.socket?.send(frame)) wired.socket.prove(); // it is accepted at once
}

/** flush sends what waits, in order. The gateway ignores what it has. */
export function flush() {
  for (const m of wired.outbox.unsent()) {
    wired.socket?.attach(m.chat);
    transmit(m);
  }
}

export function resend(chat: string, turn: string) {
  wired.outbox.retry(turn);
  const m = wired.outbox.of(chat).find((x) => x.turn === turn);
  if (!m) return;
  const t = thread(keyOf(chat));
  t.value = withSent(t.peek(), m);
  transmit(m);
}

export function discard(chat: string, turn: string) {
  wired.outbox.remove(turn);
  const t = thread(keyOf(chat));
  t.value = { ...t.peek(), items: t.peek().items.filter((i) => i.kind !== "user" || i.turn !== turn) };
}

/** stop ends the turn that the person sees; one that began since goes on. */
export function stop(chat: string) {
  const turn = thread(keyOf(chat)).peek().running?.turn;
  wired.socket?.send({ type: "stop", chat_id: chat, language: language.peek(), ...(turn ? { turn_id: turn } : {}) });
}

export const setModel = (chat: string, choice: { model?: string; preset?: string }) =>
  wired.socket?.send({ type: "set_model", chat_id: chat, ...choice }) ?? false;
export const setScope = (chat: string, scope: Scope) =>
  wired.socket?.send({ type: "set_workspace_scope", chat_id: chat, workspace_scope: scope }) ?? false;

/** forks wait for the chat that they become. */
const forks: ((chat: string) => void)[] = [];
export const forked = (chat: string) => void forks.shift()?.(chat);

/** fork begins a conversation with the part of another before a message; with a
 *  text, that waits in the composer of the new one. */
export async function fork(key: string, before: number, text?: string) {
  const chat = chatOf(key);
  if (chat === undefined) return;
  const made = new Promise<string>((done) => forks.push(done));
  if (!wired.socket?.send({ type: "fork_chat", source_chat_id: chat, before_index: before })) {
    forks.pop();
    fail({ status: 0, code: "unreachable", message: "" });
    return;
  }

  const next = keyOf(await made);
  if (text !== undefined) drafts.write(next, text);
  go(chatHref(next));
}

/** indexOf finds a message in the stored conversation. */
export async function indexOf(key: string, item: UserItem | TextItem): Promise<number | undefined> {
  if (item.index !== undefined) return item.index;
  await readNewest(key);
  const found = thread(key)
    .peek()
    .items.findLast(
      (i): i is UserItem | TextItem => i.kind === item.kind && i.turn === item.turn && i.text === item.text,
    );
  return found?.kind === "text" && found.calls ? undefined : found?.index;
}

const answerFrame = (chat: string, question: string, option: string, remark: string) => ({
  type: "answer",
  chat_id: chat,
  question_id: question,
  option,
  language: language.peek(),
  ...(remark ? { remark } : {}),
});

/** answer replies to a question; it reports whether the answer went out. */
export function answer(chat: string, question: string, option: string, remark: string): boolean {
  const t = thread(keyOf(chat));
  const item = t.peek().items.find((i) => i.kind === "question" && i.id === question);
  if (item?.kind === "question" && item.code === undefined)
    send(chat, option); // an ordinary question
  else if (!wired.socket?.send(answerFrame(chat, question, option, remark))) return false;

  const items = t
    .peek()
    .items.map((i) => (i.kind === "question" && i.id === question ? { ...i, state: "sent" as const, option } : i));
  t.value = { ...t.peek(), items };
  return true;
}
