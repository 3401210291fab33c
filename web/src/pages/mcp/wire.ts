// Changes of MCP servers, and how they are shown.
import { t } from "../../i18n/mcp";
import { changed } from "../../state/read";
import { request } from "../../state/store";
import type { Schema } from "../../ui/form";
import type { Tone } from "../../ui/list";
import type { Server } from "../../wire/reads";

const states = {
  ready: ["good", "value.mcp.ready"],
  degraded: ["warn", "value.mcp.degraded"],
  connecting: ["warn", "value.mcp.connecting"],
  idle: ["off", "value.mcp.idle"],
  configured: ["off", "value.mcp.idle"],
  disabled: ["off", "value.mcp.disabled"],
  invalid: ["bad", "value.mcp.invalid"],
  backoff: ["bad", "value.mcp.backoff"],
  "pending-login": ["warn", "value.mcp.login"],
} as const;

/** stateOf is the state of a server in words. */
export function stateOf(s: Server): { tone: Tone; text: string } {
  const found = states[s.state as keyof typeof states];
  return found ? { tone: found[0], text: t(found[1]) } : { tone: "warn", text: s.state };
}

/** act changes a server and lets the list be read again. */
export async function act<T = unknown>(action: string, payload: unknown): Promise<T> {
  try {
    return await request<T>("settings.mcp." + action, payload);
  } finally {
    changed("mcp");
  }
}

export const hrefOf = (name: string) => "#/mcp/" + encodeURIComponent(name);

const secrets: Schema = { type: "object", additionalProperties: { type: "string", writeOnly: true } };

/** schemaOf describes the settings of a program, or of a server at an address. */
export function schemaOf(kind: "program" | "address"): Schema {
  const lists = { type: "array", items: { type: "string" } };
  const first: Record<string, Schema> =
    kind === "program"
      ? {
          command: { type: "string", description: t("mcp.set.command") },
          args: { ...lists, description: t("mcp.set.args") },
          env: { ...secrets, description: t("mcp.set.env") },
          cwd: { type: "string", description: t("mcp.set.cwd") },
          sandbox: { type: "boolean", default: false, description: t("mcp.set.sandbox") },
          allowedHosts: { ...lists, description: t("mcp.set.hosts") },
        }
      : {
          url: { type: "string", description: t("mcp.set.url") },
          headers: { ...secrets, description: t("mcp.set.headers") },
          auth: { type: "string", enum: ["oauth", "client_credentials"], description: t("mcp.set.auth") },
          clientId: { type: "string", description: t("mcp.set.client") },
          clientSecret: { type: "string", writeOnly: true },
          scope: { type: "string", description: t("mcp.set.scope") },
          type: { type: "string", enum: ["streamableHttp", "sse"] },
        };

  return {
    type: "object",
    properties: {
      ...first,
      toolTimeout: { type: "number", default: 30, minimum: 1, description: t("mcp.set.timeout") },
      trusted: { type: "boolean", default: false, description: t("mcp.set.trusted") },
      guests: { type: "boolean", default: false, description: t("mcp.set.guests") },
    },
  };
}
