// The parts of a conversation, in the order in which a person sees them.
import type { Detail, Edit, Goal, Scope, Usage } from "../wire/types";

export interface Attachment {
  name: string;
  url?: string;
  blob?: string; // of a picture that was attached here
  path?: string; // of a file that the agent sent
}

/** storedAs is a message as the gateway stores it: a goal is told to the model. */
export const storedAs = (text: string) => text.replace(/^\/goal\s+(?!stop\s*$)(?=\S)/, "Goal: ");

export interface UserItem {
  kind: "user";
  id: string;
  index?: number; // in the stored conversation
  turn?: string;
  text: string;
  at?: string;
  media?: Attachment[];
  command?: boolean;
  state: "sent" | "pending" | "failed";
  begun?: boolean; // its turn began: it is in the log
  why?: string;
}

export interface TextItem {
  kind: "text";
  id: string;
  index?: number;
  turn?: string;
  text: string;
  open: boolean; // more is to come
  at?: string;
  media?: Attachment[];
  interrupted?: boolean;
  plain?: boolean; // without Markdown
  calls?: boolean; // tool calls follow in the same message
}

export interface ThoughtItem {
  kind: "thought";
  id: string;
  turn?: string;
  text: string;
  open: boolean;
}

export interface ToolItem {
  kind: "tool";
  id: string; // of the call
  turn?: string;
  name: string;
  args: string; // JSON, or a part of it while the model writes
  phase: "writing" | "running" | "done" | "error" | "denied" | "lost";
  output?: string; // of a command that runs
  result?: string;
  ms?: number;
  untrusted?: boolean;
  edits?: Edit[];
  answer?: string; // of the subagent that it started
}

/** GroupItem is several calls in a row that only look at something. */
export interface GroupItem {
  kind: "group";
  id: string;
  tools: readonly ToolItem[];
}

/** NoteItem is a message that no person wrote, such as the result of a subagent. */
export interface NoteItem {
  kind: "note";
  id: string;
  turn?: string;
  event: string;
  text: string;
  task?: string; // of the subagent whose result it is
}

export interface NoticeItem {
  kind: "notice";
  id: string;
  text: string;
  bad?: boolean;
}

export interface QuestionItem {
  kind: "question";
  id: string;
  turn?: string;
  text: string;
  options: string[];
  code?: string; // of an approval; other questions are answered by a message
  expires?: string;
  detail?: Detail;
  state: "open" | "sent" | "answered" | "gone";
  option?: string;
  remark?: string;
  why?: string;
}

export interface EndItem {
  kind: "end";
  id: string;
  turn?: string;
  ms?: number;
  usage?: Usage;
  model?: string;
  stop?: string;
  error?: string;
  fallback?: boolean;
  of?: string; // id of the answer that ended it
  undo?: string; // the id that undoes its changes
  undone?: string; // the id that brings them back
  files?: number; // that it changed
}

export type Item =
  UserItem | TextItem | ThoughtItem | ToolItem | GroupItem | NoteItem | NoticeItem | QuestionItem | EndItem;

export interface Thread {
  seq?: number; // of the last event that is contained; undefined: never attached
  items: readonly Item[];
  running?: { turn?: string; since?: number };
  used?: { turn?: string; usage?: Usage }; // by the turn that runs, so far
  model?: string;
  preset?: string;
  scope?: Scope;
  goal?: Goal;
  title?: string;
  newer?: boolean; // a part of the conversation, and not its end
  after?: number | null;
  more: boolean; // older messages are on the gateway
  before: number | null;
  loaded: boolean; // a page was read
  missing?: boolean; // the gateway has nothing of it
  stale: boolean; // events were missed: read the page again
  read?: number; // the last event in a page, if it had come to the log and not to us
  frozen?: readonly Item[]; // what is shown while known events are replayed
  resumed?: boolean; // the connection continues where the last one ended
  partial?: string; // the turn that was joined after it had begun
}

export const emptyThread: Thread = { items: [], more: false, before: null, loaded: false, stale: false };

/** works says that a call started a subagent that has not answered yet; phase lost
 *  means that it never will. */
export const works = (i: Item): boolean =>
  i.kind === "tool" &&
  i.name === "spawn" &&
  (i.phase === "done" || i.phase === "lost") &&
  i.result !== undefined &&
  i.answer === undefined &&
  !/"wait":true/.test(i.args);

/** revived are the items of a conversation whose turn runs. The log cannot tell a
 *  call that goes on, or waits for an approval, from one that was lost, nor whether
 *  a turn that was interrupted is taken up again. */
export function revived(all: readonly Item[], turn: string | undefined): readonly Item[] {
  const items = all.filter((i) => turn === undefined || i.kind !== "text" || !i.interrupted || i.turn !== turn);
  const from = items.findLastIndex((i) => i.kind === "end");
  const lost = (i: Item, n: number) => n > from && i.kind === "tool" && i.phase === "lost" && i.result === undefined;
  return items.some(lost) ? items.map((i, n) => (lost(i, n) ? ({ ...i, phase: "running" } as ToolItem) : i)) : items;
}

/** textOf shows arguments, by name: events and stored messages differ in their order. */
export function textOf(v: unknown): string {
  if (v === undefined || v === null) return "";
  return typeof v === "string" ? v : JSON.stringify(v, sorted);
}

const sorted = (_: string, v: unknown) =>
  v && typeof v === "object" && !Array.isArray(v)
    ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)))
    : v;

/** settled closes the questions that the next message answers. */
export function settled(items: readonly Item[]): Item[] {
  let said: UserItem | undefined;
  return items
    .toReversed()
    .map((i): Item => {
      if (i.kind === "user" && !i.command) said = i;
      return i.kind === "question" && i.code === undefined && i.state === "open" && said
        ? { ...i, state: "sent", option: said.text.length > 60 ? said.text.slice(0, 60) + "…" : said.text }
        : i;
    })
    .toReversed();
}
