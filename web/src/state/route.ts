// Routes are in the hash: a proxy may serve the page below any path.
import { signal } from "@preact/signals";

/** Names of the pages besides conversations; pages/table.ts has one entry for each. */
export const names = [
  "setup",
  "inbox",
  "automations",
  "memory",
  "usage",
  "changes",
  "search",
  "replay",
  "channels",
  "skills",
  "mcp",
  "settings",
  "status",
  "log",
  "doctor",
  "devices",
  "preferences",
] as const;
export type PageName = (typeof names)[number];

export type Route =
  | { page: "chat"; key?: string; at?: number }
  | { page: "nowhere" }
  | { page: "sign-in"; code: string }
  | { page: PageName; rest: string[] };

export function parseRoute(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/");
  switch (parts[0]) {
    case "in":
      return { page: "sign-in", code: parts[1] ?? "" };
    case "c":
      return {
        page: "chat",
        key: parts[1] ? decode(parts[1]) : undefined,
        ...(/^\d{1,9}$/.test(parts[2] ?? "") ? { at: Number(parts[2]) } : {}),
      };
  }

  const page = names.find((n) => n === parts[0]);
  if (page) return { page, rest: parts.slice(1).map(decode) };
  return parts[0] === "" ? { page: "chat" } : { page: "nowhere" };
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

/** chatHref is the address of a conversation, or of a message in it. */
export const chatHref = (key: string, at?: number) =>
  "#/c/" + encodeURIComponent(key) + (at === undefined ? "" : "/" + at);

export const route = signal<Route>({ page: "chat" });

export function startRoutes() {
  const read = () => (route.value = parseRoute(location.hash));
  addEventListener("hashchange", read);
  read();
}

export function go(hash: string) {
  if (location.hash !== hash) location.hash = hash;
}
