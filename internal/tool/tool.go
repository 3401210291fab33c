// Package tool is the contract between the agent and what it can do: a Tool is
// a value with a schema and a Run func, a Set is an immutable, ordered
// collection of them, a Call carries everything one execution may know (its
// route included, so tools hold no per-turn state), and a Result says what
// came out. Schemas are derived from Go struct types, arguments are cast and
// validated here once, and a panic in a tool becomes an error result.
package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Tool is something the model can call.
type Tool struct {
	Name        string // [A-Za-z0-9_-]{1,64}
	Description string // shown to the model; must not change between turns
	Schema      json.RawMessage
	ReadOnly    bool // has no side effects
	Exclusive   bool // must run alone
	Polling     bool // repeating the same call with the same result is normal
	Sink        Sink // what kind of effect a call has, for the approval policy
	// Trusted says that results are our own words unless one is marked as
	// Untrusted. Without it everything that a tool returns came from outside,
	// its errors included, unless a Result says Trusted itself.
	Trusted bool
	// Guests says of a tool that comes and goes, such as one of an MCP server,
	// that others than the owner may use it.
	Guests bool
	// Foreign says that the name, the description and the parameters are words
	// of a third party, such as an MCP server, that the owner has not
	// accepted. They stand before the model in every turn that has the tool,
	// which taints it.
	Foreign bool
	// Paths names the files a call is going to change, as the model wrote them,
	// so that policy, undo and receipts see them without knowing the tool. nil
	// means none, or (for a command) that it cannot be known.
	//
	// It is asked before the call runs, and it is the same func for all
	// conversations, whose files differ: it uses the arguments alone. What they do
	// not name cannot be undone, and gets no mark of its origin. The content that
	// is written must be in the arguments as well: a person who says yes is taken
	// to have read it, and what a call copies from another file does not get the
	// mark of that file.
	Paths func(input json.RawMessage) []string
	// Older translates the arguments of a tool that this one took the place of,
	// which a model may know from a skill or an old conversation; false: it is
	// none of them. It is not offered. nil means that there is none.
	Older func(name string, in map[string]any) (map[string]any, bool)
	// Run does the work. The model sees a failure, be it a Result with IsError
	// or a Go error; a *FatalError ends the turn.
	Run func(ctx context.Context, c Call) (Result, error)

	parsed *schema
}

// Sink says where the effect of a call ends up.
type Sink string

// The sinks. A tool that is ReadOnly needs none. The table in
// docs/reference/approvals.md says when each is asked about; a call of a tool
// that has none is asked about in every tainted turn.
const (
	SinkWrite    Sink = "write"    // files, which Paths names; a tainted turn is asked only about some of them
	SinkCommand  Sink = "command"  // a program runs
	SinkMessage  Sink = "message"  // something is sent to a person
	SinkSchedule Sink = "schedule" // something will happen later
	SinkMemory   Sink = "memory"   // what the agent knows or how it behaves changes
	SinkSpawn    Sink = "spawn"    // another agent starts
	SinkRemote   Sink = "remote"   // a server that is not ours does something
)

// Concurrent reports whether calls of the tool may run beside others.
func (t Tool) Concurrent() bool { return t.ReadOnly && !t.Exclusive }

// Call is one execution of a tool.
type Call struct {
	ID         string
	Name       string
	Input      json.RawMessage // a JSON object, already cast and validated
	Route      bus.Route       // where the turn's answer goes
	SessionKey string
	Scope      string // whose memory the turn belongs to; "" is the owner's
	Project    Project
	SenderID   string
	Person     string // who the turn works for, as far as that is proven; "" is SenderID
	TurnID     string
	Turn       *Turn  // whose end what is left running hears of; may be nil
	MaxChars   int    // the longest result that is shown as a whole; 0: not known
	UserText   string // what the user wrote to start the turn, without what we added
	// Publish sends something to the user right now; nil when there is no
	// recipient.
	Publish func(ctx context.Context, out bus.Outbound) error
	// Tainted says that the turn has seen content from outside, so that what
	// the model wants may be what a stranger wants.
	Tainted bool
	// Ask puts a question to the person this turn works for and waits for the
	// answer: one of the options of the question, or "no: " and what they wrote.
	// It is nil when there is no person who can answer. ErrNoAnswer means that
	// the time ran out, an UnaskedError that this person cannot be asked.
	Ask func(ctx context.Context, q bus.Question) (answer string, err error)
	// State is per-session scratch space of a tool family, keyed by the
	// family's own type; see StateOf. nil in tests means no state.
	State *State
}

