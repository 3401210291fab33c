// Search in conversations and memory, with a jump to the message.
import { useEffect, useRef, useState } from "preact/hooks";
import { fullDate, t as say } from "../i18n";
import { t } from "../i18n/search";
import { useRead } from "../state/read";
import { chatHref, go } from "../state/route";
import { sessions } from "../state/store";
import { fail } from "../state/toast";
import { when } from "../text/figures";
import { label, visible } from "../text/links";
import { addDays } from "../text/series";
import { pieces } from "../text/snippet";
import { read } from "../wire/api";
import { Field } from "../ui/field";
import { Icon } from "../ui/icon";
import { Read } from "../ui/read";
import type { Found, Hit } from "../wire/reads";
import { Bar } from "./bar";
import type { PageProps } from "./table";

/** The route is #/search/WORDS/CONVERSATION/FROM/TO; a part that is - is not set. */
const part = (s?: string) => (s && s !== "-" ? s : "");

export default function SearchPage({ rest }: PageProps) {
  const [words, session, from, to] = [part(rest[0]), part(rest[1]), part(rest[2]), part(rest[3])];
  const day = (s: string) => (/^\d{4}-\d\d-\d\d$/.test(s) ? s : "");
  const query = { q: words, session, after: day(from), before: day(to) && addDays(day(to), 1) };
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    // back and forward; the field keeps the focus
    for (const [name, value] of Object.entries({ q: words, session, from, to }))
      (form.current!.elements.namedItem(name) as HTMLInputElement).value = value;
  }, [rest.join("/")]);

  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const parts = ["q", "session", "from", "to"].map((n) =>
      encodeURIComponent(String(form.get(n) ?? "").trim() || "-"),
    );
    while (parts[parts.length - 1] === "-") parts.pop();
    go("#/search/" + parts.join("/"));
  };

  return (
    <>
      <Bar title={say("page.search")} />
      <div class="page">
        <div class="inner">
          <form ref={form} class="search-form" role="search" onSubmit={submit}>
            <div class="row">
              <input
                class="input grow"
                type="search"
                name="q"
                aria-label={t("search.words")}
                placeholder={t("search.words")}
                defaultValue={words}
                maxLength={500}
                autofocus={!words}
              />
              <button type="submit" class="button primary">
                <Icon name="search" />
                {say("page.search")}
              </button>
            </div>
            <div class="row">
              <Field label={t("search.session")}>
                <select class="input" name="session" defaultValue={session}>
                  <option value="">{t("search.session.all")}</option>
                  {session && !sessions.value?.some((s) => s.key === session) && (
                    <option value={session} selected>
                      {visible(session)}
                    </option>
                  )}
                  {sessions.value?.map((s) => (
                    <option key={s.key} value={s.key} selected={s.key === session}>
                      {titleOf(s.key)}
                    </option>
                  ))}
                </select>
              </Field>
              <Field label={t("search.from")}>
                <input class="input" type="date" name="from" defaultValue={from} />
              </Field>
              <Field label={t("search.to")}>
                <input class="input" type="date" name="to" defaultValue={to} />
              </Field>
            </div>
          </form>
          {words ? <Results key={JSON.stringify(query)} query={query} /> : <p class="hint">{t("search.start")}</p>}
        </div>
      </div>
    </>
  );
}

function titleOf(key: string): string {
  const s = sessions.value?.find((x) => x.key === key);
  return label(s?.title || s?.preview || "") || visible(key);
}

function Results({ query }: { query: Record<string, string> }) {
  const first = useRead<Found>("search", query);
  const [more, setMore] = useState<Found | undefined>(undefined);
  useEffect(() => setMore(undefined), [first.data]);
  const next = (cursor: string) =>
    read<Found>("search", { ...query, cursor }).then(
      (f) => setMore((m) => ({ ...f, hits: [...(m?.hits ?? []), ...f.hits] })),
      fail,
    );

  return (
    <Read of={first}>
      {(f) => {
        const hits = [...f.hits, ...(more?.hits ?? [])];
        const cursor = more ? more.cursor : f.cursor;
        return (
          <section>
            <h2>
              <span role="status">
                {f.total === 0
                  ? t("search.none")
                  : f.at_least
                    ? t("search.atleast", { n: f.total })
                    : t("search.total", { n: f.total })}
              </span>
            </h2>
            {f.total === 0 && <p class="hint">{t("search.none.hint")}</p>}
            {f.behind && <p class="hint">{t("search.behind")}</p>}
            <ol class="hits">
              {hits.map((h, n) => (
                <Result key={n} hit={h} />
              ))}
            </ol>
            {cursor && (
              <button type="button" class="button" onClick={() => void next(cursor)}>
                {t("search.more")}
              </button>
            )}
          </section>
        );
      }}
    </Read>
  );
}

function Result({ hit }: { hit: Hit }) {
  const href = hrefOf(hit);
  const who =
    hit.role === "user"
      ? say("chat.you")
      : hit.role === "assistant"
        ? say("chat.answer")
        : hit.role === "tool"
          ? t("search.tool")
          : "";

  const title =
    hit.source === "session" || hit.source === "archive"
      ? titleOf(hit.session ?? "")
      : hit.source === "history"
        ? t("search.summary")
        : visible(hit.source);

  return (
    <li>
      <h3>{href ? <a href={href}>{title}</a> : title}</h3>
      <p class="hint">
        {[who, hit.source === "archive" && t("search.archive")].filter(Boolean).join(" · ")}{" "}
        {hit.at && (
          <time dateTime={hit.at} title={fullDate(hit.at)}>
            {when(hit.at)}
          </time>
        )}
        {hit.untrusted && <span class="mark">{say("tool.untrusted")}</span>}
      </p>
      <p class="snippet" dir="auto">
        {pieces(hit.snippet).map((p, n) => (p.hit ? <mark key={n}>{visible(p.text)}</mark> : visible(p.text)))}
      </p>
    </li>
  );
}

/** hrefOf is where a hit can be read. */
function hrefOf(hit: Hit): string | undefined {
  if (hit.source === "session" && hit.session)
    return chatHref(hit.session) + (hit.index === undefined ? "" : `/${hit.index}`);
  const file = /(?:^|\/)(USER|SOUL|MEMORY)\.md$/.exec(hit.source)?.[1];
  return file && !hit.source.includes("scopes/") ? `#/memory/${file}` : undefined;
}
