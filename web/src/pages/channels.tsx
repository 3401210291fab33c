// Chat platforms, and who may talk to nanobot there.
import { t as common } from "../i18n";
import { t } from "../i18n/channels";
import { useRead } from "../state/read";
import { useWatch } from "../state/watch";
import { visible } from "../text/links";
import { Row } from "../ui/list";
import { Read } from "../ui/read";
import { Tabs } from "../ui/tabs";
import type { People as All, Platform, PlatformList } from "../wire/reads";
import { Bar } from "./bar";
import { People } from "./channels/people";
import { Detail, StateOf } from "./channels/platform";
import { Telegram } from "./channels/telegram";
import type { PageProps } from "./table";

export default function Channels({ rest: [part = "", verb] }: PageProps) {
  const list = useRead<PlatformList>("settings/nanobot-features", {}, "channels");
  const people = useRead<All>("settings/pairing", {}, "pairing");
  useWatch("channels");
  useWatch("pairing");
  // A second account of a platform, such as telegram.work, begins as an empty form.
  const known = (name: string) => list.data?.channels.find((x) => x.name === name);
  const kind = /^([a-z]+)\.[a-z0-9][a-z0-9_-]{0,31}$/.exec(part)?.[1];
  const base = kind === undefined ? undefined : known(kind);
  const p =
    known(part) ??
    (base && {
      name: part,
      title: base.title,
      login: base.login,
      configured: false,
      enabled: false,
      state: "stopped" as const,
    });

  const guide = p && people.data && p.name === "telegram" && verb === "setup";

  return (
    <>
      <Bar title={common("page.channels")} />
      <div class="page">
        <div class="inner">
          {["", "people"].includes(part) && (
            <Tabs
              label={common("page.channels")}
              current={part || "list"}
              tabs={[
                { name: "list", title: t("chan.list"), href: "#/channels" },
                {
                  name: "people",
                  title: t("chan.people"),
                  href: "#/channels/people",
                  count: people.data?.pending.length,
                },
              ]}
            />
          )}
          {part === "people" ? (
            <Read of={people}>{(all) => <People all={all} />}</Read>
          ) : (
            <Read of={list}>
              {({ channels }) => {
                if (part === "") return <List all={channels} />;
                if (guide) return <Telegram p={p} people={people.data!} />;
                return p ? (
                  <Detail key={p.name} p={p} />
                ) : (
                  <p class="hint">
                    {t("chan.gone")} <a href="#/channels">{t("chan.back")}</a>
                  </p>
                );
              }}
            </Read>
          )}
        </div>
      </div>
    </>
  );
}

function List({ all }: { all: Platform[] }) {
  const group = (title: string, of: Platform[], empty?: string) => (
    <section>
      <h2>{title}</h2>
      {of.length === 0 && <p class="hint">{empty}</p>}
      {of.length > 0 && (
        <ul class="things">
          {of.map((p) => (
            <Row
              key={p.name}
              href={`#/channels/${encodeURIComponent(p.name)}${p.name === "telegram" && !p.configured ? "/setup" : ""}`}
              title={visible(p.title ? (p.name.includes(".") ? `${p.title} (${p.name})` : p.title) : p.name)}
              state={<StateOf p={p} />}
              about={p.enabled ? visible(p.state === "failed" ? (p.reason ?? "") : (p.identity ?? "")) : undefined}
            />
          ))}
        </ul>
      )}
    </section>
  );
  return (
    <>
      {group(
        t("chan.configured"),
        all.filter((p) => p.configured),
        t("chan.none"),
      )}
      {group(
        t("chan.available"),
        all.filter((p) => !p.configured && p.name !== "websocket"),
      )}
    </>
  );
}
