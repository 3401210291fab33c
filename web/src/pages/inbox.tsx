// Questions that wait for an answer, what was answered before, and a test of calls.
import { useState } from "preact/hooks";
import { fullDate, t as shell } from "../i18n";
import { t } from "../i18n/changes";
import { Approval, optionLabel } from "../chat/approval";
import { titleOf } from "../chat/chat";
import { questions } from "../state/inbox";
import type { QuestionItem } from "../state/items";
import { useRead } from "../state/read";
import { chatHref } from "../state/route";
import { request } from "../state/store";
import { fail } from "../state/toast";
import { visible } from "../text/links";
import { Field } from "../ui/field";
import { Read } from "../ui/read";
import { Table } from "../ui/table";
import { read } from "../wire/api";
import type { AnswerPage, Explained } from "../wire/reads";
import type { Asked } from "../wire/types";
import { Bar } from "./bar";

const itemOf = (q: Asked): QuestionItem => ({
  kind: "question",
  id: q.id,
  text: q.text ?? "",
  options: q.options ?? [],
  code: q.code ?? "",
  expires: q.expires,
  detail: q.detail,
  state: "open",
});

const when = (at: string) =>
  new Date(at).toLocaleString(document.documentElement.lang || undefined, { dateStyle: "short", timeStyle: "short" });

export default function Inbox() {
  const open = questions.value;
  return (
    <>
      <Bar title={shell("page.inbox")} />
      <div class="page">
        <div class="inner">
          <section>
            <h2>{t("inbox.open")}</h2>
            {open.length === 0 && <p class="hint">{t("inbox.none")}</p>}
            {open.map((q) => (
              <div key={q.id}>
                <p class="hint">
                  <a href={chatHref(q.key)}>{titleOf(q.key)}</a>
                </p>
                <Approval item={itemOf(q)} chat={q.channel === "websocket" ? q.chat_id : undefined} />
              </div>
            ))}
          </section>
          <History />
          <Try />
        </div>
      </div>
    </>
  );
}

function History() {
  const first = useRead<AnswerPage>("approvals/history", { limit: 20 }, "questions");
  const [older, setOlder] = useState<AnswerPage | undefined>(undefined);
  const more = (cursor: string) =>
    void read<AnswerPage>("approvals/history", { limit: 50, cursor }).then(
      (p) => setOlder({ answers: [...(older?.answers ?? []), ...p.answers], cursor: p.cursor }),
      fail,
    );

  return (
    <section>
      <h2>{t("inbox.history")}</h2>
      <Read of={first}>
        {(page) => {
          const rows = [...page.answers, ...(older?.answers ?? [])];
          const cursor = older ? older.cursor : page.cursor;
          return (
            <>
              <Table
                label={t("inbox.history")}
                rows={rows}
                id={(r) => r.at + r.what}
                empty={t("inbox.history.none")}
                columns={[
                  {
                    title: t("inbox.when"),
                    cell: (r) => (
                      <time dateTime={r.at} title={fullDate(r.at)}>
                        {when(r.at)}
                      </time>
                    ),
                  },
                  {
                    title: t("inbox.what"),
                    cell: (r) => (
                      <a
                        class="quiet"
                        href={chatHref(r.key)}
                      >{`${r.tool ? visible(r.tool) + ": " : ""}${visible(r.what)}`}</a>
                    ),
                  },
                  {
                    title: t("inbox.answer"),
                    cell: (r) =>
                      r.expired
                        ? t("inbox.expired")
                        : `${optionLabel(r.option ?? "")}${r.remark ? `: ${visible(r.remark)}` : ""}`,
                  },
                ]}
              />
              {cursor && (
                <div>
                  <button type="button" class="button" onClick={() => more(cursor)}>
                    {t("inbox.more")}
                  </button>
                </div>
              )}
            </>
          );
        }}
      </Read>
    </section>
  );
}

/** Try says what would happen to a call. */
function Try() {
  const [said, setSaid] = useState<Explained | undefined>(undefined);
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const text = String(form.get("arguments"));
    let args: unknown = { command: text };
    try {
      const parsed: unknown = JSON.parse(text);
      if (typeof parsed === "object" && parsed !== null) args = parsed;
    } catch {
      // a command
    }

    request<Explained>("approval.explain", {
      tool: String(form.get("tool")),
      arguments: args,
      tainted: form.get("tainted") !== null,
    }).then(setSaid, fail);
  };

  return (
    <section>
      <h2>{t("inbox.try")}</h2>
      <p class="hint">{t("inbox.try.hint")}</p>
      <form class="try" onSubmit={submit}>
        <Field label={t("inbox.try.tool")}>
          <input class="input" name="tool" value="exec" required maxLength={64} />
        </Field>
        <Field label={t("inbox.try.arguments")}>
          <textarea class="input" name="arguments" rows={2} required maxLength={20000} />
        </Field>
        <label class="check">
          <input type="checkbox" name="tainted" />
          {t("inbox.try.tainted")}
        </label>
        <div>
          <button type="submit" class="button">
            {t("inbox.try.run")}
          </button>
        </div>
      </form>
      {said && (
        <div role="status">
          <p>
            <strong>{t(`value.action.${said.action}`)}</strong> {said.reason && visible(said.reason)}
          </p>
          {said.rule && <p class="hint">{t("inbox.try.rule", { rule: visible(said.rule) })}</p>}
        </div>
      )}
    </section>
  );
}
