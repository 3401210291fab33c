// What crosses the wire: docs/websocket.md and docs/web-clients.md.

export interface Device {
  id: string;
  name: string;
  address: string;
  created: string;
  seen: string;
  expires: string;
}

/** Gateway is the answer of webui/state. */
export interface Gateway {
  gateway: string;
  build: string;
  signed_in: boolean;
  device?: Device;
  time: string;
  encrypted: boolean;
}

export interface Failure {
  status: number;
  code?: string;
  message: string;
  params?: Record<string, string>;
}

export interface LoginReply {
  state: "in" | "pending" | "denied" | "expired";
  digits?: string;
  poll?: string;
  expires_in?: number;
}

export interface Session {
  key: string;
  title: string;
  preview: string;
  created_at: string;
  updated_at: string;
  messages: number;
  bytes: number;
  running: boolean;
}

export interface SessionPage {
  sessions: Session[];
  total: number;
}

/** SlashCommand is one of api/commands. */
export interface SlashCommand {
  name: string;
  args?: string;
  description: string;
}

export interface Usage {
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  cost_usd?: number;
  estimated?: boolean;
}

export interface Edit {
  call_id: string;
  path: string;
  operation?: string;
  added?: number;
  deleted?: number;
  diff?: string;
}

/** Call is a call of a tool in a stored conversation. */
export interface Call {
  call_id: string;
  name: string;
  arguments?: unknown;
  result?: string;
  is_error?: boolean;
  untrusted?: boolean;
  duration_ms?: number;
}

/** Said is a message of a stored conversation. */
export interface Said {
  index: number;
  role: "user" | "assistant";
  content: string;
  at?: string;
  turn_id?: string;
  reasoning?: string;
  tool_calls?: Call[];
  media?: string[];
  attachments?: { name: string; url?: string }[];
  latency_ms?: number;
  event?: string; // question and answer: an approval
  command?: boolean;
  interrupted?: boolean;
}

/** Turned is what is known about a turn of a stored conversation. */
export interface Turned {
  turn_id: string;
  duration_ms?: number;
  model?: string;
  stop_reason?: string;
  error?: string;
  usage?: Usage;
  edits?: Edit[];
  notices?: { text: string }[];
}

export interface ThreadPage {
  messages: Said[];
  turns?: Turned[];
  has_more: boolean;
  before: number | null;
  /** seq is the number of the last event whose content is on the page. */
  seq?: number;
}

export interface ToolEvent {
  phase: "start" | "end" | "error";
  call_id: string;
  name: string;
  arguments?: unknown;
  result?: string;
  error?: string;
  duration_ms?: number;
  untrusted?: boolean;
}

export interface Question {
  id: string;
  code?: string;
  options?: string[];
  expires?: string;
}

/** Event is one message of the gateway over the socket. */
export interface Event {
  event: string;
  chat_id?: string;
  seq?: number;
  text?: string;
  id?: string;
  turn_id?: string;
  stream_id?: string;
  kind?: string;
  resuming?: boolean;
  void?: boolean;
  resumed?: boolean;
  complete?: boolean;
  tool_events?: ToolEvent[];
  call_id?: string;
  name?: string;
  arguments?: string;
  question?: Question;
  question_id?: string;
  option?: string;
  media_urls?: { url: string; name?: string }[];
  edits?: Edit[];
  status?: string;
  started_at?: number;
  latency_ms?: number;
  stop_reason?: string;
  model?: string;
  model_name?: string;
  error?: unknown;
  usage?: Usage;
  detail?: string;
  reason?: string;
  request_id?: string;
  result?: unknown;
  client_id?: string;
  starts_turn?: boolean;
  fallback?: boolean;
  scope?: string;
}

/** Frame is what the page sends over the socket. */
export interface Frame {
  type: string;
  [member: string]: unknown;
}
