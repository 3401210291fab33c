// Routes are in the hash: a proxy may serve the page below any path.
import { signal } from "@preact/signals";

export type Route = { page: "chat"; key?: string } | { page: "sign-in"; code: string } | { page: "preferences" };

export function parseRoute(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/");
  switch (parts[0]) {
    case "in":
      return { page: "sign-in", code: parts[1] ?? "" };
    case "c":
      return { page: "chat", key: parts[1] ? decode(parts[1]) : undefined };
    case "preferences":
      return { page: "preferences" };
    default:
      return { page: "chat" };
  }
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

export const chatHref = (key: string) => "#/c/" + encodeURIComponent(key);

export const route = signal<Route>({ page: "chat" });

export function startRoutes() {
  const read = () => (route.value = parseRoute(location.hash));
  addEventListener("hashchange", read);
  read();
}

export function go(hash: string) {
  if (location.hash !== hash) location.hash = hash;
}
