// The page as an installed app: service worker and notifications.
import { signal } from "@preact/signals";
import { read } from "../wire/api";
import { trusted } from "../text/trusted";
import type { PushRead } from "../wire/reads";
import { gateway, request } from "./store";

export type PushState = "unknown" | "insecure" | "unsupported" | "disabled" | "denied" | "off" | "on";
export const pushState = signal<PushState>("unknown");

const can = () => isSecureContext && "serviceWorker" in navigator;
const installed = () => matchMedia("(display-mode: standalone)").matches;

function register(): Promise<ServiceWorkerRegistration> {
  return navigator.serviceWorker.register(trusted(gateway.peek()?.gateway ?? ""), { scope: "./" });
}

/** startInstalled gives the app its service worker; a page in a tab has none, unless
 *  it shows notifications, because it would only make the start slower. */
export function startInstalled() {
  if (!can()) return;
  const go = () => void register().catch((e) => console.warn("no service worker", e));
  if (installed()) go();
  addEventListener("appinstalled", go);
}

async function subscription(): Promise<PushSubscription | null> {
  const registration = await navigator.serviceWorker.getRegistration("./");
  return (await registration?.pushManager.getSubscription()) ?? null;
}

/** readPush finds out whether this device gets notifications. */
export async function readPush() {
  if (!isSecureContext) return void (pushState.value = "insecure");
  if (!can() || !("PushManager" in globalThis) || !("Notification" in globalThis) || !gateway.peek()?.device)
    return void (pushState.value = "unsupported");
  const push = await read<PushRead>("push");
  const sub = await subscription();
  const here = push.devices.includes(gateway.peek()?.device?.id ?? "");
  if (!push.enabled) pushState.value = "disabled";
  else if (Notification.permission === "denied") pushState.value = "denied";
  else pushState.value = sub && here ? "on" : "off";
}

/** subscribe asks the browser, then tells the gateway where messages go. */
export async function subscribe() {
  if ((await Notification.requestPermission()) !== "granted") return readPush();
  const { key } = await read<PushRead>("push");
  await register();
  try {
    const ready = await navigator.serviceWorker.ready;
    await (await ready.pushManager.getSubscription())?.unsubscribe(); // it may belong to another key
    const sub = await ready.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    const { endpoint, keys } = sub.toJSON();
    await request("push.subscribe", {
      device: gateway.peek()?.device?.id,
      endpoint,
      p256dh: keys?.p256dh,
      auth: keys?.auth,
    });
  } catch (e) {
    await unregister();
    throw e;
  }

  await readPush();
}

async function unregister() {
  if (!installed()) await (await navigator.serviceWorker.getRegistration("./"))?.unregister();
}

export async function unsubscribe() {
  await request("push.unsubscribe", { device: gateway.peek()?.device?.id });
  await (await subscription())?.unsubscribe();
  await unregister();
  await readPush();
}
