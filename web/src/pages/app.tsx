// The frame around all pages.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Chat, Nowhere } from "../chat/chat";
import { Sidebar } from "../chat/sidebar";
import { t } from "../i18n";
import { panel, undoing } from "../state/panel";
import { route } from "../state/route";
import type { PageName } from "../state/route";
import { drawer, fresh, gateway, link, newChat, newer, reachable, retryNow, says, unsaved } from "../state/store";
import { toasts } from "../state/toast";
import { Icon } from "../ui/icon";
import { overlay, useKeys } from "./keys";
import { Requests } from "./requests";
import { Waiting } from "./links";
import { SignIn, arriving } from "./signin";
import { table } from "./table";
import type { PageProps } from "./table";

export function App() {
  const g = gateway.value;
  useKeys();
  return (
    <>
      {g && !g.signed_in ? <SignIn /> : !arriving() && <Shell />}
      {g?.signed_in && overlay.value && <Over key={overlay.value} kind={overlay.value} />}
      <div class="toasts" role="status">
        {toasts.value.map((x) => (
          <div key={x.id} class={x.bad ? "toast bad" : "toast"}>
            {x.text}
          </div>
        ))}
      </div>
      <div class="sr" aria-live="polite">
        {says.value}
      </div>
    </>
  );
}

function Shell() {
  return (
    <div class="shell">
      <a
        class="sr"
        href="#composer"
        onClick={(e) => (e.preventDefault(), document.getElementById("composer")?.focus())}
      >
        {t("app.skip")}
      </a>
      <Sidebar />
      {drawer.value && (
        <button
          type="button"
          class="veil only-narrow"
          aria-label={t("chats.close")}
          onClick={() => (drawer.value = false)}
        />
      )}
      <main>
        <Status />
        {gateway.value?.signed_in && <Requests />}
        <Page />
        <div class="tabs-bottom">
          <button type="button" class="button plain" onClick={() => (drawer.value = true)}>
            <Icon name="menu" />
            {t("chats.title")}
          </button>
          <button type="button" class="button plain" onClick={newChat}>
            <Icon name="plus" />
            {t("chats.new")}
          </button>
          <a class="button plain" href="#/inbox">
            <Icon name="inbox" />
            <span>
              {t("page.inbox")}
              <Waiting />
            </span>
          </a>
        </div>
      </main>
      <Beside />
    </div>
  );
}

/** outdated is called when a part of the page cannot be loaded. Without a connection
 *  that says nothing about the build, and the status line says why. */
const outdated = () => void (link.peek().state === "open" && (newer.value = true));

/** Beside is what is shown beside the conversation, loaded when it is first needed. */
function Beside() {
  const [Loaded, setLoaded] = useState<{ part: ComponentType } | undefined>(undefined);
  const wanted = panel.value !== undefined || undoing.value !== undefined;
  useEffect(() => {
    if (wanted && !Loaded) import("../chat/panel").then((m) => setLoaded({ part: m.default }), outdated);
  }, [wanted, link.value.state]);
  return wanted && Loaded ? <Loaded.part /> : null;
}

/** Status is one quiet line with the cause and the next step. */
function Status() {
  const l = link.value;
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  if (!reachable.value)
    return (
      <p class="status" role="status">
        {t("app.unreachable")}
      </p>
    );

  if (newer.value) {
    return (
      <p class="status" role="status">
        {t("app.newer")}{" "}
        <button type="button" class="button" onClick={() => location.reload()}>
          {t("app.reload")}
        </button>
      </p>
    );
  }

  if (l.state === "waiting") {
    return (
      <p class="status" role="status">
        {l.restarting ? t("link.restarting") : t("link.waiting", { seconds: l.seconds })}{" "}
        <button type="button" class="button" onClick={retryNow}>
          {t("link.retry")}
        </button>
      </p>
    );
  }

  if (unsaved.value) return <p class="status">{t("app.unsaved")}</p>;
  if (gateway.value && !gateway.value.encrypted && !local && location.protocol !== "https:")
    return <p class="status">{t("app.plain")}</p>;
  return null;
}

function Page() {
  const r = route.value;
  if (r.page === "nowhere") return <Nowhere text={t("app.nowhere")} />;
  if ("rest" in r) return <Lazy key={r.page} name={r.page} rest={r.rest} />;
  return <Chat id={r.page === "chat" && r.key ? r.key : fresh.value} at={r.page === "chat" ? r.at : undefined} />;
}

type Kind = NonNullable<typeof overlay.value>;

/** Over is the palette or the list of keys, loaded when it is first opened. */
function Over({ kind }: { kind: Kind }) {
  const [Loaded, setLoaded] = useState<{ page: ComponentType<{ kind: Kind }> } | undefined>(undefined);
  useEffect(() => {
    import("./palette").then(
      (m) => setLoaded({ page: m.default }),
      () => (outdated(), (overlay.value = undefined)),
    );
  }, []);
  return Loaded ? <Loaded.page kind={kind} /> : null;
}

/** Lazy shows a page whose script is loaded when it is first opened. */
function Lazy({ name, rest }: { name: PageName; rest: string[] }) {
  const [Loaded, setLoaded] = useState<{ page: ComponentType<PageProps> } | undefined>(undefined);
  useEffect(() => {
    if (!Loaded) table[name].load().then((m) => setLoaded({ page: m.default }), outdated);
  }, [link.value.state === "open"]);
  return Loaded ? (
    <Loaded.page rest={rest} />
  ) : (
    <p class="read-only" role="status">
      {t("app.loading")}
    </p>
  );
}
