package deliver

import (
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// repliesKept is of how many chats the last message is remembered. For others
// the platform itself says when it takes no more.
const repliesKept = 4096

// replies counts what was sent in answer to the last message of each chat, on
// platforms that allow only so much.
type replies struct {
	limit chat.Limit
	keys  bool // a part that is sent again by its key is not another reply

	mu    sync.Mutex
	chats *recent.Map[string, *allowance]
}

// allowance is what is left of the replies to a message.
type allowance struct {
	message string
	at      time.Time
	left    int
	paid    map[string]bool // keys of parts that used one
}

func newReplies(c chat.Caps) *replies {
	return &replies{limit: c.Replies, keys: c.Keys, chats: recent.New[string, *allowance](repliesKept)}
}

// open begins the replies to a message.
func (r *replies) open(to bus.Route, now time.Time) {
	if r.limit.Count <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chats.Put(to.ChatID, &allowance{message: to.MessageID, at: now, left: r.limit.Count, paid: map[string]bool{}})
}

// spend uses a reply of the chat's last message for a part, unless only so many
// are left as must be kept, or the message is too old.
func (r *replies) spend(out *bus.Outbound, now time.Time, keep int) bool {
	if r.limit.Count <= 0 {
		return true
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	a, ok := r.chats.Get(out.Route.ChatID)
	if !ok {
		return true
	}

	again := r.keys && a.paid[out.Key]
	if a.left <= keep && !again || r.limit.Per > 0 && now.Sub(a.at) >= r.limit.Per {
		return false
	}

	if !again {
		a.left--
	}
	if out.Key != "" {
		a.paid[out.Key] = true
	}
	if a.message != "" {
		out.ReplyTo = a.message
	}
	return true
}
