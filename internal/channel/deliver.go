package channel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// How passing trouble is met.
const (
	quickMax   = 4 * time.Second  // between the first tries, after 1 and 2 s
	pauseMax   = 5 * time.Minute  // between later ones, and for what a platform may ask
	readyWait  = 30 * time.Second // for a channel that is not connected
	deliverFor = 24 * time.Hour   // then a message is given up
)

// errGivenUp says that a message was tried for a whole day.
var errGivenUp = errors.New("not delivered within a day")

// sayKey is an answer to a message, to find one that is sent twice.
type sayKey struct {
	chat    chatKey
	message string
	sum     [8]byte
}

// deliver sends a message that must arrive. It returns with the message still
// in the queue only when ctx ended.
func (s *slot) deliver(ctx context.Context, c *chat, d bus.Delivery) {
	final := d.Kind == bus.Final
	if final || d.Kind == bus.Ask {
		s.rest(c.key)
	}
	repeated, key := s.repeated(c.key, d.Outbound)
	parts, from := s.parts(d.Outbound), d.Parts
	if repeated || d.Kind == bus.Ask && s.expired(d.Outbound) {
		parts = nil
	}
	if final && s.streamer != nil {
		var ok bool
		if from, ok = s.settleStream(ctx, c, d, parts); !ok {
			return
		}
	}
	sent := len(parts) > 0
	for i := from; i < len(parts); i++ {
		if i > d.Parts {
			s.noteParts(ctx, d.ID, i)
		}
		err := s.part(ctx, c, parts[i])
		if ctx.Err() != nil && err != nil {
			return
		}
		if err != nil && !s.substitute(ctx, d.Outbound, parts[i], err) {
			sent = false
			break
		}
	}
	s.delivered(ctx, d.ID)
	if sent {
		s.count(&s.state.Sent)
		s.remember(key, d.ID)
	}
	if final {
		s.done(ctx, c.key, d.Route)
	}
}

// noteParts tells the queue how many parts are sent, so that they are not sent
// again after a restart.
func (s *slot) noteParts(ctx context.Context, id string, n int) {
	if err := s.m.o.Queue.Sent(context.WithoutCancel(ctx), id, n); err != nil && !errors.Is(err, bus.ErrClosed) {
		s.log.WarnContext(ctx, "a sent part cannot be noted", "id", id, "err", err)
	}
}

// expired reports whether nobody waits for the answer to a question any more.
func (s *slot) expired(out bus.Outbound) bool {
	return out.Question != nil && !out.Question.Expires.IsZero() && !out.Question.Expires.After(s.m.o.Now())
}

// repeated reports whether the same was said in answer to the same message.
func (s *slot) repeated(c chatKey, out bus.Outbound) (bool, sayKey) {
	key := sayKey{chat: c, message: out.Route.MessageID}
	if s.caps.Whole || out.Kind == bus.Ask || key.message == "" || len(out.Media) > 0 || out.Text == "" {
		return false, sayKey{}
	}
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(out.Text), " ")))
	copy(key.sum[:], sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.said.get(key)
	return ok && id != out.ID, key
}

