package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// whole changes any setting, and the file as a text.
type whole struct {
	*editor
	channels *channels
}

// Routes implements web.Subject.
func (w *whole) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"settings/schema":   w.readSchema,
			"settings/raw":      w.readRaw,
			"settings/versions": w.readVersions,
			"settings/diff":     w.readDiff,
		},
		Actions: map[string]web.Action{
			"settings.check":      web.Changing(w.check, web.TopicSettings),
			"settings.update":     web.Changing(w.update, web.TopicSettings),
			"settings.raw.update": web.Changing(w.updateRaw, web.TopicSettings),
			"settings.restore":    web.Changing(w.restore, web.TopicSettings),
		},
	}
}

// readSchema returns the JSON Schema of the configuration with its marks.
func (w *whole) readSchema(context.Context, *http.Request) (any, error) {
	return json.RawMessage(config.Schema(w.File.Sections)), nil
}

// patched is a change of any settings. Patch is a merge patch; its names may be
// paths with dots. Base is the version of the file that was read.
type patched struct {
	Patch json.RawMessage `json:"patch"`
	Base  string          `json:"base"`
}

func (w *whole) edit(payload json.RawMessage) (edit, error) {
	var in patched
	if err := web.Decode(payload, &in); err != nil {
		return edit{}, err
	}
	if err := isObject(in.Patch, "patch"); err != nil {
		return edit{}, err
	}

	patch, err := config.Nest(in.Patch)
	if err != nil {
		return edit{}, web.Refuse(http.StatusBadRequest, "%v", err)
	}
	return edit{base: in.Base, make: always(patch), check: w.judge}, nil
}

// judge refuses channels that could not be run with changed settings.
func (w *whole) judge(next *config.Loaded) error {
	for _, name := range next.Changed(w.Config()) {
		name, ok := strings.CutPrefix(name, "channels.")
		if !ok || !next.Config.Channels.Each[name].Enabled || w.channels.known(name) != nil {
			continue
		}
		if err := errors.Join(w.channels.judgeChannel(next, name), lockOut(next, name)); err != nil {
			return err
		}
	}
	return nil
}

// check says what a change would do, without making it.
func (w *whole) check(ctx context.Context, payload json.RawMessage) (any, error) {
	e, err := w.edit(payload)
	if err != nil {
		return nil, err
	}

	_, next, changed, err := w.prepare(e)
	if err == nil && len(changed) > 0 {
		err = w.tryOut(ctx, next)
	}

	restart := []string{}
	for _, name := range changed {
		if config.Restarts(name) {
			restart = append(restart, name)
		}
	}

	issues := []config.Problem{}
	why, refused := errors.AsType[*web.Error](refuseEdit(err))
	switch {
	case err == nil:
	case !refused || why.Status != http.StatusUnprocessableEntity && !errors.Is(err, config.ErrUnknown):
		return nil, refuseEdit(err)
	default:
		issues = []config.Problem{{Message: why.Message}}
		if list, ok := why.Params["issues"].([]config.Problem); ok {
			issues = list
		}
	}

	return map[string]any{"valid": err == nil, "changed": append([]string{}, changed...), "restart_required": restart, "issues": issues}, nil
}

func (w *whole) update(ctx context.Context, payload json.RawMessage) (any, error) {
	e, err := w.edit(payload)
	if err != nil {
		return nil, err
	}
	return w.change(ctx, e)
}

// conflict is a setting that a stale change is about.
type conflict struct {
	Path    string          `json:"path"`
	Current json.RawMessage `json:"current"` // in the file, credentials hidden
	Yours   json.RawMessage `json:"yours"`
}

// stale refuses a change of a file that is not the one that was read.
func stale(version string, now, next *config.Loaded, changed []string) error {
	list := []conflict{}
	for _, path := range changed {
		is, err := now.Get(path)
		will, err2 := next.Get(path)
		if err == nil && err2 == nil {
			list = append(list, conflict{path, json.RawMessage(is), json.RawMessage(will)})
		}
	}

	err := web.Refuse(http.StatusConflict, "the configuration file has changed since it was read; look at the difference")
	return with(with(err, "version", version), "conflicts", list)
}

// with adds a value to a refusal.
func with(err error, name string, value any) error {
	e, ok := errors.AsType[*web.Error](err)
	if !ok {
		return err
	}
	if e.Params == nil {
		e.Params = map[string]any{}
	}
	e.Params[name] = value
	return e
}

// onDisk returns the text of the file; nil: there is none.
func (ed *editor) onDisk() (path string, text []byte, err error) {
	if path, err = config.Locate(ed.File); err != nil {
		return "", nil, err
	}
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	return path, text, err
}

// masked returns a text of the file without credentials.
func (ed *editor) masked(text []byte) (string, error) {
	if text == nil {
		text = config.NewFile()
	}
	shown, err := config.Mask(text, ed.File.Sections)
	if err != nil {
		return "", badText(err)
	}
	return string(shown), nil
}

// badText refuses a text that cannot be used, with the lines of what is wrong.
func badText(err error) error {
	bad, ok := errors.AsType[*config.Error](err)
	if !ok || bad.Kind == config.IOError {
		return refuseEdit(err)
	}
	var lines []string
	for _, p := range bad.Issues {
		lines = append(lines, p.String())
	}
	return with(web.Refuse(http.StatusUnprocessableEntity, "the text cannot be used: %s", strings.Join(lines, "\n")), "issues", bad.Issues)
}

// readRaw returns the text of the file, or of an earlier version.
func (w *whole) readRaw(_ context.Context, r *http.Request) (any, error) {
	path, text, err := w.onDisk()
	if err == nil && r.URL.Query().Get("version") != "" {
		text, err = w.version(r.URL.Query().Get("version"))
	}
	if err != nil {
		return nil, err
	}
	shown, err := w.masked(text)
	return map[string]any{"file": path, "exists": text != nil, "text": shown, "base": config.Version(text)}, err
}

func (w *whole) updateRaw(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Text string `json:"text"`
		Base string `json:"base"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	return w.replaceText(ctx, in.Base, func(was []byte) ([]byte, error) {
		return config.Unmask([]byte(in.Text), was, w.File.Sections)
	})
}

// replaceText replaces the file by another text and uses it, if it would work.
func (w *whole) replaceText(ctx context.Context, base string, text func(was []byte) ([]byte, error)) (edited, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	life, err := w.life()
	if err != nil {
		return edited{}, err
	}

	path, was, err := w.onDisk()
	if err != nil {
		return edited{}, err
	}
	if v := config.Version(was); base != "" && base != v {
		return edited{}, stale(v, nil, nil, nil)
	}

	fresh, err := text(was)
	if err != nil {
		return edited{}, badText(err)
	}

	o := w.File
	o.Text = fresh
	next, err := config.Load(o)
	if err == nil {
		err = newlyDisabled(w.Config(), next)
	}

	if err != nil {
		return edited{}, badText(err)
	}
	if err := w.judge(next); err != nil {
		return edited{}, refuseEdit(err)
	}
	if err := w.tryOut(ctx, next); err != nil {
		return edited{}, err
	}

	changed := next.Changed(w.Config())
	if bytes.Equal(was, fresh) {
		changed = nil
	} else if err := config.Replace(path, was, fresh, w.Now()); err != nil {
		return edited{}, refuseEdit(err)
	}
	return w.use(ctx, life, next, changed, config.Version(fresh))
}
