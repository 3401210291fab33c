// The pages besides conversations. Each is loaded when it is first opened.
import type { ComponentType } from "preact";
import type { Key } from "../i18n";
import type { PageName } from "../state/route";

/** PageProps are the parts of the route behind the name of the page. */
export interface PageProps {
  rest: string[];
}

interface Entry {
  title: Key;
  /** letter opens the page, behind g. */
  letter?: string;
  /** place is where the sidebar lists it; the palette lists all. */
  place: "work" | "manage" | "hidden";
  load(): Promise<{ default: ComponentType<PageProps> }>;
}

export const table: Record<PageName, Entry> = {
  setup: { title: "page.setup", place: "hidden", load: () => import("./setup") },
  inbox: { title: "page.inbox", letter: "i", place: "work", load: () => import("./inbox") },
  automations: { title: "page.automations", letter: "a", place: "work", load: () => import("./automations") },
  memory: { title: "page.memory", letter: "m", place: "work", load: () => import("./memory") },
  usage: { title: "page.usage", letter: "u", place: "work", load: () => import("./usage") },
  changes: { title: "page.changes", letter: "c", place: "hidden", load: () => import("./changes") },
  search: { title: "page.search", letter: "f", place: "hidden", load: () => import("./search") },
  replay: { title: "page.replay", place: "hidden", load: () => import("./replay") },
  channels: { title: "page.channels", letter: "h", place: "manage", load: () => import("./channels") },
  skills: { title: "page.skills", letter: "k", place: "manage", load: () => import("./skills") },
  mcp: { title: "page.mcp", letter: "x", place: "manage", load: () => import("./mcp") },
  settings: { title: "page.settings", letter: "s", place: "manage", load: () => import("./settings") },
  status: { title: "page.status", letter: "o", place: "manage", load: () => import("./status") },
  log: { title: "page.log", letter: "l", place: "hidden", load: () => import("./log") },
  doctor: { title: "page.doctor", letter: "d", place: "hidden", load: () => import("./doctor") },
  devices: { title: "page.devices", letter: "v", place: "hidden", load: () => import("./devices") },
  preferences: { title: "page.preferences", letter: "p", place: "manage", load: () => import("./preferences") },
};
