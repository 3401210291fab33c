// Package bus holds the words that cross between the edges (terminal, chat
// channels, HTTP) and the agent: where a message came from and goes to
// (Route), what came in (Inbound) and what goes out (Outbound). All of it is
// plain data that survives JSON, so the same values can later travel through a
// durable queue or another process.
package bus

import "time"

// Route says where an answer goes.
type Route struct {
	Channel   string `json:"channel"`
	ChatID    string `json:"chat_id"`
	ThreadID  string `json:"thread_id,omitempty"`
	MessageID string `json:"message_id,omitempty"`
}

// SameChat reports whether two routes lead to the same conversation.
func (r Route) SameChat(o Route) bool {
	return r.Channel == o.Channel && r.ChatID == o.ChatID && r.ThreadID == o.ThreadID
}

// SessionKey returns the conversation a route belongs to unless an Inbound overrides it.
func (r Route) SessionKey() string { return r.Channel + ":" + r.ChatID }

// Media is a reference to a file that came with or goes with a message. Path
// is opened by the side that owns the file system, never trusted as content.
type Media struct {
	Path string `json:"path"`
	Name string `json:"name,omitempty"`
	MIME string `json:"mime,omitempty"`
	Size int64  `json:"size,omitempty"`
}

// Inbound is one message for the agent.
type Inbound struct {
	ID          string            `json:"id"` // de-duplication key: channel plus native id, else random
	Route       Route             `json:"route"`
	SenderID    string            `json:"sender_id"`
	Text        string            `json:"text"`
	Media       []Media           `json:"media,omitempty"`
	At          time.Time         `json:"at"`
	SessionKey  string            `json:"session_key,omitempty"` // override
	WantsStream bool              `json:"wants_stream,omitempty"`
	OwnTurn     bool              `json:"own_turn,omitempty"`    // never joins a running turn, waits for one of its own
	Interactive bool              `json:"interactive,omitempty"` // the sender can be asked something and will see it
	Unasked     string            `json:"unasked,omitempty"`     // why the sender cannot be asked although they listen, and what to do about it
	Identity    string            `json:"identity,omitempty"`    // who the sender was proven to be, where SenderID is a name they chose; "" is SenderID
	Answer      *Answer           `json:"answer,omitempty"`      // the message answers this question and says nothing else
	Event       string            `json:"event,omitempty"`       // set by the agent itself for messages no person wrote, such as SubagentResult
	Untrusted   bool              `json:"untrusted,omitempty"`   // the text is not what its sender typed, such as a forwarded message or a mail that nothing proves
	Quoted      []Quote           `json:"quoted,omitempty"`      // words of others that came along: what is answered, a contact card, the payload of a trigger
	Scope       string            `json:"scope,omitempty"`       // whose memory it belongs to; "" is the owner's, others are ids a channel makes of person and chat
	Shell       bool              `json:"shell,omitempty"`       // the text is a command line that the owner typed at this machine: it runs without a model
	Preset      string            `json:"preset,omitempty"`      // model preset of this turn; "" is the one of the session
	NoTools     bool              `json:"no_tools,omitempty"`    // the turn answers without tools
	Stateless   bool              `json:"stateless,omitempty"`   // the conversation is History and this message; nothing of it is read or kept
	History     []Said            `json:"history,omitempty"`     // what was said before, oldest first; with a kept session only RoleSystem counts
	Folder      string            `json:"-"`                     // absolute; the owner started the program there, and the conversation works there from now on
	Language    string            `json:"language,omitempty"`    // in which the sender reads what is not the model's answer: en, zh; "" is English
	Meta        map[string]string `json:"meta,omitempty"`        // opaque echo for the channel only
}

// Foreign reports whether words in the message are not its sender's own. Files
// that came along are not looked at.
func (in *Inbound) Foreign() bool { return in.Untrusted || len(in.Quoted) > 0 }

// Quote is a piece of a message that its sender did not type. The model sees
// it fenced, after the sender's own words.
type Quote struct {
	About string `json:"about,omitempty"` // what it is, in our words: no name or title that people choose
	Text  string `json:"text"`
}

// The roles of Said.
const (
	RoleSystem    = "system"    // instructions for this turn, in addition to our own
	RoleUser      = "user"      // the sender of the message
	RoleAssistant = "assistant" // what was answered
	RoleTool      = "tool"      // what a tool of the client returned; untrusted
)

// Said is one message of a conversation that its client keeps.
type Said struct {
	Role  string  `json:"role"`
	Text  string  `json:"text"`
	Media []Media `json:"media,omitempty"` // on RoleUser
	// Clean says that no words from outside were before whoever said it: the
	// sender typed it, or it is the answer of a turn that was not tainted.
	// Without it the turn is tainted.
	Clean bool `json:"clean,omitempty"`
}

