// Speech becomes text on the gateway.
import type { Event } from "../wire/types";
import { wired } from "./base";
import { uuid } from "./local";

const waiting = new Map<string, { done(text: string): void; failed(why: string): void }>();

/** heard gives the answer of the gateway to who waits for it. */
export function heard(e: Event) {
  const w = waiting.get(e.request_id ?? "");
  waiting.delete(e.request_id ?? "");
  if (e.event === "transcription_result") w?.done(e.text ?? "");
  else w?.failed(e.detail ?? "");
}

/** transcribe rejects with the reason in the words of the protocol. */
export function transcribe(data: string, ms: number): Promise<string> {
  return new Promise((done, failed) => {
    const id = uuid();
    waiting.set(id, { done, failed });
    if (!wired.socket?.send({ type: "transcribe_audio", request_id: id, data_url: data, duration_ms: ms })) {
      waiting.delete(id);
      failed("offline");
    }
  });
}

export interface Recording {
  stop(): Promise<{ data: string; ms: number }>;
  cancel(): void;
}

/** record begins to listen; the browser asks the person first. */
export async function record(): Promise<Recording> {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream);
  const pieces: Blob[] = [];
  const began = performance.now();
  recorder.ondataavailable = (e) => pieces.push(e.data);
  recorder.start();
  const end = () => stream.getTracks().forEach((t) => t.stop());

  return {
    stop: () =>
      new Promise((done, failed) => {
        recorder.onstop = () => {
          end();
          const reader = new FileReader();
          reader.onload = () =>
            done({
              data: String(reader.result).replace(/^data:([^;,]+)[^,]*?;base64,/, "data:$1;base64,"),
              ms: Math.round(performance.now() - began),
            });

          reader.onerror = () => failed("decode");
          reader.readAsDataURL(new Blob(pieces, { type: recorder.mimeType }));
        };
        recorder.stop();
      }),
    cancel: () => {
      recorder.onstop = null;
      recorder.stop();
      end();
    },
  };
}
