package turn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/memory/worker"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// preflight is how long a turn may wait for its conversation to be summarised.
const preflight = 20 * time.Second

// frame is what the requests of a turn have in common.
type frame struct {
	rt        Runtime
	base      string // the system prompt without what belongs to the session
	baseHead  int    // estimated tokens of base and tools
	system    string
	head      int  // estimated tokens of system and tools
	outside   bool // the summary in system holds words from outside
	described bool // words of others describe the tools
	tools     []llm.ToolDef
	budget    int // of a prompt, in tokens
	answer    int // of one answer, in tokens
	scale     float64
}

// frameOf is the frame of work that belongs to no turn.
func (e *Engine) frameOf(ctx context.Context, preset string) (worker.Frame, error) {
	rt, err := e.opts.Models.Runtime(ctx, preset)
	if err != nil && preset != "" {
		rt, err = e.opts.Models.Runtime(ctx, "")
	}

	if err != nil {
		return worker.Frame{}, err
	}

	l := e.opts.Turns.Limits
	l.ContextWindow, l.ContextBlock = rt.Window, rt.Block
	l, answer := prompt.TierOf(rt.Window).Limits(l, rt.MaxTokens)
	return frame{rt: rt, budget: runner.InputBudget(l, answer), answer: answer, scale: e.models.calibration(rt.Name).Factor()}.forMemory(), nil
}

// forMemory is what the memory worker needs of the frame.
func (f frame) forMemory() worker.Frame {
	return worker.Frame{Engine: f.engine(), Budget: f.budget, Prompt: func(s *session.Session) memory.Prompt {
		var c transcript.View
		c.Follow(s)
		return f.prompt(&c)
	}}
}

func (f frame) engine() memory.Engine {
	return memory.Engine{
		Model: f.rt.Model, Name: f.rt.Name, MaxTokens: f.answer, Temperature: f.rt.Temperature, Effort: f.rt.Effort,
		Input: f.budget, Scale: f.scale,
	}
}

func (f frame) prompt(c *transcript.View) memory.Prompt {
	return memory.Prompt{System: f.system, Tools: f.tools, Messages: c.Messages, Tokens: c.Tokens, Origin: c.Origin, Head: f.head}
}

func (f frame) size(c *transcript.View) int { return int(float64(f.head+c.Total) * f.scale) }

// makeRoom sees to it that the conversation fits. Memory takes in the oldest
// turns first; where that is not possible, or takes too long, they are left
// out of the prompt and wait in the session until memory has them.
func (t *Turn) makeRoom(ctx context.Context) error {
	t.complete(ctx)
	f := &t.frame
	if t.remembers() && f.budget > 0 && f.size(&t.conv.View) > f.budget {
		if err := t.takeIn(ctx, *f); err != nil && ctx.Err() == nil {
			t.engine.log.WarnContext(ctx, "take in old turns", "session", t.key, "err", err)
		}
		t.complete(ctx)
	}

	replay, dropped := t.conv.Fit(f.budget, f.head, f.scale)
	if !dropped {
		return nil
	}

	t.conv.state.Reset()
	if t.remembers() {
		t.conv.Owed = true
		return nil
	}
	if err := t.sess.SetReplay(replay); err != nil {
		return fmt.Errorf("shorten the conversation: %w", err)
	}

	t.conv.First = replay
	return nil
}

// complete adds to the frame what its session remembers.
func (t *Turn) complete(ctx context.Context) {
	f := &t.frame
	f.system, f.head, f.outside = f.base, f.baseHead, false
	add := func(own string) {
		if own != "" {
			f.system += prompt.Divider + own
			f.head += text.Tokens(own)
		}
	}

	add(prompt.Instructions(t.key, t.msg.In.History))
	if t.engine.opts.Memory.Consolidator == nil {
		return
	}

	own, outside := t.engine.prompt.Remembered(ctx, prompt.Recall{
		History: t.engine.opts.Memory.Consolidator.History(), Session: t.sess, Key: t.key, Scope: t.msg.In.Scope,
		Unified: t.engine.opts.Turns.Unified, Job: t.ofJob(), Tainted: t.tainted(), Window: f.budget,
	})
	f.outside = outside
	add(own)
}

// takeIn summarises the oldest turns while the user waits, but not for long.
func (t *Turn) takeIn(ctx context.Context, f frame) error {
	ctx, cancel := context.WithTimeout(ctx, preflight)
	defer cancel()
	changed, err := t.engine.opts.Memory.Consolidator.Run(ctx, memory.Task{
		With:   func(_ context.Context, fn func(*session.Session) error) error { return fn(t.sess) },
		Engine: f.engine(), Budget: f.budget, Trigger: 1,
		Prompt: func(*session.Session) (memory.Prompt, error) {
			t.conv.follow(t.sess)
			return f.prompt(&t.conv.View), nil
		},
	})
	if changed {
		t.conv.state.Reset()
	}

	t.conv.follow(t.sess)
	return err
}

// StartNewSession clears the session. What memory had not taken in is put aside
// first and summarised in the background.
func (t *Turn) StartNewSession(ctx context.Context) error {
	if t.engine.opts.Memory.Consolidator != nil {
		name, err := t.engine.opts.Memory.Consolidator.Keep(t.sess)
		if err != nil {
			// The old log goes to the archive whatever happens here.
			t.engine.log.WarnContext(ctx, "keep the end of a conversation for memory", "session", t.key, "err", err)
		} else if name != "" {
			var preset string
			t.sess.Meta(owntool.PresetKey, &preset)
			t.engine.memory.PlanKept(name, preset)
		}
	}

	if g, active := owntool.Goal(t.sess); active { // it belonged to the old one
		g.Status = "cancelled"
		if err := t.SetGoal(g); err != nil {
			return fmt.Errorf("end the goal: %w", err)
		}
	}

	if err := t.sess.Clear(); err != nil {
		return fmt.Errorf("start a new conversation: %w", err)
	}

	t.engine.conversations.forget(t.key)
	return nil
}

// afterTurn plans what memory has to do with the session now.
func (t *Turn) afterTurn(used int, said string) {
	if !t.remembers() || t.frame.rt.Model == nil || strings.HasPrefix(t.key, "dream:") {
		return
	}

	f := t.frame
	used += int(float64(text.Tokens(said)) * f.scale)
	var when worker.When
	switch {
	case f.budget > 0 && float64(used) > float64(f.budget)*t.engine.opts.Memory.Consolidator.BackgroundTrigger() || t.conv.Owed:
		t.engine.memory.Plan(t.key, f.forMemory(), worker.Soon)
		return
	case !worker.Compacts(t.key):
		return
	case t.rested:
		when = worker.Resumed
	case t.engine.opts.Memory.IdleCompact > 0:
		when = worker.IfSilent
	default:
		return
	}

	f.base, f.system, f.tools = "", "", nil // made from a transcript; many may wait
	t.engine.memory.Plan(t.key, f.forMemory(), when)
}
