// Requests over HTTP. All addresses are relative to the document, so the page
// works below any path.
import type { Failure, Gateway, LoginReply, SessionPage, SlashCommand, ThreadPage } from "./types";

/** Refused is an error that the gateway answered, or status 0 if it did not. */
export class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

/** signedOut is called when the gateway does not know this device any more. */
let signedOut = () => {};
export function onSignedOut(f: () => void) {
  signedOut = f;
}

async function call<T>(path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: { "X-Nanobot-Page": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Refused({ status: 0, code: "unreachable", message: "" });
  }

  let data: unknown;
  try {
    data = await response.json();
  } catch {
    data = undefined; // an empty body, or a proxy's page
  }

  if (!response.ok) {
    const failure = (data as { error?: Failure } | undefined)?.error;
    if (response.status === 401 && path !== "webui/login") signedOut();
    throw new Refused({ message: "", ...failure, status: response.status });
  }

  if (typeof data !== "object" || data === null) throw new Refused({ status: 0, code: "unreachable", message: "" }); // not our gateway
  return data as T;
}

export const readState = () => call<Gateway>("webui/state");
export const login = (body: { code: string } | { device: true } | { poll: string }) =>
  call<LoginReply>("webui/login", body);
export const logout = () => call<unknown>("webui/logout", {});

export const readCommands = (language: string) =>
  call<{ commands: SlashCommand[] }>(`api/commands?language=${language}`);

export function readSessions(query: string, limit: number): Promise<SessionPage> {
  return call(`api/sessions?limit=${limit}&query=${encodeURIComponent(query)}`);
}

export type Where = { before?: number; after?: number; around?: number };

/** kept names the conversation that has the messages of a chat, if it is not the
 *  chat's own: all chats of an owner can be one. */
export const kept = new Map<string, string>();

export const sessionPath = (key: string) => `sessions/${encodeURIComponent(kept.get(key) ?? key)}`;

/** StoredPage is a page of a conversation, and of which one. */
export type StoredPage = ThreadPage & { of?: string };

export async function readThread(key: string, where: Where = {}, limit = 100): Promise<StoredPage> {
  return { ...(await read<ThreadPage>(`${sessionPath(key)}/webui-thread`, { limit, ...where })), of: key };
}

export interface Upload {
  done: Promise<{ upload_id: string }>;
  abort(): void;
}

/** upload sends a file ahead of its message; fetch cannot report progress. */
export function upload(file: Blob, name: string, type: string, progress: (share: number) => void): Upload {
  const x = new XMLHttpRequest();
  const done = new Promise<{ upload_id: string }>((resolve, reject) => {
    const failed = (f: Failure) => reject(new Refused(f));
    x.upload.onprogress = (e) => progress(e.total > 0 ? e.loaded / e.total : 0);
    x.onerror = x.onabort = () => failed({ status: 0, code: "unreachable", message: "" });
    x.onload = () => {
      const data = x.response as { upload_id?: string; error?: Failure } | null;
      if (x.status === 401) signedOut();
      if (x.status === 200 && data?.upload_id) resolve({ upload_id: data.upload_id });
      else failed({ message: "", ...data?.error, status: x.status });
    };
  });

  x.responseType = "json";
  x.open("POST", "webui/upload");
  x.setRequestHeader("X-Nanobot-Page", "1");
  x.setRequestHeader("Content-Type", "application/octet-stream");
  x.setRequestHeader("X-Nanobot-Type", type);
  x.setRequestHeader("X-Nanobot-Name", encodeURIComponent(name).slice(0, 1024));
  x.send(file);
  return { done, abort: () => x.abort() };
}

/** read asks for something below api/; values of the query that are undefined are left out. */
export function read<T>(path: string, query: Record<string, string | number | undefined> = {}): Promise<T> {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") q.set(name, String(value));
  const tail = q.toString();
  return call(`api/${path}${tail ? "?" + tail : ""}`);
}
