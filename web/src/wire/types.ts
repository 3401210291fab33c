// What crosses the wire. Made from the Go code by make web-types; do not edit.
// docs/reference/websocket.md and docs/reference/web-clients.md say what it means.

/** internal/web/auth: Device */
export interface Device {
  id: string;
  name: string;
  address: string;
  created: string;
  seen: string;
  expires: string;
}

/** internal/web/pages: state() */
export interface Gateway {
  build: string;
  device?: Device;
  encrypted: boolean;
  gateway: string;
  signed_in: boolean;
  time: string;
}

/** internal/web: Error */
export interface Failure {
  status: number;
  code?: string;
  params?: Record<string, string>;
  message: string;
}

/** internal/web/auth: answer */
export interface LoginReply {
  state: "in" | "pending" | "denied" | "expired";
  digits?: string;
  poll?: string;
  expires_in?: number;
}

/** internal/web/subject: conversation */
export interface Session {
  key: string;
  title: string;
  preview: string;
  created_at: string;
  updated_at: string;
  messages: number;
  bytes: number;
  running: boolean;
  unread?: number;
  archive_id?: string;
}

/** internal/web/subject: Conversations.list() */
export interface SessionPage {
  cursor?: string | null;
  sessions: Session[];
  total: number;
}

/** internal/web/subject: Command */
export interface SlashCommand {
  name: string;
  args?: string;
  description: string;
}

/** internal/bus: Usage */
export interface Usage {
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  estimated?: boolean;
  cost_usd?: number;
  billing?: string;
}

/** internal/web/subject: edited */
export interface Edit {
  call_id: string;
  path: string;
  status?: string;
  operation?: string;
  added?: number;
  deleted?: number;
  diff?: string;
}

/** internal/web/subject: called */
export interface Call {
  call_id: string;
  name: string;
  arguments?: unknown;
  result?: string;
  is_error?: boolean;
  denied?: boolean;
  untrusted?: boolean;
  started_at?: string;
  duration_ms?: number;
}

/** internal/web/subject: Attachment */
export interface Attached {
  name: string;
  type?: string;
  size?: number;
  url?: string;
}

/** internal/web/subject: said */
export interface Said {
  index: number;
  role: "user" | "assistant";
  content: string;
  at?: string;
  turn_id?: string;
  sender_id?: string;
  reasoning?: string;
  tool_calls?: Call[];
  media?: string[];
  attachments?: Attached[];
  latency_ms?: number;
  event?: string;
  task_id?: string;
  command?: boolean;
  plain?: boolean;
  delivery?: boolean;
  interrupted?: boolean;
}

/** internal/web/subject: turned */
export interface Turned {
  turn_id: string;
  undo_id?: string;
  undone_by?: string;
  files?: { path: string; what: string }[];
  started_at?: string;
  duration_ms?: number;
  model?: string;
  model_preset?: string;
  fallback?: boolean;
  stop_reason?: string;
  error?: string;
  error_kind?: string;
  refused?: string;
  truncated?: boolean;
  usage?: Usage;
  edits?: Edit[];
  notices?: { text: string }[];
  receipts?: { call_id: string; status: string }[];
}

/** internal/web/subject: Thread.read() */
export interface ThreadPage {
  after?: number | null;
  before: number | null;
  has_more: boolean;
  has_newer?: boolean;
  messages: Said[];
  seq?: number;
  subagents?: string[];
  total?: number;
  turns?: Turned[];
}

/** internal/web/socket: toolEvents() */
export interface ToolEvent {
  arguments?: unknown;
  call_id: string;
  denied?: boolean;
  duration_ms?: number;
  error?: string;
  hosted?: boolean;
  name: string;
  phase: "start" | "end" | "error";
  result?: string;
  untrusted?: boolean;
}

/** internal/bus: Detail */
export interface Detail {
  tool: string;
  call_id?: string;
  command?: string;
  arguments?: unknown;
  folder?: string;
  paths?: string[];
  diff?: string;
  sandbox?: boolean;
  network?: string;
  host?: string;
  reason?: string;
  covers?: string;
  untrusted?: { what: string; at: string }[];
}

/** internal/web/socket */
export interface Question {
  code?: string;
  detail?: Detail;
  expires?: string;
  id: string;
  options?: string[];
}

/** internal/core/agent: Open */
export interface Asked {
  key: string;
  channel: string;
  chat_id: string;
  at: string;
  id: string;
  code?: string;
  text?: string;
  options?: string[];
  expires: string;
  clean?: boolean;
  detail?: Detail;
  outcome?: unknown;
}

/** internal/guard: Scope */
export interface Scope {
  project_path: string;
  access_mode: string;
}

/** internal/bus: Goal */
export interface Goal {
  status: string;
  objective: string;
  untrusted?: boolean;
  ui_summary?: string;
  started_at: string;
  recap?: string;
  rounds?: number;
  extended?: number;
  tokens?: number;
  active: boolean;
}

/** internal/web/socket: () */
export interface Event {
  event: string;
  active_turn_id?: string;
  added?: number;
  arguments?: string;
  buttons?: string[];
  call_id?: string;
  chat_id?: string;
  client_id?: string;
  code?: string;
  complete?: boolean;
  context_window_tokens?: number;
  data?: unknown;
  deleted?: number;
  denied?: boolean;
  detail?: string;
  diff?: string;
  duration_ms?: number;
  edits?: Edit[];
  error?: unknown;
  expires?: string;
  fallback?: boolean;
  goal_state?: Goal;
  hosted?: boolean;
  id?: string;
  index?: number;
  key?: string;
  kind?: string;
  latency_ms?: number;
  media?: string[];
  media_urls?: { url: string; name?: string }[];
  model?: string;
  model_name?: string;
  model_preset?: string;
  n?: number;
  name?: string;
  ok?: boolean;
  operation?: string;
  option?: string;
  options?: string[];
  path?: string;
  phase?: string;
  plain?: boolean;
  question?: Question;
  question_id?: string;
  read_only?: boolean;
  reason?: string;
  remark?: string;
  reply_to?: string;
  request_id?: string;
  result?: string;
  resumed?: boolean;
  resuming?: boolean;
  scope?: string;
  seq?: number;
  session?: string;
  started_at?: number;
  starts_turn?: boolean;
  state?: unknown;
  status?: string;
  stop_reason?: string;
  stream_id?: string;
  temporary?: boolean;
  text?: string;
  title?: string;
  tool_events?: ToolEvent[];
  topic?: string;
  topics?: string[];
  turn_id?: string;
  undo_id?: string;
  untrusted?: boolean;
  usage?: Usage;
  void?: boolean;
  workspace_scope?: Scope;
}

/** Frame is what the page sends over the socket. */
export interface Frame {
  type: string;
  [member: string]: unknown;
}
