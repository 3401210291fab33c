package approve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// maxRounds is how often one call is asked about again because something
// changed meanwhile.
const maxRounds = 3

// ask gets a person's decision about a call, from memory or by a question.
func (p *Policy) ask(ctx context.Context, s *subject, reason phrase.Sentence) *tool.Result {
	m, err := p.sessions.enter(ctx, s.call.SessionKey)
	if err != nil {
		return fail(tool.Cancelled, "%s was stopped before it could be approved", s.tool.Name)
	}

	defer p.sessions.leave(m)
	sum, covers := p.fingerprint(s)
	cover := p.coverage(s)
	switch {
	case p.sessions.allowed(m, s, sum, cover):
		p.log(ctx, s, "allowed", "remembered", "")
		p.allow(m, s, sum, covers, cover)
		return nil
	case p.sessions.wasRefused(m, s):
		return fail(tool.DeniedApproval, "the user already said no to exactly this call. Do not repeat it; go on without it or ask what they want instead.")
	case s.call.Ask == nil:
		return p.unanswered(ctx, s, reason, "no question can be asked here")
	case p.sessions.hushed(m, s.call.TurnID):
		return p.unanswered(ctx, s, reason, "the last question was not answered")
	}

	for round := range maxRounds {
		text, fits := question(ctx, s, reason, cover, covers, round > 0)
		if !fits {
			p.log(ctx, s, "denied", "too long to be shown", "")
			return fail(tool.DeniedApproval, "this call needs the user's approval because %s, but it is too long to be shown in full. Split it into smaller calls.", reason)
		}

		answer, done := p.askOnce(ctx, m, s, request{sum, text, reason, cover, p.detail(ctx, s, reason, cover)})
		if done != nil || answer == no {
			return done
		}

		// What was approved must be what runs.
		if now, files := p.fingerprint(s); now != sum {
			sum = now
			covers = files
			cover = p.coverage(s)
			continue
		}

		p.sessions.remember(m, s, answer, sum, cover)
		p.allow(m, s, sum, covers, cover)
		return nil
	}

	p.log(ctx, s, "denied", "changed while it was asked about", "")
	return fail(tool.DeniedApproval, "what this call depends on (a directory, a file or a script) kept changing while the user was asked. It was not run.")
}

// request is one question and the call it is about.
type request struct {
	sum, text string
	reason    phrase.Sentence
	cover     coverage
	detail    *bus.Detail
}

// askOnce asks one question. A nil result with a yes goes on.
func (p *Policy) askOnce(ctx context.Context, m *memory, s *subject, r request) (answer, *tool.Result) {
	options := []string{string(yes), string(no)}
	if r.cover.what != "" {
		options = append(options, string(forTurn), string(forSession))
	}

	q := bus.Question{ID: requestID(r.sum), Text: r.text, Options: options, Expires: p.Now().Add(p.Timeout), Detail: r.detail}
	// Ask keeps the time itself; twice as much is for one that does not.
	limited, cancel := context.WithTimeout(ctx, 2*p.Timeout)
	defer cancel()
	said, err := s.call.Ask(limited, q)
	var unasked *tool.UnaskedError
	switch {
	case ctx.Err() != nil:
		return no, fail(tool.Cancelled, "%s was stopped before it was approved", s.tool.Name)
	case errors.Is(err, tool.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		p.sessions.hush(m, s.call.TurnID)
		if refusal := p.unanswered(ctx, s, r.reason, "there was no answer within "+p.Timeout.String()); refusal != nil {
			return no, refusal
		}
		return yes, nil

	case errors.As(err, &unasked) && s.byOutside:
		p.log(ctx, s, "allowed", "contained; "+unasked.Why, q.ID)
		return yes, nil
	case errors.As(err, &unasked):
		if refusal := p.unanswered(ctx, s, r.reason, unasked.Why); refusal != nil {
			return no, refusal
		}
		return yes, nil

	case err != nil:
		p.log(ctx, s, "denied", "the question failed: "+err.Error(), q.ID)
		return no, fail(tool.DeniedApproval, "the user could not be asked. The call was not run. Do not retry it; tell the user.")
	}

	a, remark := parseAnswer(said)
	if a == no {
		p.log(ctx, s, "denied", "the user said no", q.ID)
		p.sessions.refuse(m, s)
		text := "the user said no to this call. Do not repeat it and do not look for another way to the same end."
		if remark != "" {
			text = fmt.Sprintf("the user did not say yes to this call, but wrote: %q. It was not run. Do what they wrote.", remark)
		}
		return no, fail(tool.DeniedApproval, "%s", text)
	}

	p.log(ctx, s, "approved: "+string(a), r.reason.String(), q.ID)
	return a, nil
}

// unanswered applies the fallback: nil allows.
func (p *Policy) unanswered(ctx context.Context, s *subject, reason phrase.Sentence, why string) *tool.Result {
	if p.FallbackAllow {
		p.log(ctx, s, "allowed", why+"; tools.approval.fallback is allow", "")
		return nil
	}
	p.log(ctx, s, "denied", why, "")
	return fail(tool.DeniedApproval, "this call needs the user's approval because %s, and %s. It was not run. Do not retry it and do not look for another way. "+
		"Tell the user what you wanted to do, and that they can allow it in an interactive chat or with a rule in tools.approval.rules: %s",
		reason, why, suggestRule(s))
}

// suggestRule returns a rule that would allow the call next time.
func suggestRule(s *subject) string {
	match := ""
	if cmd := strings.TrimSpace(s.command()); cmd != "" && len(cmd) <= 200 {
		match = cmd
	}

	b, err := json.Marshal(struct {
		Tool   string `json:"tool"`
		Match  string `json:"match"`
		Action Action `json:"action"`
	}{s.tool.Name, match, ActionAllow})
	if err != nil {
		return ""
	}
	return string(b)
}

// requestID names one question about one call: a random part, so that no two
// questions share it, and the beginning of what it is bound to.
func requestID(sum string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-" + sum[:16]
}
