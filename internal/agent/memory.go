package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/memory"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
)

// preflight is how long a turn may wait for its conversation to be summarised.
const preflight = 20 * time.Second

// frame is what the requests of a turn have in common.
type frame struct {
	rt       Runtime
	base     string // the system prompt without what belongs to the session
	baseHead int    // estimated tokens of base and tools
	system   string
	head     int  // estimated tokens of system and tools
	outside  bool // the summary in system holds words from outside
	tools    []llm.ToolDef
	budget   int // of a prompt, in tokens
	answer   int // of one answer, in tokens
	scale    float64
}

// frameOf is the frame of work that belongs to no turn.
func (a *Agent) frameOf(rt Runtime) frame {
	l := a.Limits
	l.ContextWindow, l.ContextBlock = rt.Window, rt.Block
	l, answer := TierOf(rt.Window).limits(l, rt.MaxTokens)
	return frame{rt: rt, budget: runner.InputBudget(l, answer), answer: answer, scale: a.calibration(rt.Name).Factor()}
}

func (f frame) engine() memory.Engine {
	return memory.Engine{
		Model: f.rt.Model, Name: f.rt.Name, MaxTokens: f.answer, Temperature: f.rt.Temperature, Effort: f.rt.Effort,
		Input: f.budget, Scale: f.scale,
	}
}

func (f frame) prompt(c *conversation) memory.Prompt {
	return memory.Prompt{System: f.system, Tools: f.tools, Messages: c.msgs, Tokens: c.tokens, Origin: c.origin, Head: f.head}
}

func (f frame) size(c *conversation) int { return int(float64(f.head+c.total) * f.scale) }

// makeRoom sees to it that the conversation fits. Memory takes in the oldest
// turns first; where that is not possible, or takes too long, they are left
// out of the prompt and wait in the session until memory has them.
func (t *turn) makeRoom(ctx context.Context) error {
	t.complete(ctx)
	f := &t.frame
	if t.remembers() && f.budget > 0 && f.size(t.conv) > f.budget {
		if err := t.takeIn(ctx, *f); err != nil && ctx.Err() == nil {
			t.Log.WarnContext(ctx, "take in old turns", "session", t.key, "err", err)
		}
		t.complete(ctx)
	}
	replay, dropped := t.conv.fit(f.budget, f.head, f.scale)
	if !dropped {
		return nil
	}
	t.conv.state.Reset()
	if t.remembers() {
		t.conv.owed = true
		return nil
	}
	if err := t.sess.SetReplay(replay); err != nil {
		return fmt.Errorf("shorten the conversation: %w", err)
	}
	t.conv.first = replay
	return nil
}

// complete adds to the frame what its session remembers.
func (t *turn) complete(ctx context.Context) {
	f := &t.frame
	f.system, f.head, f.outside = f.base, f.baseHead, false
	if own := t.instructions(); own != "" {
		f.system += divider + own
		f.head += text.Tokens(own)
	}
	if own := t.remembered(ctx, f.budget); own != "" {
		f.system += divider + own
		f.head += text.Tokens(own)
	}
}

// takeIn summarises the oldest turns while the user waits, but not for long.
func (t *turn) takeIn(ctx context.Context, f frame) error {
	ctx, cancel := context.WithTimeout(ctx, preflight)
	defer cancel()
	changed, err := t.Memory.Run(ctx, memory.Task{
		With:   func(_ context.Context, fn func(*session.Session) error) error { return fn(t.sess) },
		Engine: f.engine(), Budget: f.budget, Trigger: 1,
		Prompt: func(*session.Session) (memory.Prompt, error) {
			t.conv.follow(t.sess)
			return f.prompt(t.conv), nil
		},
	})
	if changed {
		t.conv.state.Reset()
	}
	t.conv.follow(t.sess)
	return err
}

// Bounds of what a prompt repeats of the history.
const (
	recentEntries = 50
	recentTokens  = 8000
	// recentShare is the part of a small window that the history may take.
	recentShare = 8
)

