// Signing in: by the link of `nanobot web`, by its code, or by another device.
import { useEffect, useRef, useState } from "preact/hooks";
import { failureText, t } from "../i18n";
import { go, route } from "../state/route";
import { start } from "../state/store";
import { fail } from "../state/toast";
import * as api from "../wire/api";
import type { LoginReply } from "../wire/types";

const command = "nanobot web";

/** takeCode removes the code of a link from the address before anything else. */
export function takeCode(): string {
  const r = route.peek();
  if (r.page !== "sign-in") return "";
  history.replaceState(null, "", "#/");
  route.value = { page: "chat" };
  return r.code;
}

export function SignIn({ code }: { code: string }) {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const [request, setRequest] = useState<LoginReply | undefined>(undefined);

  const done = async () => {
    setRequest(undefined);
    await start();
  };
  const attempt = async (body: { code: string } | { device: true }) => {
    setBusy(true);
    setWrong("");
    try {
      const reply = await api.login(body);
      if (reply.state === "in") await done();
      else setRequest(reply);
    } catch (e) {
      setWrong(e instanceof api.Refused ? failureText(e.failure) : String(e));
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    document.title = `${t("sign.title")} - ${t("app.name")}`;
    if (code) void attempt({ code });
  }, []);
  if (request) return <Waiting request={request} onDone={done} onEnd={(why) => (setRequest(undefined), setWrong(why))} />;

  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const typed = String(new FormData(e.currentTarget as HTMLFormElement).get("code") ?? "").replace(/[\s-]/g, "");
    if (typed) void attempt({ code: typed });
  };
  return (
    <main class="sign-in">
      <div class="box">
        <h1>{t("sign.title")}</h1>
        <p>{t("sign.how")}</p>
        <pre>{command}</pre>
        <p class="hint">{t("sign.how.after")}</p>
        <form onSubmit={submit}>
          <label class="field">
            <span>{t("sign.code")}</span>
            <input class="input code-input" name="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck={false} maxLength={64} aria-describedby="code-hint" />
            <span id="code-hint">{t("sign.code.hint")}</span>
          </label>
          <p class="wrong" role="alert">{wrong}</p>
          <button type="submit" class="button primary" disabled={busy}>{busy ? t("sign.busy") : t("sign.submit")}</button>
          <button type="button" class="button" disabled={busy} onClick={() => void attempt({ device: true })}>{t("sign.device")}</button>
        </form>
      </div>
    </main>
  );
}

const every = 2000;

function Waiting({ request, onDone, onEnd }: { request: LoginReply; onDone(): void; onEnd(why: string): void }) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    let current = true;
    const poll = async () => {
      try {
        const { state } = await api.login({ poll: request.poll ?? "" });
        if (!current) return;
        if (state === "in") return onDone();
        if (state === "denied") return onEnd(t("sign.device.denied"));
        if (state === "expired") return onEnd(t("sign.device.expired"));
      } catch (e) {
        if (!current) return;
        if (e instanceof api.Refused && e.failure.status !== 0 && e.failure.status !== 429) return onEnd(failureText(e.failure));
        fail(e);
      }
      timer.current = setTimeout(poll, every);
    };
    timer.current = setTimeout(poll, every);
    return () => {
      current = false;
      clearTimeout(timer.current);
    };
  }, [request.poll]);
  return (
    <main class="sign-in">
      <div class="box">
        <h1>{t("sign.device")}</h1>
        <p>{t("sign.device.how")}</p>
        <p class="digits" role="status" aria-label={t("sign.device.digits")}>{request.digits}</p>
        <button type="button" class="button" onClick={() => (onEnd(""), go("#/"))}>{t("sign.cancel")}</button>
      </div>
    </main>
  );
}
