// The real gateway with a scripted model behind it and a proxy in front of it.
import { Gateway, settings } from "./gateway.mjs";
import { Model } from "./model.mjs";
import { Proxy } from "./proxy.mjs";

export class Rig {
  /** demo: no model is configured, so the one inside the binary answers. */
  static async start({ demo = false, proxy = {}, config = {} } = {}) {
    const rig = new Rig();
    rig.model = await new Model().start();
    rig.gateway = new Gateway(settings(demo ? undefined : rig.model, config));
    try {
      await rig.gateway.start();
      rig.proxy = await new Proxy(proxy).start(() => rig.gateway.address);
    } catch (e) {
      await rig.stop();
      throw e;
    }
    return rig;
  }

  get url() {
    return this.proxy.url;
  }

  /** signIn gives a browser the session that a link gives. */
  async signIn(page, url = this.url) {
    await page.goto(await this.gateway.link(url));
    await page.waitForSelector("#composer:not([disabled])");
    await signedIn(page);
  }

  async stop() {
    this.proxy?.stop();
    await this.gateway?.stop();
    this.model?.stop();
  }
}

/** signedIn waits for the gateway's word: the page shows itself before it has asked. */
export async function signedIn(page) {
  const ask = async () => (await (await fetch("webui/state", { headers: { "X-Nanobot-Page": "1" } })).json()).signed_in;
  while (!(await page.evaluate(ask))) await new Promise((r) => setTimeout(r, 50));
}
