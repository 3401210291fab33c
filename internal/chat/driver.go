package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Driver is a chat platform: what its section of the configuration may say, and
// how a channel is made of it. Only New must be there.
type Driver struct {
	// Title is the platform's name as people write it.
	Title string
	// Aliases are other names by which people look for it.
	Aliases []string
	// Needs says what has to be on this machine before a channel with these
	// settings can work, as a sentence and what to do; nil: it is there. Nil:
	// nothing is needed.
	Needs func(settings map[string]string) error
	// Options makes the struct of a section, filled with its defaults: a
	// pointer, for Decode. Schema, reference, completion and forms come from
	// its tags (json, doc, enum, min, max) and its types; what is a secret has
	// the type httpsafe.Secret. Fields with the tag setup are asked for when a
	// channel is added. Nil: only Common is known.
	Options func() any
	// New makes a channel of a section.
	New Factory
	// Probe asks the platform whether a section works, without receiving or
	// sending anything that people see. It gets the same Deps as New, which
	// accepted the section before. Nil: New is all that can be tried.
	Probe func(ctx context.Context, d Deps, section json.RawMessage) (Report, error)
	// Login connects a section to an account with the help of a person. The
	// section may lack what the login finds out. Nil: the keys stand in the
	// section.
	Login func(ctx context.Context, d Deps, section json.RawMessage, p Dialog, force bool) (Result, error)
	// LoginOptional says that a section works without Login, which only adds to
	// it.
	LoginOptional bool
	// Logout forgets what a login left, at the platform as well if it can.
	Logout func(ctx context.Context, d Deps, section json.RawMessage) error
	// Expand makes sections of one that holds several accounts, by their
	// runtime names without the platform's; "" is the section itself. An error
	// is about those that are left out. Nil: a section is one account.
	Expand func(section json.RawMessage) (map[string]json.RawMessage, error)
	// Merge is the reverse of Expand for what a login found out: the patch of
	// the section that holds an account of this name. False: it does not.
	Merge func(section json.RawMessage, account string, patch map[string]any) (map[string]any, bool)
	// Quiet platforms send no progress and no tool hints unless their section
	// wants them.
	Quiet bool
	// Language is the one that most people on the platform read, as in package
	// phrase. "": English.
	Language string
	// Folder is the name of the account's folder below the data folder where
	// older versions kept it. "": accounts/NAME.
	Folder string
}

// Section makes the struct of a section with all defaults, also those of Common.
func (d Driver) Section() any {
	if d.Options == nil {
		d.Options = func() any { return new(struct{ Common }) }
	}

	section := d.Options()
	if c, ok := reflect.ValueOf(section).Elem().FieldByName("Common").Addr().Interface().(*Common); ok {
		c.GroupPolicy = cmp.Or(c.GroupPolicy, access.Mention)
		c.RestartBackoffMaxS = int(c.LongestPause() / time.Second)
		c.MaxMediaBytes = c.MediaLimit()
	}
	return section
}

// Field is a setting that a person is asked for when a channel is added.
type Field struct {
	Name    string
	Doc     string
	Usual   string // its default; "" is none
	Secret  bool
	Consent bool // it must be true
}

// Fields returns the settings without which a section does not work.
func (d Driver) Fields() []Field {
	var out []Field
	section := reflect.ValueOf(d.Section()).Elem()
	for _, f := range reflect.VisibleFields(section.Type()) {
		if f.Tag.Get("setup") == "" {
			continue
		}

		v := section.FieldByIndex(f.Index)
		_, secret := v.Interface().(httpsafe.Secret)
		field := Field{Name: f.Tag.Get("json"), Doc: f.Tag.Get("doc"), Secret: secret, Consent: v.Kind() == reflect.Bool}
		if !secret && !v.IsZero() {
			field.Usual = fmt.Sprint(v.Interface())
		}
		out = append(out, field)
	}

	return out
}

// Factory makes a channel of its section of the configuration. Keys are
// camelCase and references resolved; see Decode. An error names the key.
type Factory func(d Deps, section json.RawMessage) (Channel, error)

// Report is what a Probe found.
type Report struct {
	Identity string // who we are on the platform
	Checks   []Check
}

// Check is one thing that a Probe looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail says what was found; of a failed check also what to do about it.
	Detail string `json:"detail,omitempty"`
}

// Dialog is the person during a login.
type Dialog interface {
	// Tell shows the next step; it replaces the one before.
	Tell(s Step)
	// Ask waits for a line.
	Ask(ctx context.Context, q Question) (string, error)
}

// Step is what a person has to do during a login. Empty fields are not shown.
type Step struct {
	QR      string // the content of a QR code to scan
	URL     string // an address to open
	Code    string // to type in elsewhere
	Note    string
	Expires time.Time // of QR, URL and Code; zero is never
}

// Question is what a person is asked during a login.
type Question struct {
	Text   string
	Hidden bool // the answer is not echoed
}

// Result is what a login found out.
type Result struct {
	Identity string
	// Patch is written into the section.
	Patch map[string]any
	// Owner is the id of the person who logged in, if the platform proves it:
	// they become an owner of the channel.
	Owner string
}

// UnknownPlatform is the error of a name that no driver has. It names the nearest
// one, or all.
func UnknownPlatform(name string, drivers map[string]Driver) error {
	known := slices.Sorted(maps.Keys(drivers))
	for _, k := range known {
		if slices.Contains(drivers[k].Aliases, text.LowerASCII(name)) {
			return fmt.Errorf("unknown channel %q, did you mean %q?", name, k)
		}
	}

	if near := text.Nearest(name, known); near != "" {
		return fmt.Errorf("unknown channel %q, did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown channel %q; known channels: %s", name, strings.Join(known, ", "))
}