// Project is the folder that a conversation works in: relative paths and
// commands start there. The zero value is the workspace.
type Project struct {
	Dir  string // absolute, without links; "" is the workspace
	Only bool   // files and commands of the conversation stay inside
	// Started says that the owner started the conversation there, outside of the
	// workspace: commands stay inside, and tools that work on files reach the
	// workspace as well.
	Started bool
}

// Path returns what a name in a call means: a relative one is below the
// folder. In the workspace, whose path is not known here, names stay as they
// are.
func (p Project) Path(name string) string {
	if p.Dir == "" || name == "" || filepath.IsAbs(name) || name[0] == '~' || strings.Contains(name, "://") {
		return name
	}
	return filepath.Join(p.Dir, name)
}

// Result holds what a tool produced.
type Result struct {
	Content   llm.Content
	IsError   bool
	Code      Code // set when IsError
	Exit      *int // the exit code of a command that ended
	EndTurn   bool // the turn is over after this call
	Untrusted bool // the content came from outside and is data, not instructions
	Trusted   bool // the content is our own words although the tool is not Trusted; Untrusted wins
	// Whole marks content that must not be replaced by a reference to a
	// file although it is long (a page of a file the model asked for).
	Whole bool
	// Remark is about the call, in our own words; the model reads it after the content.
	Remark string
	// MayHaveRun marks an error after which the effect is uncertain.
	MayHaveRun bool
}

// Code classifies an error result.
type Code string

// The codes of error results.
const (
	InvalidArgs    Code = "invalid_args"
	UnknownTool    Code = "unknown_tool"
	NotFound       Code = "not_found"
	DeniedPolicy   Code = "denied_policy"
	DeniedSSRF     Code = "denied_ssrf"
	DeniedApproval Code = "denied_approval"
	Conflict       Code = "conflict"
	TooLarge       Code = "too_large"
	TimedOut       Code = "timeout"
	Cancelled      Code = "cancelled"
	Unsupported    Code = "unsupported"
	Internal       Code = "internal"
)

// Denied reports whether a call with this result was not allowed.
func (c Code) Denied() bool { return c == DeniedPolicy || c == DeniedSSRF || c == DeniedApproval }

// ErrNoAnswer is returned by Call.Ask when the person did not answer in time.
var ErrNoAnswer = errors.New("there was no answer in time")

// UnaskedError is returned by Call.Ask when the person the turn works for
// cannot be asked, because nothing proves who they are.
type UnaskedError struct {
	Why string // and what to do about it
}

func (e *UnaskedError) Error() string { return e.Why }

// FatalError is the failure of a tool after which its turn cannot go on.
type FatalError struct {
	Err error
}

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap makes the cause visible to errors.Is.
func (e *FatalError) Unwrap() error { return e.Err }

// Text returns a successful result.
func Text(s string) Result { return Result{Content: llm.Text(s)} }

// Textf returns a successful result with formatting.
func Textf(format string, args ...any) Result { return Text(fmt.Sprintf(format, args...)) }

// Fail returns an error result for the model. The text says what is wrong and what to do.
func Fail(code Code, format string, args ...any) Result {
	return Result{Content: llm.Text("Error: " + fmt.Sprintf(format, args...)), IsError: true, Code: code}
}

// Hint follows every error the model sees.
const Hint = "\n\n[Read the error, then try a different approach; do not repeat the same call.]"

