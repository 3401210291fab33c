package prompt

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Bounds of what a prompt repeats of the history.
const (
	recentEntries = 50
	recentTokens  = 8000
	othersTokens  = 2000 // of other conversations
	// recentShare is the part of a small window that the history may take.
	recentShare = 8
)

// Recall says what memory may put into the prompt of a session.
type Recall struct {
	History *memory.History
	Session *session.Session
	Key     string // of the session
	Scope   string // of the message
	Unified bool   // one session across all channels
	Job     bool   // the session is that of a job alone
	Tainted bool   // words from outside are before the model anyway
	Window  int    // tokens of a prompt; 0 is not known
}

// Remembered returns the part of the system prompt that belongs to a session: what
// was taken in lately and Dream has not seen yet, of it and of the owner's other
// sessions, and how the conversation went
// before what is still in it. It changes only when those do. Outside means that
// the summary holds words from outside.
func (p *Builder) Remembered(ctx context.Context, r Recall) (own string, outside bool) {
	most := recentTokens
	if r.Window > 0 {
		most = min(most, r.Window/recentShare)
	}

	sum, ok := memory.SummaryOf(r.Session)
	if sum.Home && r.Scope != "" {
		sum, ok = memory.Summary{}, false // one session for all channels: the owner's words stay the owner's
	}
	if r.Job {
		sum, ok = memory.Summary{}, false // each run begins without what earlier ones saw
	}

	outside = ok && sum.Tainted
	r.Tainted = r.Tainted || outside
	recent, err := r.recent(ctx, sum.Text, most)
	if err != nil {
		p.opts.Log.WarnContext(ctx, "cannot read the history", "err", err)
	}

	if !ok {
		return recent, outside
	}

	body := cutTokens(sum.Text, most/2)
	if sum.Tainted {
		body = runner.Fence(llm.Text(body), r.Key, "history").Text
	}

	own = "# Earlier in This Conversation\n\nSummary of what is no longer shown (until " +
		strings.Replace(text.Cut(sum.LastActive, 16), "T", " ", 1) + "):\n" + body
	if recent == "" {
		return own, outside
	}
	return recent + Divider + own, outside
}

// recent returns what was taken in and is not in long-term memory yet: of this
// conversation, and of the owner's others if it is the owner's.
func (r *Recall) recent(ctx context.Context, summary string, most int) (string, error) {
	read, err := r.History.DreamCursor(ctx)
	if err != nil {
		return "", err
	}

	// Notes of words from outside are for turns that have such words before
	// them anyway. In others they wait to be asked for, so that a new
	// conversation begins clean.
	own, err := r.lines(ctx, most, func(e memory.Entry) bool {
		switch {
		case e.Cursor <= read:
			return false // memory has it already
		case e.Tainted && !r.Tainted:
			return false
		case e.Scope != r.Scope, !r.sees(e.Session):
			return false
		}
		return !strings.Contains(summary, e.Content)
	})
	if err != nil {
		return "", err
	}

	var parts []string
	if r.Scope == "" && !r.Job {
		others, err := r.lines(ctx, min(most, othersTokens), func(e memory.Entry) bool {
			return e.Cursor > read && !e.Tainted && e.Scope == "" && !r.sees(e.Session) && !session.Unattended(e.Session)
		})
		if err != nil {
			return "", err
		}

		if others != "" {
			parts = append(parts, "# Other Conversations\n\nLately, between the user and you elsewhere:\n"+others)
		}
	}

	if own != "" {
		parts = append(parts, "# Recent History\n\n"+own)
	}
	return strings.Join(parts, Divider), nil
}

// lines returns the newest entries of a kind, within so many tokens.
func (r *Recall) lines(ctx context.Context, most int, wanted func(memory.Entry) bool) (string, error) {
	entries, err := r.History.Recent(ctx, recentEntries, wanted)
	if err != nil {
		return "", err
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

	return strings.Join(lines[first:], "\n"), nil
}

// sees says whether entries of a session belong into this one's prompt.
func (r *Recall) sees(key string) bool {
	if !r.Unified {
		return key == r.Key
	}
	return !session.Unattended(key)
}

// cutTokens shortens a text to about so many tokens.
func cutTokens(s string, most int) string {
	for chars := 4 * most; text.Tokens(s) > most && chars > 0; chars = chars * 3 / 4 {
		s = text.Cut(s, chars)
	}
	return s
}
