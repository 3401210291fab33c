// Checks of the installation, with buttons that fix what does not need a decision.
import { useState } from "preact/hooks";
import { t as words } from "../i18n";
import { t } from "../i18n/doctor";
import { findingTitle } from "../i18n/findings";
import { said } from "../i18n/said";
import { useRead } from "../state/read";
import { request } from "../state/store";
import { fail, toast } from "../state/toast";
import { visible } from "../text/links";
import { Dialog } from "../ui/dialog";
import { Read } from "../ui/read";
import type { Checkup, Finding } from "../wire/reads";
import { Bar } from "./bar";
import { Parts, When } from "./ops";

const order = ["fail", "warn", "skip", "ok"] as const;

export default function Doctor() {
  const checkup = useRead<Checkup>("doctor", {}, "doctor");
  const run = (network: boolean) => request("doctor.run", { network }).then(checkup.reload, fail);
  return (
    <>
      <Bar title={words("page.doctor")} />
      <div class="page">
        <div class="inner">
          <Parts current="doctor" />
          <Read of={checkup}>
            {(c) => (
              <>
                <section>
                  <p>{t("doctor.intro")}</p>
                  <div class="row">
                    <button type="button" class="button primary" disabled={c.running} onClick={() => run(true)}>
                      {t(c.running ? "doctor.running" : "doctor.run")}
                    </button>
                    <button type="button" class="button" disabled={c.running} onClick={() => run(false)}>
                      {t("doctor.run.offline")}
                    </button>
                  </div>
                  <p class="hint" role="status">
                    {c.running ? (
                      t("doctor.progress", { n: c.findings.length })
                    ) : c.started_at ? (
                      <>
                        {summary(c.findings)} <When at={c.started_at} />
                      </>
                    ) : (
                      t("doctor.never")
                    )}
                  </p>
                </section>
                {order.map((s) => (
                  <Group key={s} state={s} of={c.findings.filter((f) => f.state === s)} again={checkup.reload} />
                ))}
              </>
            )}
          </Read>
        </div>
      </div>
    </>
  );
}

function summary(all: Finding[]): string {
  const count = (s: string) => all.filter((f) => f.state === s).length;
  return t("doctor.summary", { broken: count("fail"), doubtful: count("warn"), fine: count("ok") });
}

function Group({ state, of, again }: { state: Finding["state"]; of: Finding[]; again(): void }) {
  if (of.length === 0) return null;
  return (
    <section>
      <h2>{t(`value.doctor.${state}`)}</h2>
      <ul class="rows">
        {of.map((f, i) => (
          <Row key={f.id + i} of={f} again={again} />
        ))}
      </ul>
    </section>
  );
}

const marks = { ok: "✓", warn: "!", fail: "✗", skip: "–" };

function Row({ of, again }: { of: Finding; again(): void }) {
  const [asked, setAsked] = useState(false);
  const title = findingTitle(of.id);
  const fix = () => {
    setAsked(false);
    request("doctor.fix", { id: of.id, changes: of.changes }).then(() => (toast(t("doctor.fixed")), again()), fail);
  };

  return (
    <li>
      <span class={"sign " + of.state} role="img" aria-label={t(`value.doctor.${of.state}`)}>
        {marks[of.state]}
      </span>
      <div class="grow">
        <strong>{title}</strong> <code class="hint">{visible(of.id)}</code>
        <p class="wrap">{visible(said(of.detail))}</p>
        {of.fix && <p class="hint wrap">{visible(said(of.fix))}</p>}
      </div>
      {of.changes && (
        <button
          type="button"
          class="button"
          aria-label={t("doctor.fix.of", { what: title })}
          onClick={() => setAsked(true)}
        >
          {t("doctor.fix")}
        </button>
      )}
      {asked && (
        <Dialog title={t("doctor.fix.of", { what: title })} onClose={() => setAsked(false)}>
          <p>{t("doctor.fix.text")}</p>
          <pre class="changes" tabIndex={0}>
            {of.changes?.map(visible).join("\n")}
          </pre>
          <div class="row">
            <button type="button" class="button" onClick={() => setAsked(false)}>
              {words("dialog.cancel")}
            </button>
            <button type="button" class="button primary" onClick={fix}>
              {t("doctor.fix")}
            </button>
          </div>
        </Dialog>
      )}
    </li>
  );
}
