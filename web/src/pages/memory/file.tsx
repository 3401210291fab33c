// A memory file: its lines, and where each comes from.
import { useMemo, useState } from "preact/hooks";
import { t } from "../../i18n/memory";
import { useRead } from "../../state/read";
import { chatHref, go } from "../../state/route";
import { dateOf, kib } from "../../text/figures";
import { visible } from "../../text/links";
import { useHeldFocus } from "../../ui/focus";
import { Growing } from "../../ui/grow";
import { Icon } from "../../ui/icon";
import { Read } from "../../ui/read";
import type { Fact, FactList, MemoryFile, Origin } from "../../wire/reads";
import { Edit } from "./edit";
import { Forget } from "./forget";
import { nameOf } from "./name";

export function FileView({ file, scope }: { file: MemoryFile; scope?: string }) {
  const [words, setWords] = useState("");
  const [editing, setEditing] = useState(false);
  const [forgetting, setForgetting] = useState<string | undefined>(undefined);
  const why = useRead<FactList>("memory/why", { file: nameOf(file.path), scope, v: file.version }, "memory");
  const search = (e: SubmitEvent) => {
    e.preventDefault();
    if (words.trim()) go("#/search/" + encodeURIComponent(words.trim()));
  };

  return (
    <section class="memory">
      <div class="between">
        <h2>{visible(file.path)}</h2>
        <span class="hint">{t("memory.used", { used: kib(file.bytes), cap: kib(file.cap) })}</span>
        <span class="row">
          <button type="button" class="button" onClick={() => setEditing(true)}>
            <Icon name="edit" />
            {t("memory.edit")}
          </button>
          <button type="button" class="button danger" onClick={() => setForgetting("")}>
            {t("memory.forget")}
          </button>
        </span>
      </div>
      {editing ? (
        <Edit file={file} scope={scope} onClose={() => setEditing(false)} />
      ) : (
        <>
          {file.text.trim() === "" ? (
            <p class="hint">{t("memory.empty")}</p>
          ) : (
            <>
              <form class="row" role="search" onSubmit={search}>
                <input
                  class="input grow"
                  type="search"
                  aria-label={t("memory.filter")}
                  placeholder={t("memory.filter")}
                  value={words}
                  onInput={(e) => setWords(e.currentTarget.value)}
                />
                {words.trim() && (
                  <button type="submit" class="button">
                    {t("memory.searchall")}
                  </button>
                )}
              </form>
              <Read of={why}>
                {(w) => <Lines text={file.text} facts={w.facts} words={words} onForget={setForgetting} />}
              </Read>
            </>
          )}
        </>
      )}
      {forgetting !== undefined && <Forget text={forgetting} onClose={() => setForgetting(undefined)} />}
    </section>
  );
}

function Lines({
  text,
  facts,
  words,
  onForget,
}: {
  text: string;
  facts: Fact[];
  words: string;
  onForget(line: string): void;
}) {
  const rows = useMemo(() => {
    const known = new Map(facts.map((f) => [f.line, f]));
    return text.split("\n").map((line, n) => ({ line, fact: known.get(n + 1) }));
  }, [text, facts]);

  const list = useHeldFocus<HTMLUListElement>(rows);
  const wanted = words.trim().toLowerCase();
  const shown = rows.filter((r) => r.line.trim() !== "" && (!wanted || r.line.toLowerCase().includes(wanted)));
  if (shown.length === 0) return <p class="hint">{t("memory.nofilter")}</p>;

  return (
    <ul class="lines" ref={list} tabIndex={-1} aria-label={t("memory.lines")}>
      <Growing key={wanted} rows={shown}>
        {(r, n) =>
          r.fact ? (
            <Line key={r.fact.line} fact={r.fact} onForget={onForget} />
          ) : (
            <li key={`t${n}`} class="plain">
              {visible(r.line.replace(/^#+\s*/, ""))}
            </li>
          )
        }
      </Growing>
    </ul>
  );
}

function Line({ fact, onForget }: { fact: Fact; onForget(line: string): void }) {
  const text = fact.text.replace(/^[-*]\s+/, "");
  return (
    <li>
      <span class="words" dir="auto">
        {visible(text)}
      </span>
      <span class="why">
        <Why fact={fact} />
      </span>
      <button
        type="button"
        class="button plain square"
        aria-label={t("memory.forget.line", { line: visible(text).slice(0, 80) })}
        onClick={() => onForget(text)}
      >
        <Icon name="close" />
      </button>
    </li>
  );
}

function Why({ fact }: { fact: Fact }) {
  if (fact.by_hand) return <>{t("memory.why.hand")}</>;
  const from = <Sources of={fact.sources} />;
  return (
    <span title={fact.finding && visible(fact.finding)}>
      {fact.guessed && t("memory.why.guessed")} {from} {fact.edited && t("memory.why.edited")}{" "}
      {fact.confirmed && t("memory.why.confirmed")}
      {!fact.sources?.length && (fact.time ? t("memory.why.unknown", { at: dateOf(fact.time) }) : t("memory.why.lost"))}
    </span>
  );
}

/** Sources are the conversations that something comes from. */
export function Sources({ of }: { of?: Origin[] }) {
  return (
    <>
      {of?.slice(0, 3).map((o, n) => {
        const channel = o.session?.split(":")[0] ?? "";
        const who = [
          o.sender && visible(o.sender),
          channel && visible(channel),
          o.time && dateOf(o.time.replace(" ", "T")),
        ]
          .filter(Boolean)
          .join(", ");

        return (
          <span key={n}>
            {n > 0 && "; "}
            {o.session ? <a href={chatHref(o.session)}>{who}</a> : who}
          </span>
        );
      })}
      {of && of.length > 3 && <span> {t("memory.why.more", { n: of.length - 3 })}</span>}
    </>
  );
}
