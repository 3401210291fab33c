// The list of conversations.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { chatHref, route } from "../state/route";
import {
  archive,
  chatOf,
  drawer,
  endTemporary,
  erase,
  filter,
  listMore,
  newChat,
  newTemporary,
  pin,
  refreshSessions,
  rename,
  serverNow,
  sessions,
  sidebar,
  temporaries,
  unlisted,
} from "../state/store";
import { fail } from "../state/toast";
import { label, visible } from "../text/links";
import { exportChat } from "../state/download";
import type { Session } from "../wire/types";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { MenuButton } from "../ui/menu";
import { Links } from "../pages/links";

export interface Group {
  title: string;
  sessions: Session[];
}

type Label = "chats.pinned" | "chats.today" | "chats.yesterday" | "chats.week" | "chats.older";

/** groups puts pinned conversations first, then ours by day and those of other channels by channel. */
export function groups(
  all: readonly Session[],
  now: Date,
  say: (key: Label) => string,
  pinned: readonly string[] = [],
): Group[] {
  const day = 24 * 3600 * 1000;
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const out = new Map<string, Group>();
  const put = (id: string, title: string, s: Session) => {
    const g = out.get(id) ?? { title, sessions: [] };
    g.sessions.push(s);
    out.set(id, g);
  };

  const top = new Set(pinned);
  for (const s of all) if (top.has(s.key)) put("chats.pinned", say("chats.pinned"), s);
  all = all.filter((s) => !top.has(s.key));
  const names: Label[] = ["chats.today", "chats.yesterday", "chats.week", "chats.older"];
  for (const s of all) {
    if (chatOf(s.key) === undefined) continue;
    const at = Date.parse(s.updated_at) || 0;
    const n = at >= today ? 0 : at >= today - day ? 1 : at >= today - 6 * day ? 2 : 3;
    put(names[n]!, say(names[n]!), s);
  }

  for (const s of all) {
    if (chatOf(s.key) !== undefined) continue;
    const channel = visible(s.key.split(":")[0]!);
    put("channel " + channel, channel, s);
  }
  return [...out.values()];
}

export function Sidebar() {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [archived, setArchive] = useState(false);
  const all = sessions.value;
  const search = (words: string) => {
    filter.value = words;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void refreshSessions(), 200);
  };

  return (
    <aside class={drawer.value ? "side open" : "side"} aria-label={t("chats.title")}>
      <div class="top">
        <div class="row">
          <button type="button" class="button" onClick={newChat}>
            <Icon name="plus" />
            {t("chats.new")}
          </button>
          <MenuButton
            label={t("chats.more")}
            actions={[
              { label: t("chats.temporary"), icon: "clock", run: newTemporary },
              { label: t("chats.archived"), icon: "archive", run: () => setArchive(true) },
            ]}
          />
        </div>
        <input
          class="input"
          type="search"
          aria-label={t("chats.search")}
          placeholder={t("chats.search")}
          value={filter.value}
          onInput={(e) => search(e.currentTarget.value)}
        />
      </div>
      <nav aria-label={t("chats.title")}>
        {filter.value.trim() && (
          <a
            class="button plain"
            href={"#/search/" + encodeURIComponent(filter.value.trim())}
            onClick={() => (drawer.value = false)}
          >
            {t("chats.searchall")}
          </a>
        )}
        {all?.length === 0 && <p class="empty">{filter.value ? t("chats.notfound") : t("chats.none")}</p>}
        {temporaries.value.length > 0 && (
          <section>
            <h2>{t("chats.temporary.title")}</h2>
            {temporaries.value.map((key, n) => (
              <TemporaryRow key={key} id={key} title={t("chats.temporary.name", { n: temporaries.value.length - n })} />
            ))}
          </section>
        )}
        {all &&
          groups(all, new Date(serverNow()), t, sidebar.value.pinned).map((g) => (
            <section key={g.title}>
              <h2>{g.title}</h2>
              {g.sessions.map((s) => (
                <ChatRow key={s.key} session={s} />
              ))}
            </section>
          ))}
        {unlisted.value > 0 && (
          <button type="button" class="button plain" onClick={listMore}>
            {t("chats.next", { n: unlisted.value })}
          </button>
        )}
      </nav>
      <Links />
      {archived && <Archive onClose={() => setArchive(false)} />}
    </aside>
  );
}

