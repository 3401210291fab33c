package email

import (
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Bounds of what is remembered.
const (
	maxThreads = 1000
	maxChores  = 1000
	maxRefs    = 50 // ids of a thread; the first and the last ones are kept
)

// thread is the last mail of a sender, which an answer refers to.
type thread struct {
	MessageID  string    `json:"message_id,omitempty"`
	References []string  `json:"references,omitempty"`
	Subject    string    `json:"subject,omitempty"`
	ReplyTo    string    `json:"reply_to,omitempty"`
	At         time.Time `json:"at"`
}

// refs returns the ids that an answer to the last mail carries.
func (t thread) refs() []string {
	if t.MessageID == "" {
		return nil
	}
	refs := append(slices.Clone(t.References), t.MessageID)
	if over := len(refs) - maxRefs; over > 0 {
		refs = slices.Delete(refs, 1, 1+over)
	}
	return refs
}

// facts is what survives a restart: how far the mailbox is read, what is left
// to be done to mails on the server, and the threads.
type facts struct {
	state *chat.State

	mu    sync.Mutex
	saved struct {
		Validity uint32            `json:"uid_validity"`
		Last     uint32            `json:"last_uid"`
		Done     []uint32          `json:"done,omitempty"`   // to be flagged, moved or deleted
		Passed   []uint32          `json:"passed,omitempty"` // the same, but they were not for us
		Threads  map[string]thread `json:"threads,omitempty"`
	}
	opened bool
}

func (f *facts) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.opened {
		return nil
	}
	if err := f.state.Load(&f.saved); err != nil {
		return err
	}

	if f.saved.Threads == nil {
		f.saved.Threads = map[string]thread{}
	}

	f.opened = true
	return nil
}

// begin returns the last mail that was read of a mailbox. Another validity
// means that its numbers mean other mails now.
func (f *facts) begin(validity uint32) (last uint32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.saved.Validity != validity {
		f.saved.Validity = validity
		f.saved.Last = 0
		f.saved.Done = nil
		f.saved.Passed = nil
		if err := f.state.Save(f.saved); err != nil {
			return 0, err
		}
	}

	return f.saved.Last, nil
}

// read notes that a mail is dealt with.
func (f *facts) read(uid uint32, v verdict) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.saved.Last = max(f.saved.Last, uid)
	switch v {
	case handled:
		f.saved.Done = latest(append(f.saved.Done, uid))
	case passed:
		f.saved.Passed = latest(append(f.saved.Passed, uid))
	case left:
	}

	return f.state.Save(f.saved)
}

// latest bounds a list that a server refuses to have worked off.
func latest(list []uint32) []uint32 { return list[max(0, len(list)-maxChores):] }

// chores returns the mails with something left to be done.
func (f *facts) chores() (done, passed []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.saved.Done), slices.Clone(f.saved.Passed)
}

// tidied notes that nothing is left to be done to these.
func (f *facts) tidied(uids []uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := func(u uint32) bool { return slices.Contains(uids, u) }
	f.saved.Done = slices.DeleteFunc(f.saved.Done, in)
	f.saved.Passed = slices.DeleteFunc(f.saved.Passed, in)
	return f.state.Save(f.saved)
}

// remember keeps the thread of a person; it is saved with the next mail that
// is read, which is the one it belongs to.
func (f *facts) remember(who string, t thread) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.saved.Threads) >= maxThreads {
		oldest := ""
		for k, v := range f.saved.Threads {
			if oldest == "" || v.At.Before(f.saved.Threads[oldest].At) {
				oldest = k
			}
		}
		delete(f.saved.Threads, oldest)
	}

	f.saved.Threads[who] = t
}

func (f *facts) thread(who string) (thread, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.saved.Threads[text.LowerASCII(who)]
	return t, ok
}
