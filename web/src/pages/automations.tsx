// Jobs that run by the clock, and triggers that programs set off.
import { shortTime, t as common } from "../i18n";
import { t } from "../i18n/automations";
import { dayTitle, shortDate } from "../ui/days";
import { useRead } from "../state/read";
import { useWatch } from "../state/watch";
import { label, visible } from "../text/links";
import { Icon } from "../ui/icon";
import { Row } from "../ui/list";
import { Read } from "../ui/read";
import { Tabs } from "../ui/tabs";
import type { Automation, AutomationList } from "../wire/reads";
import { Detail, StateOf } from "./automations/detail";
import { Edit, NewTrigger } from "./automations/edit";
import { wordsOf } from "./automations/timing";
import { hrefOf } from "./automations/wire";
import { Bar } from "./bar";
import type { PageProps } from "./table";

export default function Automations({ rest: [part = "", verb] }: PageProps) {
  const list = useRead<AutomationList>("webui/automations", { days: 7 }, "automations");
  useWatch("automations", true, list.data?.automations.some((a) => a.running) ? 1000 : 4000);
  const listed = ["", "calendar"].includes(part);

  return (
    <>
      <Bar title={common("page.automations")} />
      <div class="page">
        <div class="inner">
          {listed && (
            <div class="spread">
              <Tabs
                label={common("page.automations")}
                current={part || "list"}
                tabs={[
                  { name: "list", title: t("auto.list"), href: "#/automations" },
                  { name: "calendar", title: t("auto.calendar"), href: "#/automations/calendar" },
                ]}
              />
              <div class="row">
                <a class="button" href="#/automations/new-trigger">
                  {t("auto.new.trigger")}
                </a>
                <a class="button primary" href="#/automations/new">
                  <Icon name="plus" />
                  {t("auto.new")}
                </a>
              </div>
            </div>
          )}
          {part === "new" && <Edit />}
          {part === "new-trigger" && <NewTrigger />}
          {part !== "new" && part !== "new-trigger" && (
            <Read of={list}>
              {({ automations }) => {
                if (part === "") return <List all={automations} />;
                if (part === "calendar") return <Calendar all={automations} />;
                const a = automations.find((x) => x.id === part);
                if (!a)
                  return (
                    <p class="hint">
                      {t("auto.gone")} <a href="#/automations">{t("auto.back")}</a>
                    </p>
                  );
                return verb === "edit" && a.kind === "job" ? <Edit key={a.id} of={a} /> : <Detail key={a.id} a={a} />;
              }}
            </Read>
          )}
        </div>
      </div>
    </>
  );
}

function List({ all }: { all: Automation[] }) {
  if (all.length === 0) return <p class="hint">{t("auto.none")}</p>;
  const group = (title: string, of: Automation[]) =>
    of.length > 0 && (
      <section>
        <h2>{title}</h2>
        <ul class="things">
          {of.map((a) => (
            <Row
              key={a.id}
              href={hrefOf(a)}
              title={label(a.name) || a.id}
              state={<StateOf a={a} />}
              about={
                <>
                  {wordsOf(a)}
                  {a.next_run && a.enabled && (
                    <>
                      {" "}
                      · <time dateTime={a.next_run}>{t("auto.next", { at: shortDate(a.next_run) })}</time>
                    </>
                  )}
                  {a.kind === "trigger" && visible(a.command ?? "")}
                </>
              }
            />
          ))}
        </ul>
      </section>
    );

  return (
    <>
      {group(
        t("auto.jobs"),
        all.filter((a) => a.kind === "job"),
      )}
      {group(
        t("auto.triggers"),
        all.filter((a) => a.kind === "trigger"),
      )}
    </>
  );
}

/** Calendar lists the runs of the next seven days, by day. */
function Calendar({ all }: { all: Automation[] }) {
  const days = new Map<string, { at: string; a: Automation }[]>();
  const runs = all
    .flatMap((a) => (a.upcoming ?? []).map((at) => ({ at, a })))
    .sort((x, y) => Date.parse(x.at) - Date.parse(y.at));
  for (const run of runs) {
    const day = new Date(run.at).toDateString();
    days.set(day, [...(days.get(day) ?? []), run]);
  }

  const many = all.filter((a) => a.upcoming?.length === 100);
  if (runs.length === 0) return <p class="hint">{t("auto.calendar.none")}</p>;

  return (
    <>
      {many.length > 0 && (
        <p class="note">{t("auto.calendar.many", { names: many.map((a) => label(a.name)).join(", ") })}</p>
      )}
      {[...days].map(([day, list]) => (
        <section key={day}>
          <h2>{dayTitle(new Date(day))}</h2>
          <ul class="things">
            {list.slice(0, 48).map(({ at, a }) => (
              <li key={a.id + at} class="run">
                <time dateTime={at}>{shortTime(at)}</time>
                <a href={hrefOf(a)}>{label(a.name)}</a>
              </li>
            ))}
          </ul>
          {list.length > 48 && <p class="hint">{t("auto.calendar.more", { n: list.length - 48 })}</p>}
        </section>
      ))}
    </>
  );
}