// Person returns who a message counts as when it comes to answers: the identity
// that the edge proved, else the sender.
func (in *Inbound) Person() string {
	if in.Identity != "" {
		return in.Identity
	}
	return in.SenderID
}

// SubagentResult is the Event of a message with what a subagent found.
const SubagentResult = "subagent_result"

// SessionMessage is the Event of a message that the agent of another
// conversation sent.
const SessionMessage = "session_message"

// Kind says what an Outbound is.
type Kind string

// The kinds of Outbound.
const (
	Final      Kind = "final"         // the reply of a turn; never dropped
	Message    Kind = "message"       // sent by the model on purpose, during the turn; never dropped
	Delta      Kind = "delta"         // a piece of visible text
	Reasoning  Kind = "reasoning"     // a piece of the model's thinking
	DeltaEnd   Kind = "delta_end"     // a stream segment is finished; Resuming says whether more follows
	Progress   Kind = "progress"      // what the model says before it acts
	ToolHint   Kind = "tool_hint"     // one line naming the tools about to run
	ToolEvent  Kind = "tool_event"    // a tool call started or ended; Tool is set
	ToolDelta  Kind = "tool_delta"    // the model writes a tool call; Tool has a piece of the arguments, which start repeats as a whole
	ToolOutput Kind = "tool_output"   // a command prints; Text is a piece, Tool says which call
	Notice     Kind = "notice"        // something the user should know: retry waits, budgets, refusals
	Ask        Kind = "ask"           // the turn waits for an answer; Question is set; never dropped
	Gone       Kind = "question_gone" // a question is closed, or an answer came too late; Question is set
	GoalState  Kind = "goal_state"    // the goal of the conversation changed; Goal is set
	FileEdit   Kind = "file_edit"     // a tool call changed files; Edits is set
	Used       Kind = "usage"         // the model answered, and the turn goes on; Turn has what it used so far
	Ended      Kind = "ended"         // the work on the message of the route is over; Turn.StopReason says how
)

// Tool describes a tool call in an Outbound of kind ToolEvent.
type Tool struct {
	CallID     string `json:"call_id"`
	Name       string `json:"name"`
	Phase      string `json:"phase"` // start, end, error
	Arguments  string `json:"arguments,omitempty"`
	Detail     string `json:"detail,omitempty"`
	DurationMS int64  `json:"duration_ms,omitempty"`
	Label      string `json:"label,omitempty"`     // the call in a few words for people: "$ make test"
	Outcome    string `json:"outcome,omitempty"`   // how it ended, for people; "" means well
	Output     string `json:"output,omitempty"`    // the last lines of a command that failed
	Index      int    `json:"index,omitempty"`     // on ToolDelta: of the call in its answer
	Hosted     bool   `json:"hosted,omitempty"`    // the provider of the model runs it
	Result     string `json:"result,omitempty"`    // when it ended: what it returned, cut
	Untrusted  bool   `json:"untrusted,omitempty"` // the result came from outside
	Denied     bool   `json:"denied,omitempty"`    // it was not allowed, and did not run
}

// Edit says what a tool call did to one file.
type Edit struct {
	CallID  string `json:"call_id"`
	Path    string `json:"path"`
	What    string `json:"what"`              // created, changed, deleted
	Lines   bool   `json:"lines,omitempty"`   // Added and Deleted were counted: both sides are text of a moderate size
	Added   int    `json:"added,omitempty"`   // lines
	Deleted int    `json:"deleted,omitempty"` // lines
	Diff    string `json:"diff,omitempty"`    // unified, safe to show; "" when it is too long
}

// Goal is a task that goes on over several rounds of work.
type Goal struct {
	Status    string    `json:"status"` // active, completed, cancelled, blocked
	Objective string    `json:"objective"`
	Untrusted bool      `json:"untrusted,omitempty"` // a turn that had seen words from outside worded it
	Summary   string    `json:"ui_summary,omitempty"`
	StartedAt time.Time `json:"started_at"`
	Recap     string    `json:"recap,omitempty"`
	Rounds    int       `json:"rounds,omitempty"`
	Extended  int       `json:"extended,omitempty"` // rounds that used up their steps and were continued
	Tokens    int       `json:"tokens,omitempty"`
}

// Open reports whether the goal is being worked on.
func (g Goal) Open() bool { return g.Status == "active" && g.Objective != "" }

