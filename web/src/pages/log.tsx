// The log of the gateway, from its end.
import { useEffect, useRef, useState } from "preact/hooks";
import { failureText, fullDate, t as words } from "../i18n";
import { t } from "../i18n/log";
import { onChange } from "../state/read";
import { chatHref } from "../state/route";
import { visible } from "../text/links";
import { Field } from "../ui/field";
import { Refused, read } from "../wire/api";
import type { LogLine, LogPage } from "../wire/reads";
import { Bar } from "./bar";
import { Parts } from "./ops";

const pause = 1000; // between two reads of new lines
const most = 2000; // lines on the page

export default function Log({ rest }: { rest: string[] }) {
  const [query, setQuery] = useState({ level: "info", session: rest[0] ?? "", q: "" });
  const [page, setPage] = useState<LogPage | undefined>(undefined);
  const [wrong, setWrong] = useState("");
  const [live, setLive] = useState(true);
  const [loading, setLoading] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  // New lines come before those that are shown; a gap is closed by starting again.
  useEffect(() => {
    let left = false;
    let planned = false;
    let last = 0;
    const newest = () => {
      planned = false;
      last = Date.now();
      read<LogPage>("log", query).then(
        (p) => {
          if (left) return;
          setWrong("");
          setPage((old) => {
            const n = old ? p.lines.findIndex((l) => l.id === old.lines[0]?.id) : -1;
            return old && n >= 0
              ? {
                  lines: [...p.lines.slice(0, n), ...old.lines].slice(0, most),
                  before: old.lines.length + n > most ? old.lines[most - n - 1]?.id : old.before,
                }
              : p;
          });
        },
        (e) => left || setWrong(e instanceof Refused ? failureText(e.failure) : String(e)),
      );
    };

    setPage(undefined);
    newest();
    const stop = live
      ? onChange("log", () => {
          if (planned) return;
          planned = true;
          timer.current = setTimeout(newest, Math.max(0, last + pause - Date.now()));
        })
      : undefined;

    return () => {
      left = true;
      stop?.();
      clearTimeout(timer.current);
    };
  }, [query.level, query.session, query.q, live]);

  const older = () => {
    setLoading(true);
    read<LogPage>("log", { ...query, before: page?.before })
      .then(
        (p) => setPage((old) => ({ lines: [...(old?.lines ?? []), ...p.lines], before: p.before })),
        (e) => setWrong(e instanceof Refused ? failureText(e.failure) : String(e)),
      )
      .finally(() => setLoading(false));
  };

  const typed = useRef<ReturnType<typeof setTimeout>>(undefined);
  const type = (change: Partial<typeof query>) => {
    clearTimeout(typed.current);
    typed.current = setTimeout(() => setQuery({ ...query, ...change }), 250);
  };

  return (
    <>
      <Bar title={words("page.log")} />
      <div class="page">
        <div class="inner wide">
          <Parts current="log" />
          <div class="filters">
            <Field label={t("log.level")}>
              <select
                class="input"
                value={query.level}
                onChange={(e) => setQuery({ ...query, level: e.currentTarget.value })}
              >
                {(["debug", "info", "warn", "error"] as const).map((l) => (
                  <option key={l} value={l}>
                    {t(`value.log.${l}`)}
                  </option>
                ))}
              </select>
            </Field>
            <Field label={t("log.words")}>
              <input class="input" type="search" maxLength={200} onInput={(e) => type({ q: e.currentTarget.value })} />
            </Field>
            <Field label={t("log.session")}>
              <input
                class="input"
                type="search"
                defaultValue={query.session}
                onInput={(e) => type({ session: e.currentTarget.value })}
              />
            </Field>
            <label class="row">
              <input type="checkbox" checked={live} onChange={(e) => setLive(e.currentTarget.checked)} />
              {t("log.live")}
            </label>
          </div>
          {wrong && (
            <p class="wrong" role="alert">
              {wrong}
            </p>
          )}
          {!page && !wrong && (
            <p class="hint" role="status">
              {words("app.loading")}
            </p>
          )}
          {page && page.lines.length === 0 && <p class="hint">{t(page.before ? "log.none.yet" : "log.none")}</p>}
          {page && (
            <ol class="log" aria-label={words("page.log")}>
              {page.lines.map((l) => (
                <Line key={l.id} of={l} />
              ))}
            </ol>
          )}
          {page?.before && (
            <div>
              <button type="button" class="button" disabled={loading} onClick={older}>
                {t("log.older")}
              </button>
            </div>
          )}
        </div>
      </div>
    </>
  );
}

/** clock is a time of this device, short and of constant width. */
function clock(at: string): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return Number.isNaN(d.getTime())
    ? ""
    : `${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

function Line({ of }: { of: LogLine }) {
  const level = of.level ?? "";
  return (
    <li class={level === "error" ? "bad" : level === "warn" ? "warn" : undefined}>
      <time dateTime={of.at} title={of.at && fullDate(of.at)}>
        {of.at && clock(of.at)}
      </time>
      <span class="level">{visible(level)}</span>
      <div class="grow">
        <span class="wrap">{visible(of.message)}</span>
        {of.attrs && (
          <p class="hint wrap">
            {of.attrs.map(([name, value]) => (
              <span key={name}>
                {name && <b>{visible(name)}=</b>}
                {name === "session" ? <a href={chatHref(value)}>{visible(value)}</a> : visible(value)}{" "}
              </span>
            ))}
          </p>
        )}
      </div>
    </li>
  );
}