// Func makes a tool from a typed function. The schema comes from In's fields:
// the json tag names a parameter (omitempty or a pointer makes it optional),
// desc describes it, enum lists values ("a|b"), min and max bound numbers,
// string lengths or item counts, alias names other accepted spellings. A
// parameter marked hidden works but is not shown to the model: it is for what
// a result names when it helps, and for callers that know it from elsewhere.
func Func[In any](t Tool, fn func(ctx context.Context, c Call, in In) (Result, error)) Tool {
	t.parsed = schemaOf(reflect.TypeFor[In]())
	t.Schema = t.parsed.json()
	t.Run = func(ctx context.Context, c Call) (Result, error) {
		var in In
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return Fail(InvalidArgs, "%v", err), nil
		}
		return fn(ctx, c, in)
	}
	return t
}

// PathArg returns a Tool.Paths for tools that change the one file named by a
// string parameter.
func PathArg(name string) func(json.RawMessage) []string {
	return func(input json.RawMessage) []string {
		var all map[string]json.RawMessage
		var path string
		if json.Unmarshal(input, &all) != nil || json.Unmarshal(all[name], &path) != nil || path == "" {
			return nil
		}
		return []string{path}
	}
}

// Set is an immutable collection of tools: built-ins by name, then mcp_* by
// name, so that the prompt prefix is stable.
type Set struct {
	tools []Tool
	index map[string]int
	defs  []llm.ToolDef
	// absent says why a tool is not in the set; nil, or "" from it: not known.
	absent  func(name string) string
	foreign bool // one of them is Foreign
}

// validName reports whether every provider takes a name. It is plain code
// because each start asks it.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 64
}

