package mochat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const retryMost = 30 * time.Second

func wantsAll(list []string) bool { return slices.Contains(list, any1) }

// add makes a chat one that we take part in, and finds it if it is one already.
// Nil: there are too many.
func (l *line) add(id string, panel bool) *target {
	l.mu.Lock()
	defer l.mu.Unlock()

	if t := l.targets[id]; t != nil {
		return t
	}

	n := 0
	for _, t := range l.order {
		if t.panel == panel {
			n++
		}
	}

	if n >= chatsMost {
		return nil
	}

	t := &target{id: id, panel: panel, seen: recent.New[string, bool](memory)}
	if panel {
		t.cold = l.panels.Get(id) == ""
	} else {
		_, known := l.marks.get(id)
		t.cold = !known
	}

	l.targets[id] = t
	l.order = append(l.order, t)
	l.bot.recordKind(id, panel, "")
	l.news()
	return t
}

// seed adds what the section lists.
func (l *line) seed() {
	for _, id := range l.bot.o.Sessions {
		if id != any1 {
			l.add(id, false)
		}
	}
	for _, id := range l.bot.o.Panels {
		if id != any1 {
			l.add(id, true)
		}
	}
}

// refresh finds sessions and panels, now and then, and subscribes to new ones.
func (l *line) refresh(ctx context.Context) error {
	b := l.bot
	quiet := false // the last failure was logged
	for first := true; ; first = false {
		err := l.list(ctx, first)
		if first {
			close(l.listed)
		}

		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is not an error
		case chat.IsFatal(err):
			return err
		case err != nil && !quiet:
			b.deps.Log.WarnContext(ctx, "sessions and panels cannot be looked for", "channel", b.deps.Name, "err", err)
		}

		if s := statusOf(err); err != nil && (s == 0 || s >= http.StatusInternalServerError) {
			l.fails(err)
		}

		quiet = err != nil
		if err := l.idle(ctx); err != nil {
			return err
		}
	}
}

// idle waits until it is time to look again, and deals with messages of sessions
// that are not known meanwhile.
func (l *line) idle(ctx context.Context) error {
	t := time.NewTimer(l.bot.o.refresh())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			return nil
		case item := <-l.inbox:
			if l.session(item.converse) == "" && l.bot.api.pace.wait(ctx) == nil {
				if err := l.listSessions(ctx); chat.IsFatal(err) {
					return err
				}
			}

			if err := l.inboxed(ctx, item); err != nil && ctx.Err() == nil {
				l.bot.deps.Log.WarnContext(ctx, "a message is lost", "converse", item.converse, "err", err)
			}
			l.subscribeNew(ctx)
		}
	}
}

// list asks the server for the sessions and panels.
func (l *line) list(ctx context.Context, first bool) error {
	var errs error
	asked := false
	if first || wantsAll(l.bot.o.Sessions) {
		errs, asked = l.listSessions(ctx), true
	}
	if wantsAll(l.bot.o.Panels) && !chat.IsFatal(errs) {
		errs, asked = errors.Join(errs, l.listPanels(ctx)), true
	}
	if asked && errs == nil { // where nothing was asked, nothing is known
		l.works()
	}

	l.subscribeNew(ctx)
	return errs
}

// subscribeNew subscribes to what was found since, and tries again what failed.
func (l *line) subscribeNew(ctx context.Context) {
	l.mu.Lock()
	c, live := l.conn, l.live
	l.mu.Unlock()
	if c == nil {
		return
	}

	sessions, panels := l.unsubscribed(c)
	if live && len(sessions)+len(panels) == 0 {
		return
	}

	err := l.subscribe(ctx, c)
	if err != nil && !errors.Is(err, socket.ErrLost) && ctx.Err() == nil {
		l.bot.deps.Log.DebugContext(ctx, "subscribe to new sessions and panels", "err", err)
	}
}

// listSessions finds sessions. Those that are listed in the section are known
// already; of them it learns who takes part.
func (l *line) listSessions(ctx context.Context) error {
	raw, err := l.bot.api.post(ctx, callTime, listSessions, map[string]any{})
	if s := statusOf(err); s == http.StatusUnauthorized || s == http.StatusForbidden {
		return l.bot.badToken(err)
	}
	if err != nil {
		return err
	}

	var got struct {
		Sessions []json.RawMessage `json:"sessions"`
	}
	object(raw, &got)
	for _, one := range got.Sessions {
		var s struct {
			ID           str               `json:"sessionId"`
			Converse     str               `json:"converseId"`
			Participants []json.RawMessage `json:"participants"`
		}
		if object(one, &s); s.ID == "" {
			continue
		}

		id := string(s.ID)
		l.bot.recordKind(id, false, "")
		l.mu.Lock()
		if s.Converse != "" && len(l.converse) < 10*chatsMost {
			l.converse[string(s.Converse)] = id
		}

		t := l.targets[id]
		l.mu.Unlock()
		if t == nil && wantsAll(l.bot.o.Sessions) {
			if t = l.add(id, false); t == nil {
				l.bot.once(ctx, "there are too many sessions", "most", chatsMost)
			}
		}

		if t != nil {
			l.mu.Lock()
			t.many = len(s.Participants) > 2
			l.mu.Unlock()
		}
	}

	return nil
}

