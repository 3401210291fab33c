// Telegram in four steps: make a bot, give its token, connect it, write to it.
import { useEffect, useState } from "preact/hooks";
import { t } from "../../i18n/channels";
import { fail } from "../../state/toast";
import { safeHref, visible } from "../../text/links";
import { Field } from "../../ui/field";
import { Secret } from "../../ui/form";
import { State } from "../../ui/list";
import type { Checked, Invitation, People, Platform } from "../../wire/reads";
import { Found } from "./platform";
import { act } from "./wire";

export function Telegram({ p, people }: { p: Platform; people: People }) {
  const [token, setToken] = useState("");
  const [found, setFound] = useState<Checked>();
  const [busy, setBusy] = useState(false);
  const [link, setLink] = useState<Invitation>();
  const running = p.enabled && p.state === "running";
  const paired = people.approved.some((x) => x.channel === p.name && x.owner);
  const step = paired && running ? 5 : running ? 4 : found?.valid ? 3 : 2;
  const check = (e: Event) => {
    e.preventDefault();
    setBusy(true);
    act<Checked>("channel.validate", { name: p.name, settings: { token } })
      .then(setFound, fail)
      .finally(() => setBusy(false));
  };

  const connect = () => {
    setBusy(true);
    act("channel.configure", { name: p.name, settings: { token, enabled: true } })
      .catch(fail)
      .finally(() => setBusy(false));
  };

  useEffect(() => {
    if (step === 4 && !link) act<Invitation>("pairing.invite", { name: p.name }).then(setLink, fail);
  }, [step]);
  return (
    <section>
      <a class="hint" href="#/channels">
        {t("chan.back")}
      </a>
      <h2>{t("chan.tg.title")}</h2>
      <ol class="steps">
        <li>
          <h3>{t("chan.tg.1")}</h3>
          <p>{t("chan.tg.1.text")}</p>
          <p>
            <a href="https://t.me/BotFather" target="_blank" rel="noreferrer noopener">
              {t("chan.tg.1.open")}
            </a>
          </p>
        </li>
        <li>
          <h3>{t("chan.tg.2")}</h3>
          {running ? (
            <p>
              <State tone="good">{t("chan.works.as", { who: visible(p.identity ?? "") })}</State>
            </p>
          ) : (
            <form class="form" onSubmit={check}>
              <Field label={t("chan.tg.token")}>
                <Secret
                  value={token}
                  onChange={(v) => (setToken(typeof v === "string" ? v : ""), setFound(undefined))}
                />
              </Field>
              {found && <Found found={found} />}
              <div class="row">
                <button type="submit" class={step === 2 ? "button primary" : "button"} disabled={busy || !token}>
                  {t("chan.check")}
                </button>
              </div>
            </form>
          )}
        </li>
        <li aria-disabled={step < 3}>
          <h3>{t("chan.tg.3")}</h3>
          {step === 3 && !p.enabled && (
            <button type="button" class="button primary" disabled={busy} onClick={connect}>
              {t("chan.tg.connect", { who: visible(found?.identity ?? "") })}
            </button>
          )}
          {p.enabled && p.state !== "running" && (
            <p class="hint" role="status">
              {visible(p.reason || t("value.chan.starting"))}
            </p>
          )}
          {running && (
            <p>
              <State tone="good">{t("chan.connected")}</State>
            </p>
          )}
        </li>
        <li aria-disabled={step < 4}>
          <h3>{t("chan.tg.4")}</h3>
          {step === 4 && link && (
            <>
              <p>{t("chan.tg.4.text")}</p>
              <p>
                <img class="qr" src={link.qr_image} alt={t("chan.tg.qr")} />
              </p>
              <p>
                <a href={safeHref(link.url)} target="_blank" rel="noreferrer noopener">
                  {t("chan.tg.open")}
                </a>
              </p>
              <p class="hint" role="status">
                {t("chan.tg.wait")}
              </p>
            </>
          )}
          {step === 5 && (
            <p role="status">
              <State tone="good">{t("chan.tg.done")}</State>
            </p>
          )}
        </li>
      </ol>
      <div class="row">
        <a class="button" href={step === 5 ? "#/channels" : "#/channels/telegram"}>
          {step === 5 ? t("chan.done") : t("chan.tg.all")}
        </a>
      </div>
    </section>
  );
}
