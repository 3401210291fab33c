// An MCP server on standard input and output. With a file as its argument it
// describes its tools as the file says.
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

console.error("the server has started");
const about = () => (existsSync(process.argv[2] ?? "") ? readFileSync(process.argv[2], "utf8") : "Says the same again");
const tool = (name, description) => ({ name, description, inputSchema: { type: "object", properties: {} } });

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const reply = (body) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...body }) + "\n");
  if (method === "initialize")
    return reply({
      result: {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "rig", version: "1" },
      },
    });
  if (method === "tools/list")
    return reply({ result: { tools: [tool("echo", about()), tool("time", "Tells the time")] } });
  if (method === "ping") return reply({ result: {} });
  reply({ error: { code: -32601, message: "not known" } });
});