// listPanels finds the panels with texts.
func (l *line) listPanels(ctx context.Context) error {
	raw, err := l.bot.api.post(ctx, callTime, listPanels, map[string]any{})
	if err != nil {
		return l.bot.judge(err)
	}

	var got struct {
		GroupID str               `json:"groupId"`
		Panels  []json.RawMessage `json:"panels"`
	}
	object(raw, &got)
	for _, one := range got.Panels {
		var p struct {
			ID    str    `json:"id"`
			Other str    `json:"_id"`
			Type  *whole `json:"type"`
		}
		if object(one, &p); p.ID == "" {
			p.ID = p.Other
		}

		if p.ID == "" || p.Type != nil && *p.Type > 0 {
			continue
		}
		if l.add(string(p.ID), true) == nil {
			l.bot.once(ctx, "there are too many panels", "most", chatsMost)
			return nil
		}
		l.bot.recordKind(string(p.ID), true, string(got.GroupID))
	}

	return nil
}

// judge makes a refused token fatal.
func (b *bot) judge(err error) error {
	if statusOf(err) == http.StatusUnauthorized {
		return b.badToken(err)
	}
	return err
}

// session returns the one of a conversation, "" if it is not known.
func (l *line) session(converse string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.converse[converse]
}

// poll asks for messages while the socket does not deliver them.
func (l *line) poll(ctx context.Context) error {
	for l.wait(ctx) && ctx.Err() == nil {
		if err := l.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round lasts until the socket begins or ceases to deliver. While it does, each
// panel is read one time: of panels the server does not tell what was missed.
func (l *line) round(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	fatal := make(chan error, 1)
	l.mu.Lock()
	once := l.live
	l.mu.Unlock()

	for started := map[*target]bool{}; ; {
		l.mu.Lock()
		live := l.live
		changed := l.changed
		list := slices.Clone(l.order)
		l.mu.Unlock()
		if live != once {
			return nil
		}

		for _, t := range list {
			if started[t] || once && !t.panel {
				continue
			}

			started[t] = true
			workers.Go(func() {
				err := contained(ctx, func(ctx context.Context) error { return l.serve(ctx, t, once) })
				if err != nil {
					select {
					case fatal <- err:
					default:
					}
				}
			})
		}

		select {
		case <-ctx.Done():
			return nil
		case err := <-fatal:
			return err
		case <-changed:
		}
	}
}

// serve reads a target until ctx ends, or once. Its error is fatal.
func (l *line) serve(ctx context.Context, t *target, once bool) error {
	b := l.bot
	pauses := wait.Backoff{Least: ms(b.o.RetryDelayMS, 100*time.Millisecond, retryMost), Most: retryMost}
	for b.api.pace.wait(ctx) == nil {
		began := time.Now()
		n, err := l.readOnce(ctx, t)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx is not an error
		case chat.IsFatal(err):
			return err
		case err != nil:
			if pauses.Fresh() {
				b.deps.Log.WarnContext(ctx, "messages cannot be read", "channel", b.deps.Name, "chat", t.id, "err", err)
			}
			if statusOf(err) == 0 || statusOf(err) >= http.StatusInternalServerError {
				l.fails(err)
			}
			_ = pauses.Wait(ctx) // the loop ends with ctx
			continue
		}

		l.works()
		pauses.Reset()
		switch {
		case once:
			return nil
		case t.panel:
			_ = wait.For(ctx, b.o.refresh()) // the loop ends with ctx
		case n == 0 && time.Since(began) < time.Second: // it does not wait for messages
			_ = wait.For(ctx, time.Second) // the loop ends with ctx
		}
	}

	return nil
}

// readOnce asks for the messages of a target and says how many events came.
func (l *line) readOnce(ctx context.Context, t *target) (int, error) {
	o := l.bot.o
	if t.panel {
		return l.readPanel(ctx, t)
	}

	cursor, _ := l.marks.get(t.id)
	raw, err := l.bot.api.post(ctx, o.watch()+watchSlack, watchSession, map[string]any{
		"sessionId": t.id, "cursor": cursor, "timeoutMs": o.watch().Milliseconds(), "limit": o.limit(),
	})
	if err != nil {
		return 0, l.bot.judge(err)
	}

	var w watched
	if err := json.Unmarshal(raw, &w); err != nil {
		return 0, fmt.Errorf("the answer to %s is not as expected: %w", watchSession, err)
	}

	_, err = l.receiveEvents(ctx, t, &w, missed)
	return len(w.Events), err
}

// readPanel reads the last messages of a panel, oldest first.
func (l *line) readPanel(ctx context.Context, t *target) (int, error) {
	raw, err := l.bot.api.post(ctx, callTime, panelMessages, map[string]any{"panelId": t.id, "limit": min(l.bot.o.limit(), panelMost)})
	if err != nil {
		return 0, l.bot.judge(err)
	}

	var got struct {
		GroupID  str               `json:"groupId"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return 0, fmt.Errorf("the answer to %s is not as expected: %w", panelMessages, err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	slices.Reverse(got.Messages)
	for _, one := range got.Messages {
		var m message
		if object(one, &m); m.GroupID == "" {
			m.GroupID = got.GroupID
		}
		if err := l.panelSaid(ctx, t, &m, m.CreatedAt.at, missed); err != nil {
			return 0, err
		}
	}

	if t.cold && l.panels.Get(t.id) == "" { // what is written from now on counts, even while we are away
		if err := l.panels.Set(t.id, place(l.start(), "")); err != nil {
			return 0, err
		}
	}

	t.cold, t.caught = false, true
	return len(got.Messages), nil
}

// start returns when this Run began, by the server's clock.
func (l *line) start() time.Time { return l.bot.api.clock.There(l.began) }

// place returns how far a panel was read: a time and the message of then.
func place(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMilli(), 10) + " " + id
}

func placed(s string) (at time.Time, id string) {
	digits, id, _ := strings.Cut(s, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return time.Time{}, ""
	}
	return time.UnixMilli(n), id
}