func (s *slot) remember(key sayKey, id string) {
	if key == (sayKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said.put(key, id)
}

// parts plans a message: texts that keep to the limit, then files. The same
// message gives the same parts, so that a number finds the place after a
// restart.
func (s *slot) parts(out bus.Outbound) []bus.Outbound {
	if s.caps.Whole {
		return []bus.Outbound{out}
	}
	text := out.Text
	if q := out.Question; q != nil && (out.Kind == bus.Ask || q.Text == "") {
		if text == "" {
			text = q.Text
		}
		switch {
		case len(q.Options) == 0 || s.caps.Buttons:
		case out.Kind == bus.Ask && q.Code != "":
			text += "\n\n" + answerLine(q)
		default:
			text += "\n\nAnswer with one of: " + strings.Join(q.Options, ", ")
		}
	}
	files, text := s.files(out.Media, text)
	var parts []bus.Outbound
	for _, t := range Split(text, s.caps.MaxChars, s.caps.Unit) {
		p := out
		p.Text, p.Media, p.Question = t, nil, nil
		parts = append(parts, p)
	}
	if n := len(parts); n > 0 {
		parts[n-1].Question = out.Question
	}
	if s.caps.Together && len(files) > 0 {
		if len(parts) == 0 {
			p := out
			p.Text = ""
			parts = append(parts, p)
		}
		parts[len(parts)-1].Media = files
		files = nil
	}
	for _, m := range files {
		p := out
		p.Text, p.Media, p.Question = "", []bus.Media{m}, nil
		parts = append(parts, p)
	}
	for i := range parts[min(1, len(parts)):] {
		parts[i+1].ReplyTo = ""
	}
	return parts
}

// files leaves out what cannot be sent and says so in the text.
func (s *slot) files(list []bus.Media, text string) ([]bus.Media, string) {
	var out []bus.Media
	for _, m := range list {
		if m.Size == 0 {
			if info, err := os.Stat(m.Path); err == nil {
				m.Size = info.Size()
			}
		}
		switch {
		case s.caps.MaxMedia == 0:
			text += "\n" + attachment(m, "files cannot be sent here")
		case m.Size > s.caps.MaxMedia:
			text += "\n" + attachment(m, "too large")
		default:
			out = append(out, m)
		}
	}
	return out, text
}

// attachment is the line that stands for a file that is not there.
func attachment(m bus.Media, why string) string {
	name := m.Name
	if name == "" {
		name = filepath.Base(m.Path)
	}
	return fmt.Sprintf("[attachment: %s - %s]", name, why)
}

// substitute deals with a part the platform will never take. True means that
// the rest of the message may follow.
func (s *slot) substitute(ctx context.Context, whole, part bus.Outbound, err error) bool {
	s.lost(whole, err)
	notice := bus.Outbound{Kind: bus.Notice, Route: part.Route, Plain: true, Meta: part.Meta}
	switch {
	case len(part.Media) > 0 && part.Text == "":
		notice.Text = attachment(part.Media[0], "send failed")
	case errors.Is(err, errGivenUp) || whole.Kind != bus.Final:
		return false
	default:
		notice.Text = "My answer could not be shown here. Ask me to write it differently."
	}
	if _, err := s.try(ctx, notice); err != nil {
		s.log.DebugContext(ctx, "the notice about a lost message is lost too", "err", err)
		return false
	}
	return len(part.Media) > 0 && part.Text == ""
}

// part sends one part, however often it takes.
func (s *slot) part(ctx context.Context, c *chat, out bus.Outbound) error {
	return s.insist(ctx, c, out.Route, func() error {
		_, err := s.try(ctx, out)
		return err
	})
}

// insist does something until it works, is pointless, or ctx ends.
func (s *slot) insist(ctx context.Context, c *chat, to bus.Route, do func() error) error {
	start, failures := time.Now(), 0
	for {
		if !s.pace(ctx, c, to) {
			return ctx.Err()
		}
		err := do()
		switch {
		case err == nil || IsPermanent(err):
			return err
		case ctx.Err() != nil:
			return err
		case time.Since(start) > deliverFor:
			return fmt.Errorf("%w: %w", errGivenUp, err)
		}
		if s.patience(c, err); failures == 0 {
			s.log.WarnContext(ctx, "a message is tried again", "chat", to.ChatID, "err", s.m.o.Redact(err.Error()))
		}
		if !s.pause(ctx, err, &failures) {
			return ctx.Err()
		}
	}
}

// pause waits as long as an error asks for before the next try; false means that ctx ended.
func (s *slot) pause(ctx context.Context, err error, failures *int) bool {
	s.mu.Lock()
	connected := s.connected
	s.state.Retries++
	s.mu.Unlock()
	var d time.Duration
	if limited, ok := errors.AsType[*RateLimitedError](err); ok {
		return httpsafe.Pause(ctx, min(max(limited.After, 0), pauseMax)) == nil
	}
	if errors.Is(err, ErrNotReady) {
		d = readyWait
	} else {
		*failures++
		if d = min(time.Second<<min(*failures-1, 20), quickMax); *failures >= s.m.o.MaxRetries {
			d = min(time.Second<<min(*failures-1, 20), pauseMax)
			if *failures == s.m.o.MaxRetries {
				s.log.WarnContext(ctx, "a message cannot be delivered for now; it is kept and tried more slowly", "err", s.m.o.Redact(err.Error()))
			}
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-connected: // the platform is there again
	case <-ctx.Done():
		return false
	}
	return true
}

// patience notes that a platform wants fewer messages.
func (s *slot) patience(c *chat, err error) {
	if _, ok := errors.AsType[*RateLimitedError](err); ok {
		c.slow = min(2*max(c.slow, s.caps.EditEvery), time.Minute)
	}
}

// pace waits for the right to send something; false means that ctx ended.
func (s *slot) pace(ctx context.Context, c *chat, to bus.Route) bool {
	now := time.Now()
	d := max(s.total.take(now), c.rate.take(now))
	if s.group(to) {
		d = max(d, c.group.take(now))
	}
	return httpsafe.Pause(ctx, d) == nil
}

// group reports whether several people read a chat.
func (s *slot) group(to bus.Route) bool {
	if crowd, ok := s.ch.(Crowd); ok {
		return crowd.Group(to)
	}
	return s.gate.group(to.ChatID)
}

// try sends once. What is being sent when ctx ends gets time to finish.
func (s *slot) try(ctx context.Context, out bus.Outbound) (id string, err error) {
	defer s.caught(&err)
	if s.caps.Whole {
		return s.ch.Send(ctx, out)
	}
	limit := sendWait
	if len(out.Media) > 0 {
		limit = mediaWait
	}
	ctx, done := bounded(ctx, limit)
	defer done()
	return s.ch.Send(ctx, out)
}

// edit changes a message once.
func (s *slot) edit(ctx context.Context, to bus.Route, id, text string, final bool) (err error) {
	defer s.caught(&err)
	ctx, done := bounded(ctx, sendWait)
	defer done()
	return s.streamer.Edit(ctx, to, id, text, final)
}

// erase takes a message back once.
func (s *slot) erase(ctx context.Context, to bus.Route, id string) (err error) {
	defer s.caught(&err)
	ctx, done := bounded(ctx, sendWait)
	defer done()
	return s.eraser.Erase(ctx, to, id)
}

// bounded is a context for one call: it outlives ctx a little, and ends in time.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := linger(ctx)
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, func() { cancel(); stop() }
}

// caught makes an error of a panic in a channel. The same message would bring
// it again.
func (s *slot) caught(err *error) {
	if r := recover(); r != nil {
		s.log.Error("a channel panicked", "panic", r, "stack", string(debug.Stack()))
		*err = Permanent(fmt.Errorf("panic: %v", r))
	}
}
