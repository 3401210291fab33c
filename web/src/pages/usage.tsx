// What models cost: limits, a chart over time, and tables by cause.
import { useState } from "preact/hooks";
import { count, fullDate, t as say } from "../i18n";
import { t } from "../i18n/usage";
import { useRead } from "../state/read";
import { chatHref, go } from "../state/route";
import { sessions } from "../state/store";
import { amount, dayName, dollars, when } from "../text/figures";
import { label, visible } from "../text/links";
import { buckets, causes } from "../text/series";
import type { Bucket } from "../text/series";
import { Bars } from "../ui/chart";
import { Field } from "../ui/field";
import { Read } from "../ui/read";
import { Table } from "../ui/table";
import type { Column } from "../ui/table";
import { Tabs } from "../ui/tabs";
import type { AutomationList, Budget, Limit, UsageRead, UsedGroup } from "../wire/reads";
import { Bar } from "./bar";
import type { PageProps } from "./table";

const groupings = ["model", "source", "session", "job", "provider", "hour"] as const;
const spans = [30, 90, 400];
const sources = [
  "user",
  "api",
  "subagent",
  "compaction",
  "speech",
  "cron",
  "trigger",
  "heartbeat",
  "dream",
  "memory",
] as const;
const limitNames = ["dailyUsd", "monthlyUsd", "dailyTokens", "unpricedDailyTokens"] as const;

export default function UsagePage({ rest }: PageProps) {
  const span = spans.find((n) => String(n) === rest[0]) ?? 30;
  const by = groupings.find((g) => g === rest[1]) ?? "model";
  const usage = useRead<UsageRead>("settings/usage", { days: span, by }, "budget");
  const budget = useRead<Budget>("budget", {}, "budget");

  return (
    <>
      <Bar title={say("page.usage")} />
      <div class="page">
        <div class="inner">
          <Read of={budget}>{(b) => <Limits budget={b} />}</Read>
          <Read of={usage}>
            {(u) => (
              <>
                <Chart
                  usage={u}
                  span={span}
                  by={by}
                  limit={budget.data?.limits.find((l) => l.name === "dailyUsd" && !l.default)}
                />
                {u.total.requests > 0 && <Groups usage={u} span={span} by={by} />}
              </>
            )}
          </Read>
        </div>
      </div>
    </>
  );
}

function Limits({ budget }: { budget: Budget }) {
  return (
    <section>
      <div class="sums">
        <div>
          <span>{t("usage.today")}</span>
          <b>{dollars(budget.today.usd)}</b>
          <span>{t("usage.calls", { n: budget.today.calls })}</span>
        </div>
        <div>
          <span>{t("usage.month")}</span>
          <b>{dollars(budget.month.usd)}</b>
          <span>{t("usage.calls", { n: budget.month.calls })}</span>
        </div>
      </div>
      <div class="between">
        <h2>{t("usage.limits")}</h2>
        <a href="#/settings/all/agents.defaults.budget">{t("usage.limits.change")}</a>
      </div>
      {budget.limits.length === 0 && <p class="hint">{t("usage.limits.none")}</p>}
      <div class="limits">
        {budget.limits.map((l) => (
          <LimitRow key={l.name} limit={l} />
        ))}
      </div>
    </section>
  );
}

function LimitRow({ limit: l }: { limit: Limit }) {
  const known = limitNames.find((n) => n === l.name);
  const name = known ? t(`value.usage.limit.${known}`) : visible(l.name);
  const of = t("usage.limit.of", { spent: amount(l.spent, l.unit), limit: amount(l.limit, l.unit) });

  return (
    <div>
      <div class="head">
        <span>{name}</span>
        <span>{of}</span>
      </div>
      <meter
        aria-label={name}
        min={0}
        max={l.limit}
        high={l.limit * 0.8}
        value={Math.min(l.limit, l.spent + l.reserved)}
      >
        {of}
      </meter>
      <small>
        {l.left <= 0 && <b class="reached">{t("usage.limit.reached")} </b>}
        {[
          t("usage.limit.left", { left: amount(l.left, l.unit) }),
          l.reserved > 0 && t("usage.limit.reserved", { reserved: amount(l.reserved, l.unit) }),
          l.resets_at && t("usage.limit.reset", { at: when(l.resets_at) }),
          l.stops ? t("usage.limit.stops") : t("usage.limit.warns"),
        ]
          .filter(Boolean)
          .join(" · ")}
      </small>
    </div>
  );
}

