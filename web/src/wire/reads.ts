// What the pages read. Made from the Go code by make web-types; do not edit.
// docs/reference/websocket.md and docs/reference/web-clients.md say what it means.
import type { Schema, Values } from "../ui/schema";
import type { Asked, Detail, Device, Edit, Usage } from "./types";

/** internal/web/subject: taught */
export interface Skill {
  name: string;
  description: string;
  source?: "workspace" | "installed" | "builtin";
  available: boolean;
  missing?: string;
  disabled: boolean;
  always: boolean;
  changed: boolean;
  sha256?: string;
  installed_at?: string;
  from?: string;
  homepage?: string;
  emoji?: string;
  path?: string;
  notes?: string[];
  text?: string;
  file?: string;
  version?: string;
}

/** internal/core/skill: Problem */
export interface SkillProblem {
  code: string;
  file: string;
  line?: number;
  text: string;
  error: boolean;
}

/** internal/web/subject: Skills.draft() */
export interface SkillChecked {
  name: string;
  problems: SkillProblem[];
  version: string;
}

/** internal/web/subject: Skills.add() */
export interface SkillInstalled {
  name: string;
  problems: SkillProblem[];
  skill?: Skill;
}

/** internal/web/subject: Skills.list() */
export interface SkillList {
  skills: Skill[];
}

/** internal/web/subject: timing */
export interface Timing {
  every_seconds?: number;
  cron?: string;
  at?: string;
  tz?: string;
}

/** internal/web/subject: ran */
export interface Run {
  at: string;
  status: string;
  duration_ms?: number;
  error?: string;
  note?: string;
  silent?: boolean;
  tokens?: number;
  cost_usd?: number;
}

/** internal/web/subject: Schedule.history() */
export interface RunPage {
  cursor: string | null;
  runs: Run[];
}

/** internal/web/subject: automation */
export interface Automation {
  kind: "job" | "trigger";
  id: string;
  name: string;
  message: string;
  schedule?: Timing;
  when?: string;
  enabled: boolean;
  protected: boolean;
  running: boolean;
  channel: string;
  chat_id: string;
  session_key: string;
  deliver: boolean;
  catch_up?: string;
  timeout_seconds?: number;
  next_run?: string;
  last_run?: string;
  last_status?: string;
  last_error?: string;
  undelivered?: string;
  history: Run[];
  broken?: string;
  command?: string;
  created_at?: string;
  updated_at?: string;
  upcoming?: string[];
}

/** internal/web/subject: jobs.list() */
export interface AutomationList {
  automations: Automation[];
}

/** internal/web/subject: foreseen() */
export interface Foreseen {
  cost: string;
  next_runs: string[];
  when: string;
}

/** internal/web/subject: withSecret() */
export interface Made extends Partial<Foreseen> {
  automation: Automation;
  secret?: string;
}

/** internal/run/settings: serverState */
export interface Server {
  name: string;
  transport?: string;
  target?: string;
  auth?: string;
  state: string;
  tools?: number;
  resources?: number;
  prompts?: number;
  protocol?: string;
  error?: string;
  warnings?: string[];
  enabled: boolean;
  tool_names: string[];
  held?: string[];
  unaccepted: number;
  since?: string;
  settings?: Values;
}

/** internal/run/settings: readMCP() */
export interface ServerList {
  servers: Server[];
}

/** internal/run/settings: setServer() */
export interface ServerSaved {
  base?: string;
  changed?: string[];
  note?: string;
  overridden?: string[];
  reconnect?: boolean;
  restart_required?: string[];
  warnings: string[];
}

/** internal/run/settings: servers.readLog() */
export interface ServerLog {
  log: string;
  name: string;
}

/** internal/tool/mcp: TrialTool */
export interface TrialTool {
  name: string;
  about?: string;
  bytes: number;
  tokens: number;
  description?: string;
}

/** internal/tool/mcp: Trial */
export interface Trial {
  name: string;
  transport: string;
  target: string;
  ok: boolean;
  state: string;
  protocol?: string;
  seconds: number;
  tools: TrialTool[];
  error?: string;
  hint?: string;
  log?: string;
  odd?: string[];
  warnings?: string[];
  digest?: string;
}

/** internal/run/settings: skipped */
export interface SkippedServer {
  name: string;
  reason: string;
}

