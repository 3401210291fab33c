package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// editor changes the configuration file.
type editor struct {
	background

	File    config.Options        // how the configuration is found and read
	Config  func() *config.Loaded // the one in use
	Secrets *httpsafe.Registry
	Log     *slog.Logger
	Now     func() time.Time

	Try    func(ctx context.Context, next *config.Loaded) error // why it could not be used
	Reload func(ctx context.Context) error                      // reads the file again and puts it to use
	Status func() (problems, later []string)
	Notify func(ctx context.Context, s phrase.Sentence) // to the owner

	mu sync.Mutex // one change at a time
}

// patchOf says where the payload of an action belongs.
type patchOf struct {
	below []string
	only  []string // settings that may be changed; nil is all below
}

// patchAction returns an action whose payload is a merge patch of a section.
func (ed *editor) patchAction(p patchOf) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		if err := isObject(payload, "the payload"); err != nil {
			return nil, err
		}
		return ed.change(ctx, edit{only: p.only, make: always(under(payload, p.below...))})
	}
}

// isObject refuses what is not a JSON object: null would mean to remove
// everything.
func isObject(raw json.RawMessage, what string) error {
	if b := bytes.TrimSpace(raw); len(b) == 0 || b[0] != '{' {
		return web.Refuse(http.StatusBadRequest, "%s must be an object with the settings to change", what)
	}
	return nil
}

// under puts a value below names, as a merge patch needs it.
func under(v any, names ...string) any {
	for _, name := range slices.Backward(names) {
		v = map[string]any{name: v}
	}
	return v
}

func always(patch any) func(*config.Loaded) (any, error) {
	return func(*config.Loaded) (any, error) { return patch, nil }
}

// edit is a change of the configuration file.
type edit struct {
	// make returns a merge patch of the whole configuration, or why there is
	// none. It sees the configuration as the file says it.
	make func(now *config.Loaded) (any, error)
	// check judges what it would lead to. May be nil.
	check func(next *config.Loaded) error
	only  []string // settings it may change; nil is all
	base  string   // version of the file that it is meant for; "" is any

	channel string // whose section it is about, if it is about one
}

// edited tells what became of an edit.
type edited struct {
	Changed []string `json:"changed"`
	Restart []string `json:"restart_required"` // settings, of this change or an earlier one, that wait for a restart
	// Overridden settings were written, but something stronger than the file
	// decides them.
	Overridden []string `json:"overridden,omitempty"`
	// Reconnect says that the socket itself restarts in a moment.
	Reconnect bool   `json:"reconnect,omitempty"`
	Note      string `json:"note,omitempty"`
	Base      string `json:"base"` // version of the file that was written
}

// change edits the configuration file and puts it to use. What would not work
// is refused and changes nothing.
func (ed *editor) change(ctx context.Context, e edit) (edited, error) {
	ed.mu.Lock()
	defer ed.mu.Unlock()

	life, err := ed.life()
	if err != nil {
		return edited{}, err
	}

	next, changed, version, err := ed.write(ctx, e)
	if errors.Is(err, config.ErrChanged) { // another program was faster
		next, changed, version, err = ed.write(ctx, e)
	}

	if err != nil {
		return edited{}, refuseEdit(err)
	}
	return ed.use(ctx, life, next, changed, version)
}

// use puts what was written to use.
func (ed *editor) use(ctx, life context.Context, next *config.Loaded, changed []string, version string) (edited, error) {
	out := edited{Changed: append([]string{}, changed...), Restart: []string{}, Base: version}
	if len(changed) == 0 {
		return out, nil
	}

	ed.Log.InfoContext(ctx, "settings were changed in the web interface", "settings", changed)
	ed.Notify(ctx, phrase.Later("Settings were changed in the web interface: %s.", someOf(changed, 20)))
	for _, name := range changed {
		if es, err := next.Explain(name); err == nil && len(es) == 1 && (es[0].Source.Layer == config.LayerEnv || es[0].Source.Layer == config.LayerFlag) {
			out.Overridden = append(out.Overridden, es[0].Path+": "+es[0].Source.String())
		}
	}

	if slices.ContainsFunc(changed, ofSocket) {
		out.Reconnect, out.Note = true, "The socket restarts with these settings; connect again, with the new token or address if you changed them."
		ed.reloadSoon(life) // it goes on when the client is gone
	} else if err := ed.reloadAndWait(ctx, life); err != nil {
		return edited{}, web.Refuse(http.StatusUnprocessableEntity, "the settings are saved, but they cannot be used: %s", ed.Secrets.Redact(err.Error()))
	}

	_, later := ed.Status()
	out.Restart = append(out.Restart, later...)
	return out, nil
}

func someOf(names []string, n int) string {
	if len(names) > n {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
	}
	return strings.Join(names, ", ")
}

// ofSocket reports settings whose change ends the connections of clients.
func ofSocket(name string) bool {
	rest, ok := strings.CutPrefix(name, "channels.websocket")
	return ok && (rest == "" || rest[0] == '.')
}

