// Package runner is the engine of one turn: it sends the conversation to a
// model, runs the tools the model asks for, and goes on until there is an
// answer or a limit is reached. It hides context governance, recovery from
// empty, cut-off and malformed answers, parallel tool batches, loop detection,
// budgets and hook isolation.
//
// The runner is stateless between runs and knows nothing of sessions, channels
// or files: what must be kept is handed to Spec.Record the moment it exists,
// what arrived meanwhile is asked for through Spec.Inject. It never panics
// outward and always returns with a legal list of messages.
package runner

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Stop says why a run ended.
type Stop string

// The stop reasons.
const (
	Completed     Stop = "completed"
	ToolError     Stop = "tool_error"
	ModelError    Stop = "error"
	EmptyFinal    Stop = "empty_final_response"
	MaxIterations Stop = "max_iterations"
	LoopDetected  Stop = "loop_detected"
	OverBudget    Stop = "budget_exceeded"
	Refused       Stop = "refused"
	Cancelled     Stop = "cancelled"
)

// Limits of one run; zero means the default or, where stated, no limit.
type Limits struct {
	Iterations      int           // model calls with tools; default 200
	ToolResultChars int           // longer results go to a file; default 16000
	ToolCalls       int           // per run; 0 = no limit
	AnswerBytes     int           // of one answer with its reasoning; default 4 MiB
	Tokens          int           // prompt plus completion over the run; 0 = no limit
	Time            time.Duration // wall clock; 0 = no limit
	ContextWindow   int           // tokens the model can see; 0 = unknown
	ContextBlock    int           // replaces the computed input budget when set
}

// Spec describes one run.
type Spec struct {
	Model     llm.Model
	ModelName string // wire name
	System    string
	Messages  []llm.Message // the conversation so far, ending with the user's input; never modified
	// Tokens is the estimate of Messages when the caller has it, together with
	// the promise that Messages is legal already. It keeps the cost of a turn
	// from growing with the length of the conversation.
	Tokens int
	// HeadTokens is the estimate of System and Tools; 0 means it is made here.
	HeadTokens  int
	Tools       *tool.Set
	Source      string    // what caused the run, for the accounts; "" is the user
	Call        tool.Call // route, session, turn and state that every tool call carries
	MaxTokens   int       // of one answer; default 8192
	Temperature *float64
	Effort      string
	Limits      Limits
	Hooks       []Hooks // called in order, isolated from each other
	// FailOnToolError ends the run at the first failing tool.
	FailOnToolError bool
	// Sequential runs every tool call alone.
	Sequential bool
	// OffloadDir is where long tool results are kept; empty means they are cut instead.
	OffloadDir string
	// Scale corrects token estimates for this model; 0 means 1.
	Scale float64

	// Guard stands between the model and what its calls do; nil allows all.
	Guard Guard

	// Redact takes known secrets out of the text of tool results, before the
	// model, the log or a file sees them. nil leaves them as they are.
	Redact func(string) string

	// Record keeps messages, in order, the moment they exist. An error ends the run.
	Record func(ctx context.Context, msgs ...llm.Message) error
	// Sync makes recorded messages durable; called before tools with side effects run.
	Sync func(ctx context.Context) error
	// Inject returns up to most user messages that arrived meanwhile, already
	// kept, and whether words from outside are among them.
	Inject func(ctx context.Context, most int) (msgs []llm.Message, outside bool)
	// Whole makes the first answer the end of the run: what arrived meanwhile
	// joins it only between tool calls, and waits for a run of its own after
	// that. Otherwise an answer that is followed by more input is seen only by
	// a reader of the deltas.
	Whole bool

	Log *slog.Logger
}

// Guard decides which calls run and keeps the record of what they did. Its methods
// may be called for several calls at once.
type Guard interface {
	// Begin decides about a call that is ready to run, perhaps by asking a person,
	// and notes what it is going to change. A non-nil result is what the model sees
	// instead: the call does not run. A panic counts as a refusal.
	Begin(ctx context.Context, t tool.Tool, c tool.Call) *tool.Result

	// End notes what came of a call. It follows every Begin, also one that refused
	// the call, behind the hooks: what it tells the user comes after the end of the call.
	End(ctx context.Context, c tool.Call, r tool.Result)
}

// ToolEvent is a short account of one tool call.
type ToolEvent struct {
	CallID string
	Name   string
	OK     bool
	Detail string // at most 120 characters

	Receipt bus.Receipt
}

// Result holds what a run produced.
type Result struct {
	Text     string        // the final answer, think tags removed; if Stop is Cancelled, what there was of it, not recorded; if it is ModelError, the same, unless it was streamed
	New      []llm.Message // messages recorded by this run, in prompt order
	Stop     Stop
	Err      error // set when Stop is ModelError, ToolError or Cancelled
	Usage    llm.Usage
	Tools    []ToolEvent
	Requests int
	Injected bool   // user input arrived and was answered during the run
	Tainted  bool   // content from outside was seen, or the turn began with it
	Refused  string // the first call that needed an approval and got none, and why
	Cut      bool   // the answer was cut off by the output limit, and going on did not help
	// Streamed says that the text was shown completely by deltas.
	Streamed bool
	// ContextLimit is the real window in tokens, when the provider named it or
	// refused a prompt that we thought would fit.
	ContextLimit int
	// FallbackModel is the model that answered the last request in place of the first of
	// its chain; "" if that did.
	FallbackModel string
	// Estimated and Prompt are our estimate and the provider's count of the
	// last prompt, for calibration.
	Estimated, Prompt int
}