/** internal/run/settings: serverTools(enabled_tools) */
export interface ToolChoice {
  enabled_tools: string[];
  name: string;
  tools: TrialTool[];
}

/** internal/run/settings: importParsed() */
export interface Taken {
  base?: string;
  changed?: string[];
  imported: string[];
  note?: string;
  overridden?: string[];
  reconnect?: boolean;
  restart_required?: string[];
  skipped: SkippedServer[];
}

/** internal/web/subject: Questions.open() */
export interface AskedList {
  questions: Asked[];
}

/** internal/web/subject: Answered */
export interface Answered {
  key: string;
  channel: string;
  tool?: string;
  what: string;
  reason?: string;
  option?: string;
  remark?: string;
  expired?: boolean;
  at: string;
}

/** internal/web/subject: Questions.history() */
export interface AnswerPage {
  answers: Answered[];
  cursor: string | null;
}

/** internal/guard/approve: Explained */
export interface Explained {
  action: "allow" | "ask" | "deny";
  reason?: string;
  rule?: string;
  detail?: Detail;
}

/** internal/web/subject: Finding */
export interface Finding {
  id: string;
  state: "ok" | "warn" | "fail" | "skip";
  detail: string;
  fix?: string;
  changes?: string[];
}

/** internal/web/subject: Checkup.read() */
export interface Checkup {
  findings: Finding[];
  network: boolean;
  running: boolean;
  started_at?: string;
}

/** internal/web/auth: Pending */
export interface Pending {
  digits: string;
  name: string;
  address: string;
  local: boolean;
  expires: string;
}

/** internal/web/subject: Devices.list() */
export interface DeviceList {
  devices: Device[];
  waiting: Pending[];
}

/** internal/web/subject: Devices.link() */
export interface DeviceLink {
  expires_in: number;
  image: string;
  link: string;
}

/** internal/web/subject: Push.read() */
export interface PushRead {
  devices: string[];
  enabled: boolean;
  key: string;
}

/** internal/web/subject: Push.test() */
export interface PushSent {
  sent: number;
}

/** internal/web/subject: Operations.promise() */
export interface Download {
  url: string;
}

/** internal/web/subject: Conversations.restore() */
export interface Restored {
  key: string;
  restored: boolean;
}

/** internal/web/subject: entry */
export interface LogLine {
  id: string;
  at?: string;
  level?: string;
  message: string;
  attrs?: [name: string, value: string][];
}

/** internal/web/subject: logAnswer */
export interface LogPage {
  lines: LogLine[];
  before?: string;
}

/** internal/chat/deliver: Failure */
export interface Unsent {
  at: string;
  id?: string;
  chat_id: string;
  kind: string;
  error: string;
}

/** internal/chat/deliver: Status */
export interface ChannelStatus {
  name: string;
  enabled: boolean;
  state: string;
  identity?: string;
  error?: string;
  since?: string;
  retry?: string;
  restarts?: number;
  clients?: number;
  queue: number;
  received: number;
  sent: number;
  failed: number;
  retries?: number;
  denied: number;
  refused?: string[];
  failures?: Unsent[];
}

/** internal/core/agent: Pulse */
export interface Pulse {
  turns: number;
  waiting: number;
  stuck?: string[];
}

/** internal/bus/journal: Status */
export interface Queue {
  inbound: number;
  outbound: Record<string, number>;
  oldest: string;
  dropped: number;
  bytes: number;
}

/** internal/run/control: Status */
export interface GatewayStatus {
  version: string;
  pid: number;
  started_at: string;
  address?: string;
  page?: string;
  model: string;
  ready: boolean;
  problems?: string[];
  after_restart?: string[];
  agent: Pulse;
  queue: Queue;
  channels: ChannelStatus[];
  jobs: number;
}

/** internal/web/subject: Operations.status() */
export interface StatusRead {
  errors: LogLine[];
  gateway: GatewayStatus;
  memory_bytes: number;
}

/** internal/llm/ledger: Standing */
export interface Limit {
  name: string;
  unit: "usd" | "tokens";
  limit: number;
  spent: number;
  reserved: number;
  left: number;
  stops: boolean;
  default: boolean;
  resets_at?: string;
}

