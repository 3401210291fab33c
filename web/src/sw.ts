// The service worker. It shows a page while the gateway is away, and
// notifications. It keeps nothing but the three files of that page: everything
// else is small, has its own place in the browser's cache, and must come from the
// gateway that runs.
interface Extendable extends Event {
  waitUntil(p: Promise<unknown>): void;
}
interface Fetching extends Extendable {
  request: Request;
  respondWith(r: Promise<Response>): void;
}
interface Pushed extends Extendable {
  data?: { json(): unknown } | null;
}
interface Clicked extends Extendable {
  notification: Notification;
}
interface Page {
  url: string;
  focus(): Promise<unknown>;
  navigate(url: string): Promise<unknown>;
}
interface Scope {
  addEventListener(type: "install" | "activate", f: (e: Extendable) => void): void;
  addEventListener(type: "fetch", f: (e: Fetching) => void): void;
  addEventListener(type: "push", f: (e: Pushed) => void): void;
  addEventListener(type: "notificationclick", f: (e: Clicked) => void): void;
  skipWaiting(): Promise<void>;
  registration: { scope: string; showNotification(title: string, o: NotificationOptions): Promise<void> };
  clients: { claim(): Promise<void>; matchAll(o: object): Promise<Page[]>; openWindow(url: string): Promise<unknown> };
}
const worker = self as unknown as Scope;

const at = (path: string) => new URL(path, worker.registration.scope).href;
const files = ["assets/BUILD/away.html", "assets/BUILD/main.css", "assets/BUILD/icon.svg"].map(at);
const kept = `nanobot:${new URL(location.href).searchParams.get("gateway") ?? ""}:away`;

worker.addEventListener("install", (e) => {
  e.waitUntil(
    caches
      .open(kept)
      .then((c) => c.addAll(files))
      .then(() => worker.skipWaiting()),
  );
});

worker.addEventListener("activate", (e) => {
  const tidy = async () => {
    const cache = await caches.open(kept);
    for (const old of await cache.keys()) if (!files.includes(old.url)) await cache.delete(old);
    await worker.clients.claim();
  };
  e.waitUntil(tidy());
});

const fromCache = async (url: string) => (await (await caches.open(kept)).match(url)) ?? Response.error();

worker.addEventListener("fetch", (e) => {
  if (e.request.method !== "GET") return;
  if (e.request.mode === "navigate") e.respondWith(fetch(e.request).catch(() => fromCache(files[0]!)));
  else if (files.includes(e.request.url)) e.respondWith(fetch(e.request).catch(() => fromCache(e.request.url)));
});

// A message says only what kind of thing waits; the texts are ours.
const texts = {
  en: { question: "nanobot waits for your answer.", test: "Notifications work on this device." },
  zh: { question: "nanobot 在等待你的回答。", test: "此设备可以收到通知。" },
};

worker.addEventListener("push", (e) => {
  let kind: "question" | "test" = "question";
  try {
    if ((e.data?.json() as { kind?: string } | undefined)?.kind === "test") kind = "test";
  } catch {
    // The browser insists on a notification for every message.
  }

  const body = texts[navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"][kind];
  e.waitUntil(
    worker.registration.showNotification("nanobot", {
      body,
      tag: "nanobot-" + kind,
      icon: at("assets/BUILD/icon-192.png"),
    }),
  );
});

worker.addEventListener("notificationclick", (e) => {
  e.notification.close();
  const show = async () => {
    const inbox = at("./#/inbox");
    const page = (await worker.clients.matchAll({ type: "window", includeUncontrolled: true })).find((p) =>
      p.url.startsWith(worker.registration.scope),
    );
    if (!page) return worker.clients.openWindow(inbox);
    await page.focus();
    return page.navigate(inbox).catch(() => undefined);
  };

  e.waitUntil(show());
});
