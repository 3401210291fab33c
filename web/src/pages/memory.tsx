// What is remembered: the files with the origin of each line, what waits for a
// decision, people, versions.
import { useState } from "preact/hooks";
import { t as say } from "../i18n";
import { t } from "../i18n/memory";
import { changed, useRead } from "../state/read";
import { request } from "../state/store";
import { fail, toast } from "../state/toast";
import { dateOf, kib } from "../text/figures";
import { visible } from "../text/links";
import { Read } from "../ui/read";
import { Tabs } from "../ui/tabs";
import type { DreamReport, MemoryRead } from "../wire/reads";
import { Bar } from "./bar";
import { FileView } from "./memory/file";
import { Findings } from "./memory/findings";
import { History } from "./memory/history";
import { nameOf } from "./memory/name";
import type { PageProps } from "./table";

const fileNames = ["USER", "SOUL", "MEMORY"] as const;

export default function MemoryPage({ rest }: PageProps) {
  const part = rest[0] || "USER";
  const scope = part === "people" ? rest[1] : undefined;
  const all = useRead<MemoryRead>("memory", {}, "memory");

  return (
    <>
      <Bar title={say("page.memory")}>
        <Dream />
      </Bar>
      <div class="page">
        <div class="inner">
          <Read of={all}>
            {(m) => (
              <>
                <Tabs
                  label={say("page.memory")}
                  current={part}
                  tabs={[
                    ...fileNames.map((n) => ({
                      name: n as string,
                      title: t(`value.memory.file.${n}`),
                      href: `#/memory/${n}`,
                    })),
                    { name: "findings", title: t("memory.findings"), href: "#/memory/findings", count: m.findings },
                    { name: "people", title: t("memory.people"), href: "#/memory/people" },
                    { name: "history", title: t("memory.history"), href: "#/memory/history" },
                  ]}
                />
                {m.files
                  .filter((f) => nameOf(f.path) === part)
                  .map((f) => (
                    <FileView key={f.path} file={f} />
                  ))}
                {(part === "findings" || (m.findings > 0 && part !== "history")) && <Findings />}
                {part === "people" && !scope && <People all={m} />}
                {scope && <Scope key={scope} scope={scope} />}
                {part === "history" && <History id={rest[1]} />}
                {part !== "history" && <State all={m} />}
              </>
            )}
          </Read>
        </div>
      </div>
    </>
  );
}

function State({ all }: { all: MemoryRead }) {
  return (
    <p class="hint">
      {all.history.unread > 0 ? t("memory.unread", { n: all.history.unread }) : t("memory.allread")}{" "}
      {all.last_dream && t("memory.lastdream", { at: dateOf(all.last_dream.time) })}
    </p>
  );
}

function Dream() {
  const [busy, setBusy] = useState(false);
  const run = () => {
    setBusy(true);
    request<DreamReport>("memory.dream", {})
      .then((r) => {
        toast(
          r.entries === 0
            ? t("memory.dream.nothing")
            : t("memory.dream.done", { entries: r.entries, files: r.files?.length ?? 0, waiting: r.quarantined ?? 0 }),
        );
        changed("memory");
      }, fail)
      .finally(() => setBusy(false));
  };

  return (
    <button type="button" class="button" disabled={busy} aria-busy={busy} title={t("memory.dream.hint")} onClick={run}>
      {busy ? t("memory.dream.busy") : t("memory.dream")}
    </button>
  );
}

function People({ all }: { all: MemoryRead }) {
  return (
    <section>
      <h2>{t("memory.people")}</h2>
      <p class="hint">{t("memory.people.hint")}</p>
      {all.scopes.length === 0 && <p class="hint">{t("memory.people.none")}</p>}
      <ul class="changes">
        {all.scopes.map((s) => (
          <li key={s.name}>
            <a class="change" href={`#/memory/people/${encodeURIComponent(s.name)}`}>
              <span>{visible(s.name)}</span> <small class="hint">{t("memory.kib", { n: kib(s.bytes) })}</small>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Scope({ scope }: { scope: string }) {
  const one = useRead<MemoryRead>("memory", { scope }, "memory");
  return (
    <Read of={one}>
      {(m) => (
        <>
          {m.files.map((f) => (
            <FileView key={f.path} file={f} scope={scope} />
          ))}
        </>
      )}
    </Read>
  );
}
