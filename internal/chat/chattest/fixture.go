package chattest

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// Fixture is a channel and a fake of its platform. What follows Lacks is
// optional: a field that is empty must have a reason there, with which the cases
// that need it are skipped.
type Fixture struct {
	Driver chat.Driver
	// Section is the configuration for the fake with these common settings.
	Section func(c chat.Common) json.RawMessage
	// Options changes what the manager gets. Its HTTP clients reach loopback
	// already. Nil: nothing.
	Options func(o *deliver.Options)
	// Serve gets what the gateway's own listener serves, at each start. Nil: the
	// channel serves nothing there.
	Serve func(h http.Handler)
	// Hasten makes the pauses of a new channel short that a test would only wait
	// for. Nil: it has none.
	Hasten func(ch chat.Channel)
	// Owner is a sender who is let in by AllowFrom. Direct chats have the ids
	// that Chat makes of a sender.
	Owner   string
	Chat    func(sender string) string
	Deliver func(t *testing.T, in In)
	Seen    func() []Seen
	// Idle counts the edits that left a message as it was and did not close it.
	// Nil: the platform shows no texts that grow.
	Idle func() int

	// Lacks says of fields why they are empty: what the platform does not have.
	Lacks map[string]string

	Stranger string // a sender who is not let in
	Group    string // id of a chat of several people
	// Touched counts what the platform was asked to do for messages besides
	// handing them over: receipts, typing, downloads.
	Touched func() int
	Limit   func(after time.Duration) // the next message is refused: too many
	Break   func()                    // the next message meets an error of the server
	Refuse  func()                    // the next message is refused for good
	Cut     func()                    // the connection is lost once
	Streams bool                      // shows texts that grow
	Repeats bool                      // may deliver a message with the same id again

	// Thread is a thread of Group that the fake knows. In.Thread and
	// Seen.Thread are such ids.
	Thread string
	// MediaLimit says that Section passes maxMediaBytes on.
	MediaLimit bool
	// AnyName says that the fake can deliver files of any name.
	AnyName bool
	// Marks are the marks of ours that a message bears now.
	Marks func(chatID, id string) []string
	// Tap taps, as the owner, the button with a label below the last message
	// in a chat that has buttons.
	Tap func(t *testing.T, chatID, label string)
	// Typing tells how often the platform was told that we work on something
	// in a chat, and whether it shows that until it is told otherwise.
	Typing func(chatID, thread string) (times int, on bool)
	// Acked reports whether the platform was told that a message arrived, so
	// that it would not deliver it again.
	Acked func(id string) bool
	// Frame hands the channel what is not a message: a frame or a body that
	// comes from the platform itself, whatever is in it.
	Frame func(t *testing.T, frame []byte)
	// Forge is Deliver by a sender who does not know the secret.
	Forge func(t *testing.T, in In)
	// Backlog puts a message of this age into the platform's history while the
	// channel is away, if the channel reads that when it comes back.
	Backlog func(t *testing.T, in In, age time.Duration)
	// Impatient makes a new channel give up a silent connection after a second
	// or two, instead of a minute or two.
	Impatient func(ch chat.Channel)
	// Pose is Deliver, alone with us, by a stranger who put a name into
	// everything that people, or the administrators of an organisation, choose
	// there: user name, shown name, name in a group, id within another
	// organisation.
	Pose func(t *testing.T, in In, name string)
	// Alias is another stable id of a person.
	Alias func(sender string) string
	// Second is another account on a fake of its own, for a second section.
	Second *Fixture
}

// Section returns a section of the configuration with common settings and the keys of
// one platform; a key of the platform replaces a common one. It serves as the result of
// Fixture.Section.
func Section(t *testing.T, c chat.Common, keys map[string]any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]any{}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}

	maps.Copy(all, keys)

	section, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return section
}

// optional returns the fields that may be empty for a reason.
func optional() (names []string) {
	all := reflect.TypeFor[Fixture]()
	lacks, _ := all.FieldByName("Lacks")
	for i := lacks.Index[0] + 1; i < all.NumField(); i++ {
		names = append(names, all.Field(i).Name)
	}
	return names
}

func (f *Fixture) empty(field string) bool {
	return reflect.ValueOf(f).Elem().FieldByName(field).IsZero()
}

// check complains about fields that are empty without a reason, and about
// reasons for nothing.
func (f *Fixture) check(t *testing.T) {
	t.Helper()
	known := optional()
	for _, name := range known {
		if reason := f.Lacks[name]; f.empty(name) != (reason != "") {
			t.Errorf("the field %s of the fixture must be filled, or have a reason in Lacks (%q)", name, reason)
		}
	}

	for name := range f.Lacks {
		if !slices.Contains(known, name) {
			t.Errorf("Lacks names %q, which is not an optional field of the fixture", name)
		}
	}
}
