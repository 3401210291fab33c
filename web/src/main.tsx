// The start of the page.
import { render } from "preact";
import { failureText } from "./i18n";
import { App } from "./pages/app";
import { watchCodes } from "./pages/signin";
import { startRoutes } from "./state/route";
import { takeShared } from "./state/shared";
import { start } from "./state/store";
import { onFailure } from "./state/toast";

takeShared();
startRoutes();
watchCodes();
onFailure(failureText);
const app = document.getElementById("app")!;
app.replaceChildren();
render(<App />, app);
void start().then(() => {
  // Installed, the page has a service worker; browsers allow it only over TLS and on this machine.
  if (isSecureContext && "serviceWorker" in navigator)
    void import("./state/install").then(
      (m) => m.startInstalled(),
      () => undefined,
    );
});