// Question is asked in the middle of a turn. Only a message of the same person
// in the same chat that names it is the answer: by its ID in Inbound.Answer, or
// by a word and its Code.
//
// On a Message it offers answers that the person may choose from, or not.
type Question struct {
	ID      string    `json:"id"`
	Code    string    `json:"code,omitempty"`    // short name for people who answer in writing; the agent fills it in
	Text    string    `json:"text,omitempty"`    // complete: what is asked and about what, never cut; "" when the message says it all but the options
	Options []string  `json:"options,omitempty"` // names of the answers, which are also shown; empty means any text
	Expires time.Time `json:"expires"`
	Clean   bool      `json:"clean,omitempty"`   // no words from outside were before the model that wrote the options
	Detail  *Detail   `json:"detail,omitempty"`  // on Ask, if it is about a call of a tool
	Outcome *Outcome  `json:"outcome,omitempty"` // on Gone
}

// Receipt is the runtime's own account of one tool call, whatever the model
// says about it.
type Receipt struct {
	CallID     string `json:"call_id"`
	Name       string `json:"name"`
	ArgsSHA256 string `json:"args_sha256"`    // of the arguments as they were run
	Status     string `json:"status"`         // ok, error, denied
	Code       string `json:"code,omitempty"` // tool.Code of a failure
	DurationMS int64  `json:"duration_ms"`
	Bytes      int    `json:"bytes"` // of the result, before it was shortened
}

// Outbound is one message from the agent.
type Outbound struct {
	ID       string            `json:"id,omitempty"` // de-duplication key of what is kept until delivered; a Queue fills it in when empty
	Key      string            `json:"-"`            // of one part on its way to the platform, the same at each try and after a restart; "" if it is sent once at most
	Kind     Kind              `json:"kind"`
	Route    Route             `json:"route"`
	Session  string            `json:"-"` // that it is said in, where the route does not tell: in a thread, to a guest
	ReplyTo  string            `json:"reply_to,omitempty"`
	Text     string            `json:"text,omitempty"`
	Media    []Media           `json:"media,omitempty"`
	StreamID string            `json:"stream_id,omitempty"`
	Resuming bool              `json:"resuming,omitempty"` // on DeltaEnd: the same turn goes on
	Void     bool              `json:"void,omitempty"`     // on DeltaEnd: the stream broke; what it showed comes again in another one
	Streamed bool              `json:"streamed,omitempty"` // on Final: the text was already shown by deltas
	Plain    bool              `json:"plain,omitempty"`    // do not render Markdown
	Brief    bool              `json:"brief,omitempty"`    // on Notice: it holds only until the next event, such as a wait before a retry
	Tool     *Tool             `json:"tool,omitempty"`
	Question *Question         `json:"question,omitempty"` // on Ask, and on a Message with answers to choose from
	Goal     *Goal             `json:"goal,omitempty"`     // on GoalState
	Edits    []Edit            `json:"edits,omitempty"`    // on FileEdit
	Turn     *Turn             `json:"turn,omitempty"`     // on Final
	Language string            `json:"language,omitempty"` // of whoever reads it, as on Inbound
	Meta     map[string]string `json:"meta,omitempty"`
}

// Turn sums up a finished turn.
type Turn struct {
	ID         string    `json:"id"`
	SessionKey string    `json:"session"`
	Model      string    `json:"model,omitempty"`
	Preset     string    `json:"preset,omitempty"`   // model preset, "" for the usual model
	Fallback   string    `json:"fallback,omitempty"` // the model that answered at last, when it was not Model
	Window     int       `json:"window,omitempty"`   // context window in tokens, 0 if unknown
	Goal       *Goal     `json:"goal,omitempty"`     // of the conversation, if it has one
	StopReason string    `json:"stop_reason"`
	Error      string    `json:"error,omitempty"`
	Refused    string    `json:"refused,omitempty"`    // the first call that needed an approval and got none, and why
	ErrorKind  string    `json:"error_kind,omitempty"` // llm.Kind of a failed model call
	Iterations int       `json:"iterations"`
	Tools      []string  `json:"tools,omitempty"` // names of the tools that ran, in order
	Receipts   []Receipt `json:"receipts,omitempty"`
	Truncated  bool      `json:"truncated,omitempty"` // the reply was cut off by the model's output limit
	Clean      bool      `json:"clean,omitempty"`     // no words from outside were before the model
	Usage      Usage     `json:"usage"`
	DurationMS int64     `json:"duration_ms"`
}

// Usage counts the tokens of a turn.
type Usage struct {
	Prompt     int     `json:"prompt_tokens"`
	Completion int     `json:"completion_tokens"`
	Cached     int     `json:"cached_tokens,omitempty"`
	Estimated  bool    `json:"estimated,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"` // 0 when unknown or free
	Billing    string  `json:"billing,omitempty"`  // how it is paid for: ledger.Billing; "" if no call was recorded
}