// Fixed numbers of the loop.
const (
	defaultIterations  = 200
	defaultResultChars = 16000
	defaultAnswerBytes = 4 << 20
	replyCalls         = 100 // tool calls of one reply that are run
	defaultMaxTokens   = 8192
	emptyRetries       = 2
	lengthRecoveries   = 3
	perDrain           = 3
	drainCycles        = 5
	safetyTokens       = 1024
	parallelTools      = 8
	anchorChars        = 64
	beginningChars     = 16 // that a shorter beginning of an answer must have to be known again
	overflowRetries    = 4
)

// run is the state of one Run.
type run struct {
	*Spec
	log   *slog.Logger
	hooks hookList
	added []llm.Message // what this run added to Spec.Messages

	tainted atomic.Bool   // content from outside is in this turn
	whole   []llm.Message // Spec.Messages and added in one piece, made when first needed
	res     Result

	window    window
	transient []llm.Message // prompts that are sent but never kept
	calls     callHistory

	iteration   int
	empty       int
	lengths     int
	drains      int
	malformed   int
	fragments   string // text of an answer cut by the output limit
	trail       string // white space that ended fragments
	segmentOpen bool
}

// callHistory holds what a run remembers of its tool calls.
type callHistory struct {
	n        int
	loop     loopGuard
	lookups  map[string]int
	boundary map[string]int
	ids      map[string]bool
}

// Run executes one turn. The error is non-nil only when a message could not be
// recorded, which the caller must treat as "nothing after this is safe".
func Run(ctx context.Context, spec Spec) (Result, error) {
	spec.Call.Tainted = spec.Call.Tainted || spec.Tools.Foreign()
	r := newRun(&spec)
	if spec.Limits.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Limits.Time, errTurnTime)
		defer cancel()
	}

	r.hooks.beforeRun(ctx)
	err := r.loop(ctx)
	r.closeSegment(ctx, false)
	r.res.New = r.added
	r.res.Tainted = r.Call.Tainted || r.tainted.Load()
	r.hooks.afterRun(ctx, &r.res)
	return r.res, err
}

func newRun(spec *Spec) *run {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}

	def(&spec.Limits.Iterations, defaultIterations)
	def(&spec.Limits.ToolResultChars, defaultResultChars)
	def(&spec.Limits.AnswerBytes, defaultAnswerBytes)
	def(&spec.MaxTokens, defaultMaxTokens)
	if spec.Scale <= 0 {
		spec.Scale = 1
	}
	if spec.Log == nil {
		spec.Log = slog.New(slog.DiscardHandler)
	}
	if spec.Record == nil {
		spec.Record = func(context.Context, ...llm.Message) error { return nil }
	}
	if spec.Sync == nil {
		spec.Sync = func(context.Context) error { return nil }
	}
	return &run{
		Spec: spec, log: spec.Log, hooks: newHookList(spec.Hooks, spec.Log),
		window: window{budget: InputBudget(spec.Limits, spec.MaxTokens), scale: spec.Scale, state: spec.Call.State, compacted: map[string]bool{}},
		calls:  callHistory{lookups: map[string]int{}, boundary: map[string]int{}},
	}
}

// conversation is Spec.Messages followed by what the run added. Long histories
// are copied at most once per run, and not at all by a run of one request.
func (r *run) conversation() []llm.Message {
	if len(r.added) == 0 {
		return r.Messages
	}
	if r.whole == nil {
		r.whole = make([]llm.Message, len(r.Messages), len(r.Messages)+len(r.added)+32)
		copy(r.whole, r.Messages)
	}
	r.whole = append(r.whole[:len(r.Messages)], r.added...)
	return r.whole
}

// last is the newest message of the conversation.
func (r *run) last() llm.Message {
	if n := len(r.added); n > 0 {
		return r.added[n-1]
	}
	return r.Messages[len(r.Messages)-1]
}

// InputBudget returns how many tokens a prompt may have; 0 when the window is
// unknown.
func InputBudget(l Limits, maxTokens int) int {
	if l.ContextBlock > 0 {
		return l.ContextBlock
	}
	if l.ContextWindow <= 0 {
		return 0
	}
	return max(l.ContextWindow-maxTokens-safetyTokens, l.ContextWindow/4, 128)
}

// next says what the loop does after a step.
type next int

const (
	again next = iota // another iteration
	done              // the result is complete
)

func (r *run) loop(ctx context.Context) error {
	for r.iteration < r.Limits.Iterations {
		step, err := r.iterate(ctx)
		if err != nil {
			return err
		}
		if step == done {
			return nil
		}
	}
	return r.exhausted(ctx)
}

// iterate makes one model call and acts on its answer.
func (r *run) iterate(ctx context.Context) (next, error) {
	r.iteration++
	it := &Iteration{Number: r.iteration, run: r}
	if stop, err := r.overBudget(ctx, it); stop || err != nil {
		return done, err
	}

	r.hooks.beforeIteration(ctx, it)
	resp, err := r.request(ctx, it, r.Tools, "")
	step, err := r.answer(ctx, it, resp, err)
	r.hooks.afterIteration(ctx, it)
	return step, err
}

// answer decides what a response, or the lack of one, means.
func (r *run) answer(ctx context.Context, it *Iteration, resp llm.Response, err error) (next, error) {
	switch {
	case err != nil:
		return r.failed(ctx, it, err)
	case it.repeated:
		return endRepeated(ctx, r, it, it.said)
	case len(resp.Message.ToolCalls) > 0 && resp.Finish.RunsTools():
		return r.runTools(ctx, it, resp)
	case it.malformed:
		return r.malformedCalls(ctx, it)
	case len(resp.Message.ToolCalls) > 0 && resp.Finish == llm.FinishLength:
		return r.cutCalls(ctx, it, resp)
	}
	return r.textAnswer(ctx, it, resp)
}
