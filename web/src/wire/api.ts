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
  return data as T;
}

export const readState = () => call<Gateway>("webui/state");
export const login = (body: { code: string } | { device: true } | { poll: string }) => call<LoginReply>("webui/login", body);
export const logout = () => call<unknown>("webui/logout", {});

export const readCommands = () => call<{ commands: SlashCommand[] }>("api/commands");

export function readSessions(query = "", limit = 300): Promise<SessionPage> {
  return call(`api/sessions?limit=${limit}&query=${encodeURIComponent(query)}`);
}

export function readThread(key: string, before?: number | null, limit = 100): Promise<ThreadPage> {
  const more = before == null ? "" : `&before=${before}`;
  return call(`api/sessions/${encodeURIComponent(key)}/webui-thread?limit=${limit}${more}`);
}