/** internal/llm/ledger: Spent */
export interface Spent {
  calls: number;
  usd: number;
  tokens: number;
  unpricedTokens: number;
}

/** internal/web/subject: Costs.budget() */
export interface Budget {
  limits: Limit[];
  month: Spent;
  on_exceed: string;
  today: Spent;
}

/** internal/web/subject: estimated */
export interface Estimated {
  model: string;
  tokens: number;
  window?: number;
  billing: string;
  low_usd: number;
  high_usd: number;
  basis: string;
  limits: Limit[];
}

/** internal/web/subject: hit */
export interface Hit {
  session?: string;
  source: string;
  role: string;
  at?: string;
  snippet: string;
  index?: number;
  partial?: boolean;
  untrusted?: boolean;
}

/** internal/web/subject: Search.search(hits) */
export interface Found {
  at_least: boolean;
  behind: boolean;
  cursor: string | null;
  hits: Hit[];
  total: number;
}

/** internal/web/subject: Workspaces.list() */
export interface Folders {
  default: string;
  workspaces: { path: string; name: string; default: boolean }[];
}

/** internal/web/subject: file */
export interface FilePreview {
  path: string;
  name: string;
  size: number;
  mime: string;
  kind: "text" | "image" | "binary";
  modified_at?: string;
  truncated: boolean;
  content?: string;
  data_url?: string;
}

/** internal/web/subject: modelStep */
export interface ReplayModel {
  model: string;
  provider: string;
  source: string;
  first_token_ms?: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens?: number;
  billing: string;
  cost_usd: number;
  outcome: string;
}

/** internal/web/subject: toolStep */
export interface ReplayTool {
  call_id: string;
  name: string;
  arguments: string;
  is_error?: boolean;
  untrusted?: boolean;
  bytes: number;
  edits?: Edit[];
}

/** internal/web/subject: waitStep */
export interface ReplayWait {
  question: string;
  answer: string;
}

/** internal/web/subject: saidStep */
export interface ReplaySaid {
  index: number;
  role: string;
  text: string;
}

/** internal/web/subject: step */
export interface ReplayStep {
  at: string;
  duration_ms: number;
  model?: ReplayModel;
  tool?: ReplayTool;
  wait?: ReplayWait;
  said?: ReplaySaid;
}

/** internal/web/subject: replayed */
export interface Replayed {
  turn_id: string;
  undo_id?: string;
  undone_by?: string;
  files?: UndoChange[];
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
  began_at: string;
  steps: ReplayStep[];
  cut?: boolean;
}

/** internal/guard/change/undo: Change */
export interface UndoChange {
  path: string;
  what: string;
}

/** internal/guard/change/undo: Turn */
export interface UndoTurn {
  id: string;
  session: string;
  at: string;
  undoes?: string;
  undone_by?: string;
  changes?: UndoChange[];
  gaps?: string[];
  skipped?: string[];
  interrupted?: boolean;
  running?: boolean;
}

/** internal/guard/change/undo: Skip */
export interface UndoSkip {
  path: string;
  why: string;
  conflict?: boolean;
}

/** internal/guard/change/undo: Report */
export interface UndoReport {
  turn: string;
  undo?: string;
  restored?: string[];
  deleted?: string[];
  skipped?: UndoSkip[];
  gaps?: string[];
  outside?: string[];
  interrupted?: boolean;
}

/** internal/web/subject: Changes.list() */
export interface UndoList {
  total: number;
  turns: UndoTurn[];
}

/** internal/web/subject: Changes.one() */
export interface UndoRead {
  diff: string;
  preview?: UndoReport;
  turn: UndoTurn;
}

/** internal/run/settings: featureState */
export interface Platform {
  name: string;
  title?: string;
  login?: boolean;
  logout?: boolean;
  configured: boolean;
  enabled: boolean;
  state: "starting" | "running" | "failed" | "stopped";
  reason?: string;
  identity?: string;
  since?: string;
  retry?: string;
  received?: number;
  sent?: number;
}

/** internal/run/settings: readFeatures() */
export interface PlatformList {
  channels: Platform[];
}

/** internal/run/settings: channels.readSchema() */
export interface Described {
  name: string;
  needed: string[];
  schema: Schema;
  settings: Values | null;
  title: string;
}