// reloadAndWait puts the file to use. It goes on after the client has gone: the file
// is written, so a client that asks again must get this answer and not a second try.
func (ed *editor) reloadAndWait(ctx, life context.Context) error {
	done := make(chan error, 1)
	ed.Go(func() { done <- ed.Reload(life) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil // if it fails, the owner is told
	}
}

// answerTime is how long an answer has to reach the client before its
// connection ends.
const answerTime = 250 * time.Millisecond

func (ed *editor) reloadSoon(life context.Context) {
	ed.Go(func() {
		if wait.For(life, answerTime) == nil {
			_ = ed.Reload(life) // the owner is told
		}
	})
}

// write saves an edit that would work. The first result is the configuration
// that it leads to, the third the version of the file.
func (ed *editor) write(ctx context.Context, e edit) (*config.Loaded, []string, string, error) {
	file, next, changed, err := ed.prepare(e)
	if err != nil {
		return nil, nil, "", err
	}

	if len(changed) > 0 {
		if err := ed.tryOut(ctx, next); err != nil {
			return nil, nil, "", err
		}
		err = file.Save(ed.Now())
	}
	return next, changed, file.Version(), err
}

// tryOut refuses a configuration that an agent could not be built with.
func (ed *editor) tryOut(ctx context.Context, next *config.Loaded) error {
	for name, s := range next.Secrets() {
		_ = ed.Secrets.Add(name, s) // errors must not show them
	}
	if err := ed.Try(ctx, next); err != nil {
		return web.Refuse(http.StatusUnprocessableEntity, "%s", ed.Secrets.Redact(err.Error()))
	}
	return nil
}

// prepare makes an edit in memory.
func (ed *editor) prepare(e edit) (*config.File, *config.Loaded, []string, error) {
	fail := func(err error) (*config.File, *config.Loaded, []string, error) { return nil, nil, nil, err }
	o := ed.File
	path, err := config.Locate(o)
	if err != nil {
		return fail(err)
	}

	file, err := config.Open(path, o.Sections)
	if err != nil {
		return fail(web.Refuse(http.StatusConflict, "the configuration file cannot be edited: %v", err))
	}

	o.Text = file.Text()
	now, err := config.Load(o)
	if err != nil {
		return fail(web.Refuse(http.StatusConflict, "the configuration file must be corrected first: %v", err))
	}

	patch, err := e.make(now)
	if err != nil {
		return fail(err)
	}

	text, err := json.Marshal(patch)
	if err != nil {
		return fail(web.Refuse(http.StatusBadRequest, "the payload does not fit: %v", err))
	}

	changed, err := file.Patch(text)
	if err != nil {
		return fail(err)
	}

	for _, name := range changed {
		if e.only != nil && !slices.ContainsFunc(e.only, func(p string) bool { return name == p || strings.HasPrefix(name, p+".") }) {
			return fail(web.Refuse(http.StatusBadRequest, "%s cannot be changed by this action", name))
		}
	}

	o.Text = file.Text()
	next, err := config.Load(o)
	if err != nil {
		return fail(err)
	}
	if err := newlyDisabled(now, next); err != nil {
		return fail(err)
	}
	if e.base != "" && e.base != file.Version() && len(changed) > 0 {
		return fail(stale(file.Version(), now, next, changed))
	}

	if e.check != nil {
		err = e.check(next)
	}
	return file, next, changed, err
}

// newlyDisabled refuses sections that would be left out and were not before.
func newlyDisabled(now, next *config.Loaded) error {
	for _, p := range next.Disabled {
		if !slices.ContainsFunc(now.Disabled, func(q config.Problem) bool { return q.Path == p.Path && q.Message == p.Message }) {
			return &config.Error{Kind: config.InvalidSchema, Issues: []config.Problem{p}}
		}
	}
	return nil
}

// refuseEdit says in the terms of HTTP why an edit was not made.
func refuseEdit(err error) error {
	if _, ok := errors.AsType[*web.Error](err); ok {
		return err
	}

	if bad, ok := errors.AsType[*config.Error](err); ok && bad.Kind != config.IOError {
		issues := slices.Clone(bad.Issues)
		var lines []string
		for i := range issues {
			issues[i].Line, issues[i].Column = 0, 0 // of a text that was never written
			lines = append(lines, issues[i].String())
		}
		return with(web.Refuse(http.StatusUnprocessableEntity, "%s", strings.Join(lines, "\n")), "issues", issues)
	}

	_, locked := errors.AsType[*diskio.LockedError](err)
	switch {
	case errors.Is(err, config.ErrUnknown):
		return web.Refuse(http.StatusBadRequest, "%v", err)
	case locked, errors.Is(err, config.ErrChanged):
		return web.Refuse(http.StatusConflict, "another program changes the configuration file; try again")
	}
	return err
}

// named is the payload of most actions about one of several things.
type named struct {
	Name     string          `json:"name"`
	Settings json.RawMessage `json:"settings"`
}

// plainName reports whether a new entry of the configuration may be called so.
func plainName(name string) bool {
	if name == "" || len(name) > 40 || strings.Trim(name[:1], "-_.") == "" {
		return false
	}
	return strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