function Chart({ usage, span, by, limit }: { usage: UsageRead; span: number; by: string; limit?: Limit }) {
  const [wanted, setWanted] = useState<"cost" | "tokens" | undefined>(undefined);
  const kind = wanted ?? (usage.total.cost_usd > 0 ? "cost" : "tokens");
  const format = kind === "cost" ? dollars : count;
  const size = span > 100 ? 7 : 1;
  const list = buckets(
    usage.days,
    usage.since,
    span,
    size,
    kind === "cost" ? (u) => u.cost_usd : (u) => u.total_tokens,
  );

  const name = (b: Bucket) =>
    b.from === b.to ? dayName(b.from, "long") : `${dayName(b.from, "long")} – ${dayName(b.to, "long")}`;
  const every = Math.ceil(list.length / 4);
  const total = list.reduce((n, b) => n + b.total, 0);

  return (
    <section>
      <h2>{t("usage.chart")}</h2>
      <div class="row">
        <Field label={t("usage.days")}>
          <select class="input" value={span} onChange={(e) => go(`#/usage/${e.currentTarget.value}/${by}`)}>
            {spans.map((n) => (
              <option key={n} value={n}>
                {t("usage.days.n", { n })}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t("usage.show")}>
          <select
            class="input"
            value={kind}
            onChange={(e) => setWanted(e.currentTarget.value === "cost" ? "cost" : "tokens")}
          >
            <option value="cost">{t("usage.show.cost")}</option>
            <option value="tokens">{t("usage.show.tokens")}</option>
          </select>
        </Field>
      </div>
      {usage.total.requests === 0 ? (
        <p class="hint">{t("usage.empty")}</p>
      ) : (
        <>
          <Bars
            label={t("usage.chart.label", {
              what: t(kind === "cost" ? "usage.show.cost" : "usage.show.tokens"),
              n: format(total),
            })}
            bars={list.map((b, n) => ({
              name: t("usage.bar", { when: name(b), value: format(b.total) }),
              label: n % every === Math.floor(every / 2) ? dayName(b.from) : undefined,
              parts: causes.map((c) => b.values[c]),
            }))}
            series={causes.map((c) => t(`value.usage.cause.${c}`))}
            format={format}
            limit={
              kind === "cost" && size === 1 && limit
                ? { value: limit.limit, label: t("usage.limit.line", { n: dollars(limit.limit) }) }
                : undefined
            }
          />
          <p>
            {t("usage.sum", {
              usd: dollars(usage.total.cost_usd),
              tokens: count(usage.total.total_tokens),
              calls: count(usage.total.requests),
            })}
          </p>
          {usage.total.unpriced_requests > 0 && (
            <p class="hint">{t("usage.unpriced", { n: usage.total.unpriced_requests })}</p>
          )}
          {usage.total.estimated && <p class="hint">{t("usage.estimated")}</p>}
          <details>
            <summary class="button">{t("usage.table")}</summary>
            <Table
              label={t("usage.table")}
              id={(b) => b.from}
              rows={list.filter((b) => b.requests > 0).reverse()}
              columns={[
                { title: t("usage.col.when"), cell: name },
                ...causes.map((c) => ({
                  title: t(`value.usage.cause.${c}`),
                  number: true,
                  cell: (b: Bucket) => format(b.values[c]),
                })),
                { title: t("usage.col.calls"), number: true, cell: (b) => b.requests },
                { title: t("usage.col.tokens"), number: true, cell: (b) => count(b.tokens) },
                { title: t("usage.col.cost"), number: true, cell: (b) => dollars(b.usd) },
              ]}
            />
            <p class="hint">{t("usage.timezone", { zone: visible(usage.timezone) })}</p>
          </details>
        </>
      )}
    </section>
  );
}

function Groups({ usage, span, by }: { usage: UsageRead; span: number; by: (typeof groupings)[number] }) {
  const jobs = useRead<AutomationList>(by === "job" ? "webui/automations" : undefined, {}, "automations");
  const name = (g: { name: string }) => {
    if (by === "session") {
      const s = sessions.value?.find((x) => x.key === g.name);
      return <a href={chatHref(g.name)}>{label(s?.title || s?.preview || "") || visible(g.name)}</a>;
    }
    if (by === "job") return visible(jobs.data?.automations.find((j) => j.id === g.name)?.name || g.name);
    const source = by === "source" && sources.find((s) => s === g.name);
    if (by === "hour") return fullDate(g.name);
    if (by === "source" && g.name.startsWith("guest:")) return t("usage.guest", { name: visible(g.name.slice(6)) });
    return source ? t(`value.usage.source.${source}`) : visible(g.name);
  };

  const columns: Column<UsedGroup>[] = [
    { title: t(`value.usage.by.${by}`), cell: name },
    { title: t("usage.col.calls"), number: true, cell: (g) => count(g.requests) },
    { title: t("usage.col.in"), number: true, cell: (g) => count(g.prompt_tokens) },
    { title: t("usage.col.cached"), number: true, cell: (g) => count(g.cached_tokens) },
    { title: t("usage.col.out"), number: true, cell: (g) => count(g.completion_tokens) },
    {
      title: t("usage.col.cost"),
      number: true,
      cell: (g) => (g.cost_usd === 0 && g.unpriced_requests > 0 ? "?" : dollars(g.cost_usd)),
    },
  ];

  const rows = by === "hour" ? [...(usage.groups ?? [])].reverse() : (usage.groups ?? []);

  return (
    <section>
      <h2>{t("usage.by")}</h2>
      <Tabs
        label={t("usage.by")}
        current={by}
        tabs={groupings.map((g) => ({ name: g, title: t(`value.usage.by.${g}`), href: `#/usage/${span}/${g}` }))}
      />
      <Table
        label={t(`value.usage.by.${by}`)}
        columns={columns}
        rows={rows}
        id={(g) => g.name}
        empty={t("usage.nogroups")}
      />
    </section>
  );
}
