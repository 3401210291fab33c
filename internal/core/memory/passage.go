package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Marks among the sources of a user record's runtime context. The agent sets
// them; they say what the log itself has no word for.
const (
	// SourceForeign: the text was not written by the user, such as a mail.
	SourceForeign = "untrusted"
	// SourceMedia: files came with the message, so the answer may quote them.
	SourceMedia = "media"
	// SourceScope, followed by a scope: whose memory the turn belongs to.
	SourceScope = "scope:"
)

// view is a conversation at one moment. Later changes do not show in it.
type view struct {
	key  string
	born time.Time
	live []session.Record // what the model still sees
	from int              // index in live of the first record that was not taken in
	// dirty says that the summary of what is no longer in live holds words from
	// outside: it was before the model, which may repeat them.
	dirty bool
}

func viewOf(s *session.Session) view {
	live := s.Messages()
	first := s.Len() - len(live)
	// What an earlier version dropped without taking it in is in the log only.
	sum, ok := SummaryOf(s)
	return view{key: s.Key(), born: s.Created(), live: live, from: max(0, s.LastConsolidated()-first), dirty: ok && sum.Tainted}
}

// boundaries returns the indices behind from where a conversation can be cut: a
// user's message that begins a turn.
func (v view) boundaries() []int {
	var out []int
	last := llm.User
	for i := v.from; i < len(v.live); i++ {
		r := &v.live[i]
		if r.Command {
			continue
		}

		if i > v.from && beginsTurn(r) && last != llm.User {
			out = append(out, i)
		}
		if last = r.Role; r.Mark() {
			last = llm.User // it is shown as part of the message behind it
		}
	}

	return out
}

func beginsTurn(r *session.Record) bool {
	return r.Role == llm.User && !r.Command && !r.Internal && !r.Mark()
}

// complete reports whether the conversation ends with an answer.
func (v view) complete() bool {
	for _, r := range slices.Backward(v.live) {
		if !r.Command {
			return r.Mark() || r.Role == llm.Assistant && len(r.ToolCalls) == 0
		}
	}
	return false
}

// passage is the part of a conversation that is taken in at once.
type passage struct {
	view
	to  int    // end in live
	rng string // identifies the records, wherever they lie
}

func (v view) passage(to int) passage {
	h := v.hash()
	for i := v.from; i < to; i++ {
		identify(h, &v.live[i])
	}
	return passage{view: v, to: to, rng: sum(h)}
}

