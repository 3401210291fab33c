package turn

import (
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Events of messages that a schedule wrote. They are also the names under
// which their turns are accounted for.
const (
	EventCron      = "cron"
	eventHeartbeat = "heartbeat"
	eventTrigger   = "trigger"
)

// Scheduled reports whether a message was written by a schedule.
func Scheduled(in bus.Inbound) bool {
	return in.Event == EventCron || in.Event == eventHeartbeat || in.Event == eventTrigger
}

// source is what the turn of a message is accounted under.
func source(in bus.Inbound) string {
	if in.Scope != "" {
		return llm.GuestSource(text.SafeName(bus.Room(in.Route, in.Scope)))
	}

	switch in.Event {
	case EventCron, eventHeartbeat:
		return in.Event
	case eventTrigger:
		return EventCron
	}
	return ""
}

// guestSource is what the work of a guest is accounted under; "" for the owner.
func guestSource(in bus.Inbound) string {
	if in.Scope == "" {
		return ""
	}
	return source(in)
}

// ofJob reports whether the message is a run of a job, in the conversation of
// that job alone.
func (t *Turn) ofJob() bool {
	return Scheduled(t.msg.In) && session.Unattended(t.key)
}

// beginRun makes each run of a job begin with its message alone: earlier runs
// are kept for reading and not replayed. So a run costs the same every day, and
// begins without the words from outside that earlier ones saw.
func (t *Turn) beginRun() error {
	if !t.ofJob() || t.resumed {
		return nil
	}
	if err := t.sess.SetReplay(t.sess.Len()); err != nil {
		return fmt.Errorf("begin the run of a job: %w", err)
	}
	t.engine.conversations.forget(t.key)
	return nil
}