// remembered is the part of the system prompt that belongs to this session:
// what was taken in lately and Dream has not seen yet, and how the conversation
// went before what is still in it. It changes only when those do.
func (t *turn) remembered(ctx context.Context, window int) string {
	if t.Memory == nil {
		return ""
	}
	most := recentTokens
	if window > 0 {
		most = min(most, window/recentShare)
	}
	sum, ok := memory.SummaryOf(t.sess)
	if sum.Home && t.it.in.Scope != "" {
		sum, ok = memory.Summary{}, false // one session for all channels: the owner's words stay the owner's
	}
	if sum.Tainted && t.ofJob() {
		sum, ok = memory.Summary{}, false // each run begins without what earlier ones saw
	}
	t.frame.outside = ok && sum.Tainted
	recent := t.recentHistory(ctx, sum.Text, most)
	if !ok {
		return recent
	}
	body := cutTokens(sum.Text, most/2)
	if sum.Tainted {
		body = runner.Fence(llm.Text(body), t.key, "history").Text
	}
	own := "# Earlier in This Conversation\n\nSummary of what is no longer shown (until " +
		strings.Replace(text.Cut(sum.LastActive, 16), "T", " ", 1) + "):\n" + body
	if recent == "" {
		return own
	}
	return recent + divider + own
}

func (t *turn) recentHistory(ctx context.Context, summary string, most int) string {
	h := t.Memory.History()
	read, err := h.DreamCursor(ctx)
	if err != nil {
		t.Log.WarnContext(ctx, "read the history", "err", err)
		return ""
	}
	// Notes of words from outside are for turns that have such words before
	// them anyway. In others they wait to be asked for, so that a conversation
	// that begins anew begins clean.
	tainted := t.tainted()
	entries, err := h.Recent(ctx, recentEntries, func(e memory.Entry) bool {
		return e.Cursor > read && (tainted || !e.Tainted) && e.Scope == t.it.in.Scope && t.sees(e.Session) && !strings.Contains(summary, e.Content)
	})
	if err != nil {
		t.Log.WarnContext(ctx, "read the history", "err", err)
		return ""
	}
	lines, used := make([]string, len(entries)), 0
	first := len(entries)
	for i, e := range slices.Backward(entries) {
		body := strings.ReplaceAll(e.Content, "\n", "\n  ")
		if e.Tainted {
			body = runner.Fence(llm.Text(body), strconv.FormatInt(e.Cursor, 10), "history").Text
		}
		lines[i] = "- [" + e.Time + "] " + body
		if used += text.Tokens(lines[i]); used > most {
			break
		}
		first = i
	}
	if first == len(entries) {
		return ""
	}
	return "# Recent History\n\n" + strings.Join(lines[first:], "\n")
}

// sees says whether entries of a session belong into this one's prompt.
func (t *turn) sees(key string) bool {
	if !t.Unified {
		return key == t.key
	}
	return key != "heartbeat" && !strings.HasPrefix(key, "cron:") && !strings.HasPrefix(key, "dream:")
}

// cutTokens shortens a text to about so many tokens.
func cutTokens(s string, most int) string {
	for chars := 4 * most; text.Tokens(s) > most && chars > 0; chars = chars * 3 / 4 {
		s = text.Cut(s, chars)
	}
	return s
}

// sources says what the log should know about a message beside its words.
func sources(in bus.Inbound) []string {
	out := []string{"time", "route"}
	if in.Foreign() {
		out = append(out, memory.SourceForeign)
	}
	if len(in.Media) > 0 {
		out = append(out, memory.SourceMedia)
	}
	if in.Scope != "" {
		out = append(out, memory.SourceScope+in.Scope)
	}
	return out
}

// beginAnew clears the session. What memory had not taken in is put aside
// first and summarised in the background.
func (t *turn) beginAnew(ctx context.Context) error {
	if t.Memory != nil {
		name, err := t.Memory.Keep(t.sess)
		if err != nil {
			// The old log goes to the archive whatever happens here.
			t.Log.WarnContext(ctx, "keep the end of a conversation for memory", "session", t.key, "err", err)
		} else if name != "" {
			var preset string
			t.sess.Meta(presetKey, &preset)
			t.keeper.add(&job{id: keptPrefix + name, kept: name, preset: preset, due: t.Now().Add(quiet)})
		}
	}
	if err := t.sess.Clear(); err != nil {
		return fmt.Errorf("start a new conversation: %w", err)
	}
	t.forget(t.key)
	return nil
}
