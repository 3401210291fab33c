// People who ask to be let in, and those who are.
import { useState } from "preact/hooks";
import { fullDate } from "../../i18n";
import { t } from "../../i18n/channels";
import { shortDate } from "../../ui/days";
import { fail, toast } from "../../state/toast";
import { label, visible } from "../../text/links";
import { Confirm, Row, State } from "../../ui/list";
import type { People as All } from "../../wire/reads";
import { act } from "./wire";

export function People({ all }: { all: All }) {
  const [out, setOut] = useState<All["approved"][number]>();
  const channels = [...new Set(all.approved.map((p) => p.channel))];
  const revoke = () =>
    out &&
    void act("pairing.revoke", { channel: out.channel, sender_id: out.sender_id }).then(
      () => toast(t("chan.revoked")),
      fail,
    );

  return (
    <>
      <section>
        <h2>{t("chan.requests")}</h2>
        {all.pending.length === 0 ? (
          <p class="hint">{t("chan.requests.none")}</p>
        ) : (
          <p class="hint">{t("chan.requests.about")}</p>
        )}
        <ul class="things">
          {all.pending.map((r) => (
            <Request key={r.channel + r.sender_id} r={r} />
          ))}
        </ul>
      </section>
      <section>
        <h2>{t("chan.people")}</h2>
        {all.approved.length === 0 && <p class="hint">{t("chan.people.none")}</p>}
        {channels.map((c) => (
          <section key={c}>
            <h3>{label(c)}</h3>
            <ul class="things">
              {all.approved
                .filter((p) => p.channel === c)
                .map((p) => (
                  <Row
                    key={p.sender_id}
                    title={visible(p.sender_id)}
                    state={
                      p.owner ? (
                        <State tone="good">{t("chan.owner")}</State>
                      ) : (
                        <State tone="off">{t("chan.guest")}</State>
                      )
                    }
                  >
                    <button type="button" class="button danger" onClick={() => setOut(p)}>
                      {t("chan.revoke")}
                    </button>
                  </Row>
                ))}
            </ul>
          </section>
        ))}
      </section>
      {out && (
        <Confirm
          title={t("chan.revoke.title", { who: visible(out.sender_id) })}
          text={t("chan.revoke.text")}
          action={t("chan.revoke")}
          onConfirm={revoke}
          onClose={() => setOut(undefined)}
        />
      )}
    </>
  );
}

/** Request is approved with the code that the person was shown, so that no other person is let in. */
function Request({ r }: { r: All["pending"][number] }) {
  const [code, setCode] = useState("");
  const approve = (owner: boolean) =>
    void act("pairing.approve", { code, owner }).then(
      () => toast(t("chan.approved", { who: visible(r.sender_id) })),
      fail,
    );

  return (
    <li class="thing ask">
      <div class="what">
        <b>{visible(r.sender_id)}</b>
        <span class="state">{label(r.channel)}</span>
        <span class="hint">
          <time dateTime={r.expires_at} title={fullDate(r.expires_at)}>
            {t("chan.until", { at: shortDate(r.expires_at) })}
          </time>
        </span>
      </div>
      <form class="row" onSubmit={(e) => (e.preventDefault(), approve(false))}>
        <input
          class="input pair-code"
          required
          aria-label={t("chan.code.of", { who: visible(r.sender_id) })}
          placeholder={t("chan.code")}
          value={code}
          autocomplete="off"
          onInput={(e) => setCode(e.currentTarget.value)}
        />
        <button type="submit" class="button primary">
          {t("chan.approve")}
        </button>
        <button type="button" class="button" disabled={!code} onClick={() => approve(true)}>
          {t("chan.approve.owner")}
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => void act("pairing.deny", { code: r.sender_id }).catch(fail)}
        >
          {t("chan.deny")}
        </button>
      </form>
    </li>
  );
}