/** internal/chat/access: PairingRequest */
export interface PairingRequest {
  channel: string;
  sender_id: string;
  expires_at: string;
}

/** internal/run/settings: person */
export interface Person {
  channel: string;
  sender_id: string;
  owner: boolean;
}

/** internal/run/settings: readPairing() */
export interface People {
  approved: Person[];
  pending: PairingRequest[];
}

/** internal/chat: Check */
export interface ChannelCheck {
  name: string;
  ok: boolean;
  detail?: string;
}

/** internal/run/settings: validateChannel() */
export interface Checked {
  checks?: ChannelCheck[];
  error?: string;
  identity?: string;
  valid: boolean;
}

/** internal/run/settings: loginStep */
export interface LoginStep {
  state: "waiting" | "done";
  url?: string;
  code?: string;
  paste?: boolean;
  note?: string;
  qr?: string;
  qr_image?: string;
  expires?: string;
  ask?: string;
  hidden?: boolean;
}

/** internal/run/settings: invite() */
export interface Invitation {
  expires: string;
  qr_image: string;
  url: string;
}

/** internal/run/settings: tokensUsed */
export interface Used {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  total_tokens: number;
  requests: number;
  cost_usd: number;
  unpriced_requests: number;
  estimated?: boolean;
}

/** internal/run/settings: dayUsed */
export interface Day {
  date: string;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  total_tokens: number;
  requests: number;
  cost_usd: number;
  unpriced_requests: number;
  estimated?: boolean;
  sources: Record<string, Used>;
}

/** internal/run/settings: groupUsed */
export interface UsedGroup {
  name: string;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  total_tokens: number;
  requests: number;
  cost_usd: number;
  unpriced_requests: number;
  estimated?: boolean;
}

/** internal/run/settings: readUsage() */
export interface UsageRead {
  days: Day[];
  groups?: UsedGroup[];
  since: string;
  sources: Record<string, Used>;
  timezone: string;
  total: Used;
}

/** internal/run/settings: versionState */
export interface Version {
  id: string;
  saved_at?: string;
  bytes: number;
  changed: string[];
  broken?: boolean;
}

/** internal/run/settings: readVersions() */
export interface VersionPage {
  cursor: string;
  versions: Version[];
}

/** internal/run/settings: readDiff() */
export interface VersionDiff {
  added: number;
  diff: string;
  hidden: boolean;
  removed: number;
}

/** internal/run/settings: readRaw() */
export interface RawText {
  base: string;
  exists: boolean;
  file: string;
  text: string;
}

/** internal/run/config: Problem */
export interface Issue {
  path?: string;
  message: string;
  hint?: string;
  line?: number;
  column?: number;
  env?: string;
}

/** internal/run/settings: conflict */
export interface Conflict {
  path: string;
  current: unknown;
  yours: unknown;
}

/** internal/run/settings: edited */
export interface Edited {
  changed: string[];
  restart_required: string[];
  overridden?: string[];
  reconnect?: boolean;
  note?: string;
  base: string;
}

/** internal/run/settings: settingState */
export interface SetValue {
  path: string;
  value: unknown;
  layer: string;
  source: string;
  line?: number;
  variable?: string;
  reference?: boolean;
  doc?: string;
}

/** internal/run/provider: State */
export interface Provider {
  name: string;
  display: string;
  ready: boolean;
  own?: boolean;
  key_source?: string;
  variables?: string[];
  sign_in?: boolean;
  base?: string;
  wire?: string;
  default_model?: string;
  gateway?: boolean;
  local?: boolean;
  speech_only?: boolean;
  warnings?: string[];
}

/** internal/run/settings: readSettings(signed_in) */
export interface SignIn {
  account: string;
  name: string;
  problem: string;
  signed_in: boolean;
}

/** internal/run/settings: readSettings(why) */
export interface ModelInUse {
  demo: boolean;
  key_source: string;
  name: string;
  provider: string;
  why: string;
}

/** internal/run/settings: readSettings(file) */
export interface SettingsRead {
  base: string;
  config: Values;
  disabled: string[];
  exists: boolean;
  file: string;
  model: ModelInUse;
  problems: string[];
  providers: Provider[];
  restart_required: string[];
  set: SetValue[];
  sign_ins: SignIn[];
  speech: boolean;
  version: string;
  warnings: string[];
}

