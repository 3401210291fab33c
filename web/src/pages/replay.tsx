// One turn, step by step: what took how long, and what it cost.
import { count, fullDate, t as say } from "../i18n";
import { t } from "../i18n/replay";
import { useRead } from "../state/read";
import { chatHref } from "../state/route";
import { dollars, took } from "../text/figures";
import { visible } from "../text/links";
import { timesOf } from "../text/replay";
import type { Placed, Times } from "../text/replay";
import { Lanes } from "../ui/chart";
import { Read } from "../ui/read";
import { Table } from "../ui/table";
import type { Replayed } from "../wire/reads";
import { Bar } from "./bar";
import type { PageProps } from "./table";

export default function ReplayPage({ rest }: PageProps) {
  const [key, id] = [rest[0] ?? "", rest[1] ?? ""];
  const turn = useRead<Replayed>(
    key && id ? `sessions/${encodeURIComponent(key)}/turns/${encodeURIComponent(id)}` : undefined,
  );
  return (
    <>
      <Bar title={say("page.replay")}>
        {key && (
          <a class="button plain" href={chatHref(key)}>
            {t("replay.chat")}
          </a>
        )}
      </Bar>
      <div class="page">
        <div class="inner wide">
          {key && id ? (
            <Read of={turn}>{(x) => <Replay turn={x} session={key} />}</Read>
          ) : (
            <p class="hint">{t("replay.none")}</p>
          )}
        </div>
      </div>
    </>
  );
}

function Replay({ turn, session }: { turn: Replayed; session: string }) {
  const times = timesOf(turn);
  return (
    <>
      <section>
        <h2>{fullDate(turn.began_at)}</h2>
        <Sums times={times} />
        <p class="hint">
          {[turn.model && visible(turn.model), turn.stop_reason && visible(turn.stop_reason)]
            .filter(Boolean)
            .join(" · ")}
        </p>
        {turn.error && <p class="wrong">{visible(turn.error)}</p>}
      </section>
      <section>
        <h2>{t("replay.timeline")}</h2>
        <Timeline times={times} />
      </section>
      <section>
        <h2>{t("replay.steps")}</h2>
        {turn.cut && <p class="hint">{t("replay.cut")}</p>}
        {times.calls === 0 && <p class="hint">{t("replay.nocalls")}</p>}
        <div class="steps">
          <Table
            label={t("replay.steps")}
            rows={times.steps.map((s, n) => ({ ...s, n }))}
            id={(s) => String(s.n)}
            empty={t("replay.empty")}
            columns={[
              { title: t("replay.col.at"), number: true, cell: (s) => took(s.from) },
              { title: t("replay.col.what"), cell: (s) => <What step={s} session={session} /> },
              { title: t("replay.col.took"), number: true, cell: (s) => (s.said ? "" : took(s.duration_ms)) },
              {
                title: t("replay.col.first"),
                number: true,
                cell: (s) => (s.model?.first_token_ms ? took(s.model.first_token_ms) : ""),
              },
              {
                title: t("replay.col.tokens"),
                number: true,
                cell: (s) => s.model && `${count(s.model.prompt_tokens)} → ${count(s.model.completion_tokens)}`,
              },
              {
                title: t("replay.cost"),
                number: true,
                cell: (s) => s.model && (s.model.billing === "unknown" ? "?" : dollars(s.model.cost_usd)),
              },
            ]}
          />
        </div>
      </section>
    </>
  );
}

function Sums({ times }: { times: Times }) {
  const rows: [string, string][] = [
    [t("replay.total"), took(times.total)],
    [t("replay.model"), took(times.model)],
    [t("replay.tools"), took(times.tools)],
    ...(times.people > 0 ? [[t("replay.people"), took(times.people)] as [string, string]] : []),
    [t("replay.other"), took(times.other)],
    [t("replay.tokens"), count(times.tokens)],
    [t("replay.cost"), times.unknown > 0 ? `${dollars(times.usd)} + ?` : dollars(times.usd)],
  ];
  return (
    <div class="sums">
      {rows.map(([name, value]) => (
        <div key={name}>
          <span>{name}</span>
          <b>{value}</b>
        </div>
      ))}
    </div>
  );
}

function Timeline({ times }: { times: Times }) {
  const share = (ms: number) => ms / times.total;
  const span = (s: Placed) => ({
    from: share(s.from),
    to: share(s.to),
    name: `${nameOf(s)}: ${took(s.duration_ms)}`,
    bad: s.tool?.is_error || (s.model !== undefined && s.model.outcome !== "ok"),
    filled: s.model?.first_token_ms ? share(s.from + s.model.first_token_ms) : undefined,
  });

  const lanes = [
    { title: t("replay.model"), spans: times.steps.filter((s) => s.model).map(span) },
    { title: t("replay.tools"), spans: times.steps.filter((s) => s.tool).map(span) },
    { title: t("replay.people"), spans: times.steps.filter((s) => s.wait).map(span) },
  ];

  return (
    <>
      <Lanes
        label={t("replay.timeline.label", { n: times.steps.length, total: took(times.total) })}
        lanes={lanes}
        ticks={[0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, label: took(at * times.total) }))}
      />
      <p class="hint">{t("replay.mark")}</p>
    </>
  );
}

const nameOf = (s: Placed) =>
  s.model ? visible(s.model.model) : s.tool ? visible(s.tool.name) : s.wait ? t("replay.people") : "";

function What({ step: s, session }: { step: Placed; session: string }) {
  if (s.said) {
    return (
      <>
        <a href={`${chatHref(session)}/${s.said.index}`}>
          {s.said.role === "user" ? say("chat.you") : say("chat.answer")}
        </a>
        <span class="arg">{visible(s.said.text)}</span>
      </>
    );
  }

  if (s.wait) {
    return (
      <>
        {t("replay.waited", { answer: visible(s.wait.answer) })}
        <span class="arg" title={visible(s.wait.question)}>
          {visible(s.wait.question)}
        </span>
      </>
    );
  }

  if (s.tool) {
    return (
      <>
        {visible(s.tool.name)} {s.tool.is_error && <span class="bad">{say("tool.failed")}</span>}{" "}
        {s.tool.untrusted && <span class="mark">{say("tool.untrusted")}</span>}
        <span class="arg" title={visible(s.tool.arguments)}>
          {visible(s.tool.arguments)}
        </span>
        {s.tool.edits?.map((e) => (
          <span key={e.path} class="arg">
            {t("replay.edit", { path: visible(e.path), added: e.added ?? 0, deleted: e.deleted ?? 0 })}
          </span>
        ))}
      </>
    );
  }

  const m = s.model!;

  return (
    <>
      {visible(m.model)} {m.source === "subagent" && t("replay.subagent")}{" "}
      {m.outcome !== "ok" && <span class="bad">{visible(m.outcome)}</span>}
    </>
  );
}
