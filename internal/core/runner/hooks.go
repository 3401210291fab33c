package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// slowHook is when a hook that holds up the turn is reported.
const slowHook = 5 * time.Second

// Iteration holds what hooks see of one model call. It is valid during the
// call.
type Iteration struct {
	Number   int
	Response *llm.Response // set once the model answered
	Usage    llm.Usage
	Calls    []llm.ToolCall // set before tools run
	Events   []ToolEvent    // set after tools ran
	Err      error

	run       *run
	extra     []llm.Message // from hooks, for the next request
	streamed  bool
	malformed bool
	repeated  bool   // the model repeated itself and was stopped
	said      string // visible text of the last request, also of one that broke off
	cut       bool   // the answer was longer than Limits.AnswerBytes
	glue      string // white space between this part of an answer and the one before
	trail     string // white space at the end of a part that was cut off
}

// Messages returns a copy of the conversation as it stands; changing it has no effect.
func (it *Iteration) Messages() []llm.Message { return slices.Clone(it.run.conversation()) }

// Add puts messages behind the conversation in the next request, which is made
// legal afterwards; nothing of them is kept. It is for BeforeIteration. The
// words count as the owner's: those of others belong to AddOutside.
func (it *Iteration) Add(msgs ...llm.Message) { it.extra = append(it.extra, msgs...) }

// AddOutside is Add for words of others. They are marked as data, and the turn
// is tainted. Source says in our words where they come from.
func (it *Iteration) AddOutside(source, text string) {
	it.outside(context.Background())
	it.Add(llm.Message{Role: llm.User, Content: Fence(llm.Text(text), fmt.Sprintf("%s/%d/%d", it.run.Call.TurnID, it.Number, len(it.extra)), source)})
}

// outside notes that words from outside are before the model, of which no
// message that is kept shows anything.
func (it *Iteration) outside(ctx context.Context) {
	it.run.tainted.Store(true)
	it.run.hooks.each(ctx, "outside", func(h Hooks) {
		if h.Outside != nil {
			h.Outside(it)
		}
	})
}

// Hooks observe a run. A nil func means "not interested"; setting Delta asks
// for streaming. A hook that panics is logged and the run goes on as if it had
// returned. Order with one tool round: BeforeRun, BeforeIteration, Delta...,
// DeltaEnd(true), BeforeTools, BeforeTool/AfterTool per call, AfterIteration,
// BeforeIteration, Delta..., Finalize, DeltaEnd(false), AfterIteration, AfterRun.
type Hooks struct {
	BeforeRun       func(ctx context.Context)
	BeforeIteration func(ctx context.Context, it *Iteration)
	// Outside is called when a hook adds words from outside to a request, or the
	// provider's own tools did, of which no message that is kept shows anything.
	Outside   func(it *Iteration)
	Delta     func(ctx context.Context, it *Iteration, text string)
	Reasoning func(ctx context.Context, it *Iteration, text string)
	// ToolDelta shows a piece of the arguments of a call while the model writes it.
	// A call that never comes to BeforeTool was not made.
	ToolDelta func(ctx context.Context, it *Iteration, call llm.ToolPart, piece string)
	// HostedTool tells of a tool that the provider runs itself.
	HostedTool func(ctx context.Context, it *Iteration, call llm.ToolPart)
	// DeltaEnd closes a visible message; resuming says that the turn goes on.
	DeltaEnd func(ctx context.Context, resuming bool)
	// DeltaVoid closes a visible message that broke off; its text comes again
	// from the beginning. Without it DeltaEnd(true) is called.
	DeltaVoid func(ctx context.Context)
	// Notice carries a text for the user. A brief one holds only until the next
	// event, such as a wait before a retry.
	Notice      func(ctx context.Context, text string, brief bool)
	BeforeTools func(ctx context.Context, it *Iteration)
	// BeforeTool may veto a call: a non-nil error is what the model sees
	// instead of a result. A panic here counts as a veto.
	BeforeTool     func(ctx context.Context, c tool.Call) error
	AfterTool      func(ctx context.Context, c tool.Call, r tool.Result, took time.Duration)
	AfterIteration func(ctx context.Context, it *Iteration)
	// Finalize may rewrite the text of every answer without tool calls.
	Finalize func(ctx context.Context, it *Iteration, text string) string
	OnError  func(ctx context.Context, it *Iteration, err error)
	// Continues reports that another run goes on where this one has used up its
	// iterations. Then no summary is asked for.
	Continues func() bool
	AfterRun  func(ctx context.Context, res *Result)
}

// hookList calls several Hooks in order, each isolated from the others.
type hookList struct {
	list      []Hooks
	streaming bool
	calls     bool // calls are shown while they are written
	log       *slog.Logger
}

func newHookList(list []Hooks, log *slog.Logger) hookList {
	some := func(f func(h Hooks) bool) bool { return slices.ContainsFunc(list, f) }
	return hookList{list, some(func(h Hooks) bool { return h.Delta != nil }), some(func(h Hooks) bool { return h.ToolDelta != nil }), log}
}

