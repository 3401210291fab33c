package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// directSession is the conversation of one-shots, and of chats without a
// terminal.
const directSession = "cli:direct"

// conversation is the one that a call of nanobot agent talks in.
type conversation struct {
	key    string
	folder string // absolute; "" is the workspace
	fresh  bool   // it begins with this call
	notes  []string
	// release gives back the name of a fresh conversation, which no other chat takes
	// while this one has not said anything. It may be nil.
	release func() error
}

// close gives back what the choice of the conversation took.
func (t conversation) close() error {
	if t.release == nil {
		return nil
	}
	return t.release()
}

// conversations chooses what a call of nanobot agent talks in.
type conversations struct {
	*console
	home    *home
	folders *folders
}

// choose chooses the conversation of a call and the folder it works in.
func (c *conversations) choose(ctx context.Context, f agentFlags, l *config.Loaded) (conversation, error) {
	ws, err := c.home.workspaceOf(l)
	if err != nil {
		return conversation{}, err
	}

	here, note, err := c.folders.choose(ctx, l, ws, f.message == "")
	if err != nil {
		return conversation{}, err
	}

	talk := conversation{key: directSession, folder: here}
	if note != "" {
		talk.notes = append(talk.notes, note)
	}

	at := c.tui()
	if f.session == "" && !f.proceed && !f.resume && (f.message != "" || !at.InTTY) {
		return talk, nil
	}

	past, err := app.OpenSessions(ctx, l, ws, c.home.logger())
	if err != nil {
		return talk, err
	}

	defer past.Close() //nolint:errcheck // read only

	switch {
	case f.session != "":
		talk.key = sessionKey(ctx, past, f.session)
		if f.message == "" {
			return talk.join(ctx, past)
		}
		return talk, nil

	case f.resume:
		if talk.key, err = c.ask(ctx, past, here); err != nil {
			return talk, err
		}
		return talk.join(ctx, past)

	case f.proceed:
		if found := recent(ctx, past, here, 1); len(found) > 0 {
			talk.key = found[0].Key
			return talk, nil
		}
		talk.notes = append(talk.notes, c.in("There is no earlier conversation in this folder."))
	}

	state := app.State(l, c.home.logger())
	talk.key, talk.release = newSession(ctx, past, state, here, c.Now())
	talk.fresh = true
	talk.notes = append(talk.notes, c.in("New conversation %s in %s (to return: nanobot agent --continue)", talk.key, c.short(cmp.Or(here, ws))))
	return talk, nil
}

// join goes on with a conversation in the folder it has, if there is one.
func (t conversation) join(ctx context.Context, past *session.Store) (conversation, error) {
	dir, err := folderOf(ctx, past, t.key)
	switch {
	case errors.Is(err, session.ErrNotFound):
		t.fresh = true
		return t, nil
	case err != nil:
		return t, err
	}

	if info, err := os.Stat(dir); dir == "" || err == nil && info.IsDir() {
		t.folder = dir
	}
	return t, nil
}

// folderOf returns the folder that a conversation works in; "" is the workspace.
func folderOf(ctx context.Context, past *session.Store, key string) (string, error) {
	meta, err := past.Metadata(ctx, key)
	if err != nil {
		return "", err
	}
	if scope := turn.ScopeOf(meta); scope != nil {
		return scope.Path, nil
	}
	return "", nil
}

// sessionKey returns the conversation that a name means: the name itself, as in
// Python nanobot, or that of earlier versions, which put cli: before it.
func sessionKey(ctx context.Context, past *session.Store, name string) string {
	if key, err := past.Find(ctx, name); err == nil {
		return key
	}
	return name
}

// newSession names a conversation after its folder and the time. The name stays
// reserved until release is called or the process ends: a conversation is on disk
// only after its first message, and two chats may be opened in the same minute.
func newSession(ctx context.Context, past *session.Store, state store.Store, folder string, now time.Time) (name string, release func() error) {
	base := "chat"
	if folder != "" {
		base = slug(filepath.Base(folder))
	}

	stem := session.Terminal + ":" + base + "-" + now.Format("0102-1504")
	name = stem
	for n := 2; ; n++ {
		sum := sha256.Sum256([]byte(name))
		release, err := state.Lock(ctx, string(datadir.Run)+"/names/"+hex.EncodeToString(sum[:8]))
		_, taken := errors.AsType[*store.LockedError](err)
		if _, err := past.Metadata(ctx, name); errors.Is(err, session.ErrNotFound) && !taken {
			return name, release // nil if there can be no lock: the first message tells what is wrong
		}

		if release != nil {
			_ = release()
		}
		name = stem + "-" + strconv.Itoa(n)
	}
}

// slug returns a short name of letters, digits and hyphens.
func slug(name string) string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '-'
	}, text.Label(name, 24))
	return cmp.Or(strings.Trim(s, "-"), "chat")
}

// recent lists conversations of the terminal in a folder, the latest first.
func recent(ctx context.Context, past *session.Store, folder string, most int) []session.Info {
	list, _ := past.List(ctx) // what cannot be read is not offered
	var found []session.Info
	for _, info := range list {
		if channel, _ := session.Split(info.Key); channel != session.Terminal || len(found) == most {
			continue
		}
		if dir, err := folderOf(ctx, past, info.Key); err == nil && dir == folder {
			found = append(found, info)
		}
	}

	return found
}

// maxChoices bounds the list of conversations.
const maxChoices = 20

// ask lets the user pick a conversation: those of the folder first.
func (c *conversations) ask(ctx context.Context, past *session.Store, here string) (string, error) {
	list := recent(ctx, past, here, maxChoices)
	all, _ := past.List(ctx) // as in recent
	for _, info := range all {
		if len(list) < maxChoices && strings.HasPrefix(info.Key, session.Terminal+":") && !slices.ContainsFunc(list, func(i session.Info) bool { return i.Key == info.Key }) {
			list = append(list, info)
		}
	}

	if len(list) == 0 {
		return "", usageError{errors.New("there is no earlier conversation; start one with: nanobot agent")}
	}

	w := c.table()
	for i, info := range list {
		dir, _ := folderOf(ctx, past, info.Key)
		w.row(strconv.Itoa(i+1), info.Key, info.Updated.Local().Format("2006-01-02 15:04"),
			c.short(cmp.Or(dir, c.in("workspace"))), text.Label(printable(cmp.Or(info.Title, info.Preview)), 50))
	}

	if err := w.Flush(); err != nil {
		return "", err
	}

	ask := c.prompter()
	if !ask.terminal() {
		return "", usageError{errors.New("--resume asks which conversation to open and needs a terminal; use -s NAME")}
	}

	answer, err := ask.line(c.in("Conversation"), "1")
	if err != nil {
		return "", err
	}

	n, err := strconv.Atoi(cmp.Or(answer, "1"))
	if err != nil || n < 1 || n > len(list) {
		return "", usageError{fmt.Errorf("%q is not a number from 1 to %d", answer, len(list))}
	}
	return list[n-1].Key, nil
}
