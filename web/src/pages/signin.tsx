// Signing in: by the link of `nanobot web`, by its code, or by another device.
import { effect, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { failureText, t } from "../i18n";
import { go, route } from "../state/route";
import { gateway, reachable, start } from "../state/store";
import { fail } from "../state/toast";
import * as api from "../wire/api";
import type { LoginReply } from "../wire/types";

const command = "nanobot web";

const code = signal(""); // of a link, until it is used

/** watchCodes takes the code of a link out of the address before anything else, also
 *  if the link is opened in a page that is already there. It works once, and a device
 *  that is signed in needs none. */
export function watchCodes() {
  effect(() => {
    const r = route.value;
    if (r.page === "sign-in") {
      history.replaceState(null, "", "#/");
      route.value = { page: "chat" };
      code.value = r.code;
    }
    if (gateway.value?.signed_in) code.value = "";
  });
}

/** arriving says that a link was opened here, and that it is not known yet whether it is needed. */
export const arriving = () => code.value !== "" && gateway.value === undefined && reachable.value;

export function SignIn() {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState("");
  const [request, setRequest] = useState<LoginReply | undefined>(undefined);

  const done = async () => {
    setRequest(undefined);
    await start();
    if (gateway.peek()?.signed_in === false) setWrong(t("sign.cookies"));
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
  }, []);
  const given = code.value;
  useEffect(() => {
    if (given) void attempt({ code: given });
    code.value = "";
  }, [given]);
  if (request)
    return <Waiting request={request} onDone={done} onEnd={(why) => (setRequest(undefined), setWrong(why))} />;

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
            <input
              class="input code-input"
              name="code"
              autocomplete="one-time-code"
              autocapitalize="characters"
              spellcheck={false}
              maxLength={64}
              aria-describedby="code-hint"
            />
            <span id="code-hint">{t("sign.code.hint")}</span>
          </label>
          <p class="wrong" role="alert">
            {wrong}
          </p>
          <button type="submit" class="button primary" disabled={busy}>
            {busy ? t("sign.busy") : t("sign.submit")}
          </button>
          <button type="button" class="button" disabled={busy} onClick={() => void attempt({ device: true })}>
            {t("sign.device")}
          </button>
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
        if (e instanceof api.Refused && e.failure.status !== 0 && e.failure.status !== 429)
          return onEnd(failureText(e.failure));
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
        <p class="digits" role="status" aria-label={t("sign.device.digits")}>
          {request.digits}
        </p>
        <button type="button" class="button" onClick={() => (onEnd(""), go("#/"))}>
          {t("sign.cancel")}
        </button>
      </div>
    </main>
  );
}
