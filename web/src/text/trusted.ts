// The one policy of trusted types. It creates the addresses of our two workers
// and nothing else: no HTML, no script.
interface Policy {
  createScriptURL(url: string): unknown;
}
interface Factory {
  createPolicy(name: string, p: Policy): Policy;
}
let policy: Policy | undefined;

const highlighter = () => new URL("highlight.worker.js", import.meta.url).href;
const service = () => new URL("sw.js", document.baseURI);

/** trusted is the address of a worker: the one that colours code, or the service
 *  worker with the id of its gateway. */
export function trusted(gateway?: string): string {
  const to =
    gateway === undefined
      ? highlighter()
      : `${service().origin}${service().pathname}?gateway=${encodeURIComponent(gateway)}`;
  const types = (globalThis as { trustedTypes?: Factory }).trustedTypes;
  if (!types) return to;
  policy ??= types.createPolicy("nanobot", {
    createScriptURL(url) {
      const u = new URL(url);
      const ours =
        url === highlighter() ||
        (u.origin === location.origin && u.pathname === service().pathname && /^\?gateway=\w*$/.test(u.search));
      if (!ours) throw new TypeError(url);
      return url;
    },
  });

  return policy.createScriptURL(to) as string;
}