// NewSet builds a set. Two tools with one name, or a name providers would
// reject, are programming errors of the caller and reported as such.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{tools: slices.Clone(tools), index: make(map[string]int, len(tools))}
	slices.SortStableFunc(s.tools, func(a, b Tool) int {
		if am, bm := strings.HasPrefix(a.Name, "mcp_"), strings.HasPrefix(b.Name, "mcp_"); am != bm {
			if am {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for i := range s.tools {
		t := &s.tools[i]
		if !validName(t.Name) {
			return nil, fmt.Errorf("tool name %q: want 1-64 letters, digits, _ or -", t.Name)
		}
		if _, dup := s.index[t.Name]; dup {
			return nil, fmt.Errorf("two tools are called %q", t.Name)
		}

		if t.parsed == nil {
			p, err := parseSchema(t.Schema)
			if err != nil {
				return nil, fmt.Errorf("schema of tool %q: %w", t.Name, err)
			}
			t.parsed = p
		}

		s.index[t.Name], s.foreign = i, s.foreign || t.Foreign
		s.defs = append(s.defs, llm.ToolDef{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}

	return s, nil
}

// Defs describes the tools to a model, always in the same order. Callers must not modify it.
func (s *Set) Defs() []llm.ToolDef {
	if s == nil {
		return nil
	}
	return s.defs
}

// Foreign reports whether one of the tools is Foreign.
func (s *Set) Foreign() bool { return s != nil && s.foreign }

// Names lists the tools.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Name
	}
	return names
}

// Get finds a tool.
func (s *Set) Get(name string) (Tool, bool) {
	if s == nil {
		return Tool{}, false
	}
	i, ok := s.index[name]
	if !ok {
		return Tool{}, false
	}
	return s.tools[i], true
}

// With returns a set that also holds the given tools.
func (s *Set) With(tools ...Tool) (*Set, error) {
	if s == nil {
		return NewSet(tools...)
	}
	return NewSet(append(slices.Clone(s.tools), tools...)...)
}

// Explaining returns the same set with a way to tell the model why a tool that
// it may know from before is not there.
func (s *Set) Explaining(absent func(name string) string) *Set {
	with := Set{}
	if s != nil {
		with = *s
	}
	with.absent = absent
	return &with
}

// Prepare finds the tool of a call and casts and validates its arguments. On
// failure the returned Result is what the model sees.
func (s *Set) Prepare(name, arguments string) (Tool, json.RawMessage, *Result) {
	t, ok := s.Get(name)
	if !ok {
		if t, raw, found := s.older(name, arguments); found {
			return s.check(t, name, raw, nil)
		}

		if s != nil && s.absent != nil {
			if why := s.absent(name); why != "" {
				r := Fail(UnknownTool, "%s is not available now: %s", name, why)
				return Tool{}, nil, &r
			}
		}

		r := Fail(UnknownTool, "there is no tool %q.%s Available: %s.", name, s.suggest(name), strings.Join(s.Names(), ", "))
		return Tool{}, nil, &r
	}

	raw, err := wire.ParseArguments(arguments)
	return s.check(t, name, raw, err)
}

// older finds the tool that took the place of one.
func (s *Set) older(name, arguments string) (Tool, json.RawMessage, bool) {
	if s == nil {
		return Tool{}, nil, false
	}

	for i := range s.tools {
		if s.tools[i].Older == nil {
			continue
		}

		raw, err := wire.ParseArguments(arguments)
		var in map[string]any
		if err != nil || json.Unmarshal(raw, &in) != nil {
			in = map[string]any{} // what is missing is told
		}

		if in, ok := s.tools[i].Older(name, in); ok {
			raw, err := json.Marshal(in)
			return s.tools[i], raw, err == nil
		}
	}

	return Tool{}, nil, false
}

// check casts and validates arguments.
func (s *Set) check(t Tool, name string, raw json.RawMessage, err error) (Tool, json.RawMessage, *Result) {
	var remark string
	if err == nil {
		raw, remark, err = t.parsed.prepare(raw)
	}

	if err != nil {
		r := Fail(InvalidArgs, "%s: %v", name, err)
		return Tool{}, nil, &r
	}

	if remark != "" {
		run := t.Run
		t.Run = func(ctx context.Context, c Call) (Result, error) {
			r, err := run(ctx, c)
			r.Remark = remark
			return r, err
		}
	}

	return t, raw, nil
}

// suggest names the one tool whose letters match, e.g. readFile for read_file.
func (s *Set) suggest(name string) string {
	want, found := letters(name), ""
	for _, n := range s.Names() {
		if letters(n) == want {
			if found != "" {
				return ""
			}
			found = n
		}
	}

	if found == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", found)
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, s)
}

// Execute runs a prepared call. A panic becomes an error result; its stack
// goes to the log and never to the model. Afterwards Untrusted is the whole
// truth about the result: it is unset only where the tool or the result said so.
func Execute(ctx context.Context, t Tool, c Call, log *slog.Logger) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "tool panicked", "tool", t.Name, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			r, err = Fail(Internal, "%s crashed: %v", t.Name, p), nil
			r.MayHaveRun, r.Untrusted = !t.ReadOnly, true // a panic quotes what it stumbled over
		}
	}()

	r, err = t.Run(ctx, c)
	r.Untrusted = r.Untrusted || !t.Trusted && !r.Trusted
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		return r, fmt.Errorf("tool %s: %w", t.Name, err)
	}
	return r, err
}

// State is the per-session scratch space of tool families, for example which
// files were read in this conversation. It is created by the agent, one per
// session, and handed to every Call. Safe for concurrent use.
type State struct {
	mu sync.Mutex
	m  map[reflect.Type]any
}

// StateOf returns the session's value of type T, making it with fresh on first
// use. T must be safe for concurrent use itself. A nil State gives a new value
// every time.
func StateOf[T any](s *State, fresh func() *T) *T {
	if s == nil {
		return fresh()
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if v, ok := s.m[reflect.TypeFor[T]()].(*T); ok {
		return v
	}

	v := fresh()
	if s.m == nil {
		s.m = map[reflect.Type]any{}
	}

	s.m[reflect.TypeFor[T]()] = v
	return v
}

// Reset forgets everything: what the tools told the model may no longer be in
// its view, so "unchanged since you read it" would be wrong.
func (s *State) Reset() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.m)
}
