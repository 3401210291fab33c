// The library must neither look for code on a page nor answer messages itself.
(globalThis as { Prism?: unknown }).Prism = { manual: true, disableWorkerMessageHandler: true };