function TemporaryRow({ id, title }: { id: string; title: string }) {
  const r = route.value;
  const current = r.page === "chat" && r.key === id;
  return (
    <div class={current ? "chat-row current" : "chat-row"}>
      <a href={chatHref(id)} aria-current={current ? "page" : undefined} onClick={() => (drawer.value = false)}>
        {title}
      </a>
      <button
        type="button"
        class="button plain square"
        aria-label={t("chats.temporary.end", { title })}
        onClick={() => endTemporary(id)}
      >
        <Icon name="close" />
      </button>
    </div>
  );
}

/** Archive loads its script when it is opened. */
function Archive(props: { onClose(): void }) {
  const [View, setView] = useState<{ is: ComponentType<{ onClose(): void }> } | undefined>(undefined);
  useEffect(() => {
    import("./archive").then((m) => setView({ is: m.Archive }), fail);
  }, []);
  return View ? <View.is {...props} /> : null;
}

function ChatRow({ session }: { session: Session }) {
  const [asked, setAsked] = useState<"rename" | "delete" | undefined>(undefined);
  const r = route.value;
  const current = r.page === "chat" && r.key === session.key;
  const title = label(session.title || session.preview) || t("chats.untitled");
  const pinned = sidebar.value.pinned?.includes(session.key) ?? false;
  const unread = current ? 0 : (session.unread ?? 0);

  return (
    <div class={current ? "chat-row current" : "chat-row"}>
      {session.running && <span class="dot" role="img" aria-label={t("chats.running")} />}
      <a
        href={chatHref(session.key)}
        aria-current={current ? "page" : undefined}
        title={title}
        onClick={() => (drawer.value = false)}
      >
        {title}
      </a>
      {unread > 0 && (
        <span class="badge" role="img" aria-label={t("chats.unread", { n: unread })}>
          {unread > 99 ? "99+" : unread}
        </span>
      )}
      <MenuButton
        label={t("chats.menu", { title })}
        actions={[
          { label: pinned ? t("chats.unpin") : t("chats.pin"), icon: "pin", run: () => pin(session.key, !pinned) },
          { label: t("chats.rename"), icon: "edit", run: () => setAsked("rename") },
          { label: t("chats.archive"), icon: "archive", run: () => void archive(session.key).catch(fail) },
          { label: t("chats.save.md"), icon: "down", run: () => void exportChat(session.key, "md").catch(fail) },
          { label: t("chats.save.jsonl"), icon: "down", run: () => void exportChat(session.key, "jsonl").catch(fail) },
          { label: t("chats.delete"), icon: "bin", danger: true, run: () => setAsked("delete") },
        ]}
      />
      {asked === "rename" && <Rename session={session} onClose={() => setAsked(undefined)} />}
      {asked === "delete" && <Delete session={session} title={title} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

function Rename({ session, onClose }: { session: Session; onClose(): void }) {
  const save = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    rename(session.key, String(form.get("title") ?? "")).then(onClose, fail);
  };
  return (
    <Dialog title={t("chats.rename.title")} onClose={onClose}>
      <form onSubmit={save}>
        <label class="field">
          <span>{t("chats.rename.label")}</span>
          <input class="input" name="title" maxLength={200} defaultValue={session.title} autofocus />
        </label>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>
            {t("dialog.cancel")}
          </button>
          <button type="submit" class="button primary">
            {t("dialog.save")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ session, title, onClose }: { session: Session; title: string; onClose(): void }) {
  const confirm = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    erase(session.key, form.get("jobs") !== null).then(onClose, fail);
  };
  return (
    <Dialog title={t("chats.delete.title", { title })} onClose={onClose}>
      <form onSubmit={confirm}>
        <p>{t("chats.delete.text")}</p>
        <label class="row">
          <input type="checkbox" name="jobs" /> {t("chats.delete.jobs")}
        </label>
        <div class="row">
          <button type="button" class="button" onClick={onClose}>
            {t("dialog.cancel")}
          </button>
          <button type="submit" class="button danger">
            {t("chats.delete")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
