// Settings: curated parts, every other setting, the text of the file, its versions.
import { useEffect, useMemo } from "preact/hooks";
import { t as common } from "../i18n";
import { t } from "../i18n/settings";
import { useRead } from "../state/read";
import { visible } from "../text/links";
import { Read } from "../ui/read";
import { Tabs } from "../ui/tabs";
import type { SettingsRead } from "../wire/reads";
import { Bar } from "./bar";
import { All } from "./settings/all";
import { Models, modelPaths } from "./settings/models";
import { Providers } from "./settings/providers";
import { Raw } from "./settings/raw";
import { Safety, safetyPaths } from "./settings/safety";
import { Section } from "./settings/section";
import { drafts, flatten } from "./settings/state";
import type { SchemaNode, Setting } from "./settings/state";
import { Versions } from "./settings/versions";
import type { PageProps } from "./table";

const tabs = ["models", "providers", "safety", "speech", "images", "web", "all", "raw", "versions"] as const;
const below = { speech: "transcription.", images: "tools.imageGeneration.", web: "tools.web." };

export default function Settings({ rest }: PageProps) {
  const tab = tabs.find((x) => x === rest[0]) ?? "models";
  const read = useRead<SettingsRead>("settings", {}, "settings");
  const schema = useRead<SchemaNode>("settings/schema");
  const settings = useMemo(
    () => (read.data && schema.data ? flatten(schema.data, read.data.config) : undefined),
    [read.data, schema.data],
  );
  useEffect(() => {
    document.title = `${common("page.settings")} - ${common("app.name")}`;
  }, []);
  useEffect(
    () => document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }),
    [tab],
  );
  // The browser asks before a reload or a closed tab loses what was typed.
  useEffect(() => {
    const ask = (e: BeforeUnloadEvent) => drafts.peek().size > 0 && e.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, []);

  return (
    <>
      <Bar title={common("page.settings")} />
      <div class="page">
        <div class="inner settings">
          <Tabs
            label={common("page.settings")}
            current={tab}
            tabs={tabs.map((name) => ({ name, title: t(`value.settings.tab.${name}`), href: "#/settings/" + name }))}
          />
          <Read of={read}>
            {(data) => (
              <>
                <Notices read={data} />
                {settings ? (
                  <Part tab={tab} read={data} all={settings} reload={read.reload} path={rest[1]} />
                ) : (
                  <Read of={schema}>{() => null}</Read>
                )}
              </>
            )}
          </Read>
        </div>
      </div>
    </>
  );
}

function Notices({ read }: { read: SettingsRead }) {
  return (
    <>
      {read.restart_required.length > 0 && (
        <p class="notice">{t("settings.waiting", { names: visible(read.restart_required.join(", ")) })}</p>
      )}
      {read.problems.map((p) => (
        <p class="notice" key={p}>
          {visible(p)}
        </p>
      ))}
    </>
  );
}

function Part({
  tab,
  read,
  all,
  reload,
  path,
}: {
  tab: (typeof tabs)[number];
  read: SettingsRead;
  all: Setting[];
  reload(): void;
  path?: string;
}) {
  const pick = (paths: string[]) => paths.map((p) => all.find((s) => s.path === p)).filter((s) => s !== undefined);
  switch (tab) {
    case "models":
      return <Models read={read} settings={pick(modelPaths)} onSaved={reload} />;
    case "providers":
      return <Providers read={read} onSaved={reload} />;
    case "safety":
      return <Safety read={read} settings={pick(safetyPaths)} onSaved={reload} />;
    case "all":
      return <All read={read} settings={all} onSaved={reload} path={path} />;
    case "raw":
      return <Raw onSaved={reload} />;
    case "versions":
      return <Versions base={read.base} onSaved={reload} />;
    default:
      return (
        <Section
          key={tab}
          title={t(`value.settings.tab.${tab}`)}
          settings={all.filter((s) => s.path.startsWith(below[tab]))}
          read={read}
          onSaved={reload}
        />
      );
  }
}
