// A button that turns speech into text of the message.
import { useEffect, useRef, useState } from "preact/hooks";
import { has, t } from "../i18n";
import { gateway } from "../state/base";
import { useRead } from "../state/read";
import { toast } from "../state/toast";
import { record, transcribe } from "../state/voice";
import type { Recording } from "../state/voice";
import { visible } from "../text/links";
import { Icon } from "../ui/icon";
import type { SettingsRead } from "../wire/reads";

type State = "idle" | "listening" | "reading";

/** Mic is shown only where the browser can record and speech is configured. */
export function Mic({ onText }: { onText(text: string): void }) {
  const able = navigator.mediaDevices !== undefined && typeof MediaRecorder !== "undefined";
  const settings = useRead<SettingsRead>(able && gateway.value?.signed_in ? "settings" : undefined, {}, "settings");
  const [state, setState] = useState<State>("idle");
  const running = useRef<Recording>(undefined);
  const left = useRef(false);
  useEffect(() => () => ((left.current = true), running.current?.cancel()), []);
  if (!settings.data?.speech) return null;
  const begin = () =>
    record().then(
      // The microphone stays on only if there is a button that turns it off.
      (r) => (left.current || running.current ? r.cancel() : ((running.current = r), setState("listening"))),
      () => toast(t("voice.denied"), true),
    );

  const finish = async () => {
    const r = running.current!;
    running.current = undefined;
    setState("reading");
    try {
      const { data, ms } = await r.stop();
      onText(await transcribe(data, ms));
    } catch (why) {
      const key = `value.voice.${String(why)}`;
      toast(t("voice.failed", { why: has(key) ? t(key) : visible(String(why)) }), true);
    }

    setState("idle");
  };

  const words = state === "idle" ? t("voice.start") : state === "listening" ? t("voice.stop") : t("voice.reading");

  return (
    <button
      type="button"
      class={state === "listening" ? "button plain on" : "button plain"}
      disabled={state === "reading"}
      aria-pressed={state === "listening"}
      onClick={() => void (state === "idle" ? begin() : finish())}
    >
      <Icon name={state === "listening" ? "stop" : "mic"} />
      {state === "idle" ? <span class="sr">{words}</span> : words}
    </button>
  );
}
