package matrix

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	pollFor     = 30 * time.Second
	pollSilence = pollFor + 30*time.Second // then the connection is dead
	troubleWait = 2 * time.Second
	troubleMost = time.Minute
	saveEvery   = 5 * time.Minute // where nothing happens
	gapMost     = 500             // events that are read of a gap
	gapPage     = 100
	backlogMost = 2000        // events that are being handled; more are left to the homeserver
	inviteSlack = time.Minute // between the clocks of the server and ours
)

// filter keeps away what we do not look at.
const filter = `{"presence":{"types":[]},"account_data":{"types":[]},"room":{"ephemeral":{"types":[]},"account_data":{"types":[]},"timeline":{"limit":50}}}`

// news is an answer of sync.
type news struct {
	cryptNews
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[string]roomNews `json:"join"`
		Invite map[string]struct {
			State events `json:"invite_state"`
		} `json:"invite"`
		Leave map[string]json.RawMessage `json:"leave"`
	} `json:"rooms"`
}

// cryptNews is the part of it that is about keys.
type cryptNews struct {
	ToDevice json.RawMessage `json:"to_device,omitempty"`
	Devices  json.RawMessage `json:"device_lists,omitempty"`
	Keys     json.RawMessage `json:"device_one_time_keys_count,omitempty"`
	Fallback json.RawMessage `json:"device_unused_fallback_key_types,omitempty"`
}

type roomNews struct {
	State    events `json:"state"`
	Timeline struct {
		events
		Limited bool   `json:"limited"`
		Before  string `json:"prev_batch"`
	} `json:"timeline"`
}

type events struct {
	Events []json.RawMessage `json:"events"`
}

// facts are what survives a restart.
type facts struct {
	Next string `json:"next_batch"`
}

// syncer reads what happens during one Run. How far it has read is saved once
// all messages up to there are durable.
type syncer struct {
	bot    *bot
	in     *kit.Intake[event]
	since  string
	joined map[string]time.Time // rooms whose invitation was accepted, and when

	mu      sync.Mutex
	batches []*batch
	done    string // position up to which all is handled
	saved   string
	savedAt time.Time
	left    int           // events that are being handled
	fewer   chan struct{} // capacity 1: one was handled
}

// batch is one answer of sync whose events are being handled.
type batch struct {
	next string
	left int
}

func newSyncer(b *bot, in *kit.Intake[event]) (*syncer, error) {
	var f facts
	if err := b.deps.State.Load(&f); err != nil {
		return nil, err
	}
	return &syncer{
		bot:     b,
		in:      in,
		since:   f.Next,
		done:    f.Next,
		saved:   f.Next,
		savedAt: b.deps.Now(),
		fewer:   make(chan struct{}, 1),
		joined:  map[string]time.Time{},
	}, nil
}

// run reads until ctx ends. Passing trouble is waited out here.
func (s *syncer) run(ctx context.Context) error {
	defer s.save(true)
	up, trouble := false, wait.Backoff{Least: s.bot.trouble, Most: troubleMost, Spread: 0.2}
	for s.room(ctx) {
		got, err := s.poll(ctx, up)
		if ctx.Err() != nil {
			return nil
		}

		e := refusal(err)
		switch {
		case err == nil:
			if !up {
				s.bot.deps.Ready(s.bot.identity(), nil)
			}
			up = true
			trouble.Reset()
			s.receive(ctx, got)
			continue

		case loggedOut(err) && !s.bot.o.Password.IsZero():
			return fmt.Errorf("the homeserver ended the login: %w", err) // the next Run logs in again
		case loggedOut(err):
			return s.bot.refusedLogin(err)
		case e != nil && e.RetryAfter > 0:
			_ = wait.For(ctx, time.Duration(e.RetryAfter)*time.Millisecond)
			continue
		}

		up = false
		s.bot.deps.Ready(s.bot.identity(), err)
		s.bot.polls.rest.Client.CloseIdleConnections() // a dead connection must not be used again
		_ = trouble.Wait(ctx)
	}

	return nil
}