// each runs call for every hook; a panic is logged and the next hook still runs.
func (l hookList) each(ctx context.Context, point string, call func(h Hooks)) {
	for _, h := range l.list {
		l.guard(ctx, point, func() { call(h) })
	}
}

func (l hookList) guard(ctx context.Context, point string, call func()) (panicked bool) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			panicked = true
			l.log.ErrorContext(ctx, "hook panicked", "hook", point, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		if took := time.Since(start); took > slowHook {
			l.log.WarnContext(ctx, "hook is slow", "hook", point, "dur_ms", took.Milliseconds())
		}
	}()

	call()
	return false
}

func (l hookList) beforeRun(ctx context.Context) {
	l.each(ctx, "before_run", func(h Hooks) {
		if h.BeforeRun != nil {
			h.BeforeRun(ctx)
		}
	})
}

func (l hookList) beforeIteration(ctx context.Context, it *Iteration) {
	l.each(ctx, "before_iteration", func(h Hooks) {
		if h.BeforeIteration != nil {
			h.BeforeIteration(ctx, it)
		}
	})
}

func (l hookList) delta(ctx context.Context, it *Iteration, s string) {
	l.each(ctx, "delta", func(h Hooks) {
		if h.Delta != nil {
			h.Delta(ctx, it, s)
		}
	})
}

func (l hookList) reasoning(ctx context.Context, it *Iteration, s string) {
	l.each(ctx, "reasoning", func(h Hooks) {
		if h.Reasoning != nil {
			h.Reasoning(ctx, it, s)
		}
	})
}

func (l hookList) toolDelta(ctx context.Context, it *Iteration, call llm.ToolPart, piece string) {
	l.each(ctx, "tool_delta", func(h Hooks) {
		if h.ToolDelta != nil {
			h.ToolDelta(ctx, it, call, piece)
		}
	})
}

func (l hookList) hostedTool(ctx context.Context, it *Iteration, call llm.ToolPart) {
	l.each(ctx, "hosted_tool", func(h Hooks) {
		if h.HostedTool != nil {
			h.HostedTool(ctx, it, call)
		}
	})
}

func (l hookList) deltaEnd(ctx context.Context, resuming bool) {
	l.each(ctx, "delta_end", func(h Hooks) {
		if h.DeltaEnd != nil {
			h.DeltaEnd(ctx, resuming)
		}
	})
}

func (l hookList) deltaVoid(ctx context.Context) {
	l.each(ctx, "delta_void", func(h Hooks) {
		switch {
		case h.DeltaVoid != nil:
			h.DeltaVoid(ctx)
		case h.DeltaEnd != nil:
			h.DeltaEnd(ctx, true)
		}
	})
}

func (l hookList) notice(ctx context.Context, s string, brief bool) {
	l.each(ctx, "notice", func(h Hooks) {
		if h.Notice != nil {
			h.Notice(ctx, s, brief)
		}
	})
}

func (l hookList) beforeTools(ctx context.Context, it *Iteration) {
	l.each(ctx, "before_tools", func(h Hooks) {
		if h.BeforeTools != nil {
			h.BeforeTools(ctx, it)
		}
	})
}

// beforeTool returns the first veto. A hook that panics cannot have approved
// the call, so it counts as a veto too.
func (l hookList) beforeTool(ctx context.Context, c tool.Call) (veto error) {
	for _, h := range l.list {
		if h.BeforeTool == nil {
			continue
		}

		if l.guard(ctx, "before_tool", func() { veto = h.BeforeTool(ctx, c) }) {
			veto = errors.New("the check of this call failed")
		}

		if veto != nil {
			return veto
		}
	}
	return nil
}

func (l hookList) afterTool(ctx context.Context, c tool.Call, r tool.Result, took time.Duration) {
	l.each(ctx, "after_tool", func(h Hooks) {
		if h.AfterTool != nil {
			h.AfterTool(ctx, c, r, took)
		}
	})
}

func (l hookList) afterIteration(ctx context.Context, it *Iteration) {
	l.each(ctx, "after_iteration", func(h Hooks) {
		if h.AfterIteration != nil {
			h.AfterIteration(ctx, it)
		}
	})
}

// finalize passes the text through all hooks; one that panics leaves it as it was.
func (l hookList) finalize(ctx context.Context, it *Iteration, s string) string {
	l.each(ctx, "finalize", func(h Hooks) {
		if h.Finalize != nil {
			s = h.Finalize(ctx, it, s)
		}
	})
	return s
}

func (l hookList) onError(ctx context.Context, it *Iteration, err error) {
	l.each(ctx, "on_error", func(h Hooks) {
		if h.OnError != nil {
			h.OnError(ctx, it, err)
		}
	})
}

// continues reports whether a hook goes on with another run.
func (l hookList) continues(ctx context.Context) (yes bool) {
	l.each(ctx, "continues", func(h Hooks) { yes = yes || h.Continues != nil && h.Continues() })
	return yes
}

func (l hookList) afterRun(ctx context.Context, res *Result) {
	l.each(ctx, "after_run", func(h Hooks) {
		if h.AfterRun != nil {
			h.AfterRun(ctx, res)
		}
	})
}
