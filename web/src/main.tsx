// The start of the page.
import { render } from "preact";
import { failureText } from "./i18n";
import { App } from "./pages/app";
import { takeCode } from "./pages/signin";
import { startRoutes } from "./state/route";
import { start } from "./state/store";
import { onFailure } from "./state/toast";

startRoutes();
const code = takeCode();
onFailure(failureText);
const app = document.getElementById("app")!;
app.replaceChildren();
render(<App code={code} />, app);
void start();
