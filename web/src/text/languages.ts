// Names of the languages that the worker knows, and what else they are called.
export const languages: Record<string, string> = {
  html: "markup", xml: "markup", svg: "markup", markup: "markup", css: "css",
  javascript: "javascript", js: "javascript", mjs: "javascript", cjs: "javascript", jsx: "jsx",
  typescript: "typescript", ts: "typescript", tsx: "typescript",
  c: "c", h: "c", cpp: "cpp", "c++": "cpp", cc: "cpp", hpp: "cpp", csharp: "csharp", cs: "csharp", "c#": "csharp",
  go: "go", golang: "go", java: "java", rust: "rust", rs: "rust", python: "python", py: "python", ruby: "ruby", rb: "ruby", php: "php",
  bash: "bash", sh: "bash", shell: "bash", zsh: "bash", console: "bash", sql: "sql",
  json: "json", jsonc: "json", yaml: "yaml", yml: "yaml", toml: "toml", diff: "diff", patch: "diff",
};