/** internal/run/settings: sourceState */
export interface Source {
  name: string;
  display: string;
  kind: "server" | "variable" | "file" | "sign_in" | "known";
  variable?: string;
  base?: string;
  models?: string[];
  default_model?: string;
  keys_url?: string;
  needs_address?: boolean;
  key_optional?: boolean;
  sign_in?: boolean;
}

/** internal/run/settings: readSetup() */
export interface SetupRead {
  base: string;
  daily_usd: number;
  demo: boolean;
  found: Source[];
  missing: string[];
  model: string;
  preset: string;
  provider: string;
  providers: Source[];
  window: number;
}

/** internal/run/settings: offerState */
export interface Offer {
  id: string;
  context_window?: number;
  tools?: string;
  vision?: string;
  billing?: "priced" | "free" | "subscription";
  in_usd?: number;
  out_usd?: number;
}

/** internal/run/settings: readModels() */
export interface OfferList {
  models: Offer[];
  provider: string;
  truncated: boolean;
}

/** internal/run/settings: tried */
export interface Tried {
  ok: boolean;
  status: string;
  seconds: number;
  hint?: string;
  models: Offer[];
  default_model?: string;
  truncated?: boolean;
}

/** internal/core/memory: Origin */
export interface Origin {
  cursor: number;
  session?: string;
  sender?: string;
  time?: string;
}

/** internal/core/memory: Fact */
export interface Fact {
  file: string;
  line: number;
  text: string;
  by_hand?: boolean;
  edited?: boolean;
  confirmed?: boolean;
  finding?: string;
  sources?: Origin[];
  guessed?: boolean;
  time?: string;
  commit?: string;
}

/** internal/web/subject: memoryWhy() */
export interface FactList {
  facts: Fact[];
  file: string;
}

/** internal/web/subject: memoryFile */
export interface MemoryFile {
  path: string;
  bytes: number;
  cap: number;
  text: string;
  facts?: Fact[];
  version: string;
}

/** internal/core/memory: ScopeView */
export interface MemoryScope {
  name: string;
  bytes: number;
}

/** internal/core/memory: HistoryView */
export interface MemoryHistory {
  entries: number;
  unread: number;
}

/** internal/base/gitstore: Commit */
export interface MemoryChange {
  id: string;
  parent?: string;
  time: string;
  author: string;
  email: string;
  subject: string;
  body?: string;
}

/** internal/base/gitstore: Undone */
export interface MemoryUndone {
  of: MemoryChange;
  commit?: string;
  snapshot?: string;
  files: string[] | null;
}

/** internal/web/subject: memoryShow() */
export interface MemoryRead {
  files: MemoryFile[];
  findings: number;
  history: MemoryHistory;
  last_change: MemoryChange | null;
  last_dream: MemoryChange | null;
  scopes: MemoryScope[];
  uncommitted_files: number;
}

/** internal/web/subject: memoryLog() */
export interface MemoryLog {
  changes: MemoryChange[];
  cursor: string | null;
}

/** internal/web/subject: memoryDiff() */
export interface MemoryDiff {
  change: MemoryChange | null;
  diff: string;
  files: unknown[] | null;
}

/** internal/core/memory: Held */
export interface Held {
  id: string;
  scope?: string;
  target: string;
  text: string;
  sources?: Origin[];
  time: string;
  order?: boolean;
  state?: string;
}

/** internal/web/subject: memoryFindings() */
export interface HeldList {
  findings: Held[];
}

/** internal/core/memory: Occurrence */
export interface Occurrence {
  file: string;
  line: string;
}

/** internal/web/subject: forgetting */
export interface Forgetting {
  lines: Occurrence[];
  summaries: Occurrence[];
  skills: string[];
  preview: string;
}

/** internal/web/subject: forget() */
export interface Forgotten {
  left: string[];
  removed: string[];
}

/** internal/core/memory: Report */
export interface DreamReport {
  id: string;
  waiting?: string;
  entries: number;
  remaining: number;
  findings: number;
  unknown?: number;
  dropped?: number;
  quarantined?: number;
  files?: unknown[];
  commit?: string;
  recovered?: boolean;
  notes?: string[];
  usage: unknown;
  took: number;
}