// room waits while too much is being handled. False means that ctx ended.
func (s *syncer) room(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		left := s.left
		s.mu.Unlock()
		if left < backlogMost {
			return true
		}

		select {
		case <-ctx.Done():
		case <-s.fewer:
		}
	}
	return false
}

// poll asks for news. The first time it does not wait for any, so that the
// state of the connection is known soon.
func (s *syncer) poll(ctx context.Context, up bool) (news, error) {
	q := url.Values{"filter": {filter}, "timeout": {"0"}}
	if up {
		q.Set("timeout", strconv.FormatInt(s.bot.pollFor.Milliseconds(), 10))
	}
	if s.since != "" {
		q.Set("since", s.since)
	}

	var got news
	err := s.bot.polls.callWithin(ctx, s.bot.silence, http.MethodGet, clientV3+"/sync?"+q.Encode(), nil, &got)
	if err == nil && got.Next == "" {
		err = fmt.Errorf("sync: the answer has no next_batch")
	}
	return got, err
}

// receive handles an answer: keys first, since messages need them, then
// invitations, then what was said.
func (s *syncer) receive(ctx context.Context, got news) {
	first := s.since == ""
	c, _ := s.bot.keys() // without them encrypted messages are told of when they come
	if c != nil {
		c.sync(ctx, got.cryptNews, s.since)
	}

	for _, e := range s.bot.decodeAll(ctx, "", got.toDevice()) {
		s.bot.decline(ctx, e, s.bot.asker(e))
	}

	for id := range got.Rooms.Leave {
		s.bot.rooms.forget(id)
	}

	for id, r := range got.Rooms.Invite {
		if s.bot.invited(ctx, id, s.bot.decodeAll(ctx, id, r.State.Events)) {
			s.joined[id] = s.bot.deps.Now()
		}
	}

	var said []event
	for id, r := range got.Rooms.Join {
		timeline := s.bot.decodeAll(ctx, id, r.Timeline.Events)
		if s.bot.rooms.update(id, slices.Concat(s.bot.decodeAll(ctx, id, r.State.Events), timeline)) && c != nil {
			c.forget(ctx, id)
		}

		invited, fresh := s.joined[id]
		if r.Timeline.Limited && !first && !fresh {
			timeline = append(s.gap(ctx, id, r.Timeline.Before), timeline...)
		}

		delete(s.joined, id)
		for _, e := range timeline {
			// What was said before the first start, or before we were in the
			// room, was not said to us.
			old := first || fresh && e.time().Before(invited.Add(-inviteSlack))
			if e.StateKey == nil && e.Sender != s.bot.o.UserID && !old {
				said = append(said, e)
			}
		}
	}

	s.since = got.Next
	s.add(got.Next, said)
}

// gap reads what an answer left out, as far as it is worth it.
func (s *syncer) gap(ctx context.Context, id, from string) []event {
	var out []event
	for from != "" && len(out) < gapMost {
		q := url.Values{"dir": {"b"}, "from": {from}, "to": {s.since}, "limit": {strconv.Itoa(gapPage)}}
		var page struct {
			Chunk []json.RawMessage `json:"chunk"`
			End   string            `json:"end"`
		}
		if err := s.bot.client.call(ctx, http.MethodGet, roomPath(id, "messages")+"?"+q.Encode(), nil, &page); err != nil {
			s.bot.deps.Log.WarnContext(ctx, "messages of a time without connection cannot be read", "room", id, "err", err)
			break
		}

		out = append(out, s.bot.decodeAll(ctx, id, page.Chunk)...)
		if from = page.End; len(page.Chunk) == 0 {
			break
		}
	}

	slices.Reverse(out)
	return out
}

// add hands events over, and moves on when all are handled.
func (s *syncer) add(next string, list []event) {
	b := &batch{next: next, left: len(list)}
	s.mu.Lock()
	s.batches = append(s.batches, b)
	s.left += b.left
	s.mu.Unlock()
	for _, e := range list {
		s.in.Add(e.Room, e, func() { s.handled(b, 1) })
	}
	s.handled(b, 0)
}