// hash begins the identity of a range of this conversation.
func (v view) hash() hash.Hash {
	h := sha256.New()
	h.Write(fmt.Appendf(nil, "%s\x00%d\x00", v.key, v.born.UnixMilli()))
	return h
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// identify adds a record to a hash: what is the same before and after a
// restart, and nothing about its place.
func identify(h hash.Hash, r *session.Record) {
	h.Write(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s\x00%s\x00", r.Role, r.Time.UnixMilli(), r.TurnID, r.ToolCallID, r.Content))
}

// begun finds a passage from the view's beginning of which entries are in the
// history already: the process died, or lost the session, before it could note
// in the session that they were taken in.
func (v view) begun(ctx context.Context, h *History) (to int, ok bool, err error) {
	recent, err := h.Recent(ctx, 16, func(e Entry) bool { return e.Session == v.key && e.Range != "" })
	if err != nil || len(recent) == 0 {
		return 0, false, err
	}

	known := map[string]bool{}
	for _, e := range recent {
		base, _, _ := strings.Cut(e.Range, "/")
		known[base] = true
	}

	sha := v.hash()
	ends := append(v.boundaries(), len(v.live))
	at := v.from
	for _, end := range ends {
		for ; at < end; at++ {
			identify(sha, &v.live[at])
		}
		if known[sum(sha)] {
			to, ok = end, true // the longest wins
		}
	}

	return to, ok, nil
}

// part becomes one entry: the words of one scope, clean or tainted.
type part struct {
	scope   string
	tainted bool
	derived bool // only because the summary before it is
	senders []string
	lines   []string
	count   int // messages
	when    time.Time
}

// id tells the parts of one passage apart.
func (p part) id() string {
	kind := "clean"
	if p.tainted {
		kind = "outside"
	}
	if p.scope == "" {
		return kind
	}
	h := sha256.Sum256([]byte(p.scope))
	return kind + "-" + hex.EncodeToString(h[:4])
}

// Bounds of the text form, in characters.
const (
	messageChars = 4000
	resultChars  = 300
)

// parts sorts the words of a passage by whose they are and where they come
// from. The user's own words are clean. Once content from outside is in a turn,
// everything the assistant says in it and in the turns after it may repeat that
// content, so it goes apart, and results of tools are left out.
func (p passage) parts() []part {
	var out []part
	find := func(scope string, tainted bool) *part {
		i := slices.IndexFunc(out, func(o part) bool { return o.scope == scope && o.tainted == tainted })
		if i < 0 {
			out = append(out, part{scope: scope, tainted: tainted, derived: tainted})
			i = len(out) - 1
		}
		return &out[i]
	}

	scope := ""
	sender := ""
	seen := false
	for i := range p.live[:p.to] {
		r := &p.live[i]
		if i == 0 || beginsTurn(r) {
			seen = seen || outside(turnAt(p.live, i))
			scope, sender = scopeOf(r), r.SenderID
		}

		if i < p.from || !worthKeeping(r) {
			continue
		}

		line := line(r)
		foreign := r.Role == llm.User && (hasSource(r, SourceForeign) || unknown(r) || strings.Contains(line, "<untrusted id="))
		tainted := foreign || ((seen || p.dirty) && r.Role != llm.User)
		if line == "" || (tainted && r.Role == llm.ToolRole) {
			continue
		}

		pt := find(scope, tainted)
		pt.lines, pt.when = append(pt.lines, line), r.Time
		pt.count++
		pt.derived = pt.derived && !foreign && !seen
		if sender != "" && !slices.Contains(pt.senders, sender) {
			pt.senders = append(pt.senders, sender)
		}
	}

	return out
}

// turnAt returns the records from i up to the next turn.
func turnAt(recs []session.Record, i int) []session.Record {
	end := i + 1
	for end < len(recs) && !beginsTurn(&recs[end]) {
		end++
	}
	return recs[i:end]
}

// outside reports whether content from outside is in a turn.
func outside(turn []session.Record) bool {
	for i := range turn {
		r := &turn[i]
		switch {
		case hasSource(r, SourceForeign), hasSource(r, SourceMedia), r.Event != "", unknown(r):
			return true
		case r.Role == llm.ToolRole && fenced(r.Content):
			return true
		}
	}
	return false
}

// fenced reports whether a tool result bears the fence of untrusted content.
func fenced(c llm.Content) bool {
	if c.Blocks == nil {
		return strings.Contains(c.Text, "<untrusted id=")
	}
	return slices.ContainsFunc(c.Blocks, func(b llm.Block) bool { return strings.Contains(b.Text, "<untrusted id=") })
}

// unknown reports whether nothing says where a message came from: it may be
// from any person.
func unknown(r *session.Record) bool {
	return r.Role == llm.User && r.Runtime == nil && !r.Internal && !r.Command && !r.Interrupted
}

func hasSource(r *session.Record, source string) bool {
	return r.Runtime != nil && slices.Contains(r.Runtime.Sources, source)
}

// scopeOf is whose memory a turn belongs to.
func scopeOf(r *session.Record) string {
	if r.Runtime != nil {
		for _, s := range r.Runtime.Sources {
			if scope, ok := strings.CutPrefix(s, SourceScope); ok {
				return scope
			}
		}
	}
	return ""
}

// worthKeeping leaves out what is not part of what was said: commands, prompts
// of ours, what recovery wrote, and errors.
func worthKeeping(r *session.Record) bool {
	switch {
	case r.Command, r.Internal, r.Interrupted, r.Mark():
		return false
	case r.Role == llm.System:
		return false
	}
	return r.Role != llm.ToolRole || !r.IsError
}

// line returns a record as a line of text, "" when it says nothing.
func line(r *session.Record) string {
	body := r.Content.String()
	if r.Runtime != nil {
		body = strings.TrimSuffix(body, r.Runtime.Suffix)
	}

	body = strings.TrimSpace(body)
	head := "[" + r.Time.Local().Format(timeLayout) + "] " + strings.ToUpper(string(r.Role))
	if len(r.ToolCalls) > 0 {
		var names []string
		for _, c := range r.ToolCalls {
			names = append(names, c.Name)
		}
		head += " [tools: " + strings.Join(slices.Compact(names), ", ") + "]"
	}

	most := messageChars
	if r.Role == llm.ToolRole {
		most = resultChars
		head += " " + r.Name
	}

	if body == "" {
		return ""
	}
	return head + ": " + text.CutMiddle(body, most)
}

// body returns the text of a part within a number of tokens: the lines are cut
// shorter and shorter, and at last the middle is left out.
func (p part) body(tokens int) string {
	whole := strings.Join(p.lines, "\n")
	for _, most := range []int{1500, 500, 200} {
		if text.Tokens(whole) <= tokens {
			return whole
		}
		cut := make([]string, len(p.lines))
		for i, l := range p.lines {
			cut[i] = text.CutMiddle(l, most)
		}
		whole = strings.Join(cut, "\n")
	}

	if text.Tokens(whole) > tokens {
		whole = text.CutMiddle(whole, max(tokens, 200)) // a token is at least a character
	}
	return whole
}

// raw returns the part as it is kept when no model would summarise it.
func (p part) raw() string {
	return fmt.Sprintf("[RAW] %d messages\n%s", p.count, strings.Join(p.lines, "\n"))
}