func (s *syncer) handled(b *batch, n int) {
	s.mu.Lock()
	b.left -= n
	s.left -= n

	for len(s.batches) > 0 && s.batches[0].left == 0 {
		s.done = s.batches[0].next
		s.batches = s.batches[1:]
	}

	s.mu.Unlock()
	select {
	case s.fewer <- struct{}{}:
	default:
	}
	s.save(n > 0)
}

// save notes how far all is handled: at once if something was, else now and
// then.
func (s *syncer) save(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.done == s.saved || !now && s.saved != "" && s.bot.deps.Now().Sub(s.savedAt) < saveEvery {
		return
	}
	if err := s.bot.deps.State.Save(facts{Next: s.done}); err != nil {
		s.bot.deps.Log.Warn("how far was read cannot be saved; messages may be read again after a restart, and are known then", "err", err)
		return
	}
	s.saved, s.savedAt = s.done, s.bot.deps.Now()
}

// decodeAll reads the events of a room. One that is malformed is passed over.
func (b *bot) decodeAll(ctx context.Context, id string, list []json.RawMessage) []event {
	out := make([]event, 0, len(list))
	for _, raw := range list {
		var e event
		if err := json.Unmarshal(raw, &e); err != nil || e.Type == "" {
			if b.once("malformed:" + id) {
				b.deps.Log.WarnContext(ctx, "an event is malformed and passed over; others of this room are not told again", "room", id, "err", err)
			}
			continue
		}

		e.Room = id
		out = append(out, e)
	}

	return out
}

// time returns when an event was sent, as its server says.
func (e event) time() time.Time {
	if e.At <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(e.At)
}

// invited decides about an invitation, and reports whether we are in the room
// now. Rooms of strangers are joined only to give them a pairing code, where
// they are alone with us, and not many.
func (b *bot) invited(ctx context.Context, id string, state []event) bool {
	by, direct := "", false
	for _, e := range state {
		if e.Type == "m.room.member" && e.StateKey != nil && *e.StateKey == b.o.UserID && membership(e) == "invite" {
			var c struct {
				Direct bool `json:"is_direct"`
			}
			_ = json.Unmarshal(e.Content, &c)
			by, direct = e.Sender, c.Direct
		}
	}

	if by == "" {
		return false
	}

	v := access.Visitor{Route: bus.Route{Channel: b.deps.Name, ChatID: id}, IDs: []string{by}, Name: localpart(by), Direct: true}
	known := b.deps.Gate.Knows(ctx, v)
	if !known && (!direct || !b.strangers.reserve(b.deps.Now())) {
		if b.once("invite:" + by) {
			b.deps.Log.InfoContext(ctx, "an invitation of a person who is not allowed stays open", "room", id, "sender", by)
		}
		return false
	}

	if err := b.client.call(ctx, http.MethodPost, path(clientV3+"/join", id), struct{}{}, nil); err != nil {
		b.deps.Log.WarnContext(ctx, "an invitation cannot be accepted", "room", id, "sender", by, "err", err)
		return false
	}

	b.rooms.forget(id)
	if known {
		return true
	}

	if r, err := b.rooms.get(ctx, id); err == nil && r.direct() {
		if pass, _ := b.deps.Gate.Admit(ctx, v); pass.Verdict() == access.Invited {
			return true
		}
	}

	if err := b.client.call(ctx, http.MethodPost, roomPath(id, "leave"), struct{}{}, nil); err != nil {
		b.deps.Log.DebugContext(ctx, "leave the room of a stranger", "room", id, "err", err)
	}
	return false
}

// budget is a number of things in a time.
type budget struct {
	most int
	per  time.Duration

	mu    sync.Mutex
	began time.Time
	used  int
}

func (b *budget) reserve(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.began) >= b.per {
		b.began, b.used = now, 0
	}
	b.used++
	return b.used <= b.most
}
