package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/webui"
)

// edits is what the web interface changes.
type edits struct {
	mu     sync.Mutex // one change of settings at a time
	logins logins
}

// settingsReads are what a web interface may know about the settings.
func (g *Gateway) settingsReads() map[string]webui.Read {
	return map[string]webui.Read{
		"settings":                  g.readSettings,
		"settings/usage":            g.readUsage,
		"settings/provider-models":  g.readModels,
		"settings/api-service":      g.readAPIService,
		"settings/pairing":          g.readPairing,
		"settings/mcp-presets":      g.readMCP,
		"settings/mcp-oauth/status": g.readMCPLogins,
		"settings/nanobot-features": g.readFeatures,
		"settings/version-check":    g.readVersion,
		"settings/cli-apps": func(context.Context, *http.Request) (any, error) {
			return nil, noCLIApps()
		},
	}
}

// settingsActions are what a web interface may change.
func (g *Gateway) settingsActions() map[string]webui.Action {
	out := map[string]webui.Action{
		"settings.agent.update":            g.patchAction(patchOf{below: []string{"agents", "defaults"}}),
		"settings.web_search.update":       g.patchAction(patchOf{below: []string{"tools", "web"}}),
		"settings.image_generation.update": g.patchAction(patchOf{below: []string{"tools", "imageGeneration"}}),
		"settings.transcription.update":    g.patchAction(patchOf{below: []string{"transcription"}}),
		"settings.network_safety.update":   g.patchAction(patchOf{below: []string{"tools"}, only: safetySettings()}),
	}
	for _, more := range []map[string]webui.Action{g.modelActions(), g.channelActions(), g.mcpActions(), g.loginActions()} {
		maps.Copy(out, more)
	}
	for _, name := range []string{"install", "update", "uninstall", "test"} {
		out["settings.cli_app."+name] = refusing(noCLIApps())
	}
	out["workspace.pick_folder"] = refusing(webui.Refuse(http.StatusNotImplemented, "a gateway has no window to pick a folder in; type its path"))
	return out
}

func noCLIApps() error {
	return webui.Refuse(http.StatusNotImplemented, "there are no CLI apps in this program; use exec or MCP")
}

func refusing(err error) webui.Action {
	return func(context.Context, json.RawMessage) (any, error) { return nil, err }
}

// safetySettings are what keeps the agent in bounds.
func safetySettings() []string {
	return []string{
		"tools.ssrfWhitelist", "tools.restrictToWorkspace", "tools.protectConfigDir", "tools.exec", "tools.approval",
		"tools.webuiAllowLocalServiceAccess", "tools.webuiAllowRemotePackageInstall",
	}
}

// patchOf says where the payload of an action belongs.
type patchOf struct {
	below []string
	only  []string // settings that may be changed; nil is all below
}

// patchAction is an action whose payload is a merge patch of a section.
func (g *Gateway) patchAction(p patchOf) webui.Action {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		if err := isObject(payload, "the payload"); err != nil {
			return nil, err
		}
		return g.change(ctx, edit{only: p.only, make: always(under(payload, p.below...))})
	}
}

// isObject refuses what is no JSON object: null would mean to remove
// everything.
func isObject(raw json.RawMessage, what string) error {
	if b := bytes.TrimSpace(raw); len(b) == 0 || b[0] != '{' {
		return webui.Refuse(http.StatusBadRequest, "%s must be an object with the settings to change", what)
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
}

// change edits the configuration file and puts it to use. What would not work
// is refused and changes nothing.
func (g *Gateway) change(ctx context.Context, e edit) (edited, error) {
	g.edits.mu.Lock()
	defer g.edits.mu.Unlock()
	if err := g.atWork(); err != nil {
		return edited{}, err
	}
	next, changed, err := g.write(ctx, e)
	if errors.Is(err, config.ErrChanged) { // somebody else was faster
		next, changed, err = g.write(ctx, e)
	}
	if err != nil {
		return edited{}, g.refuseEdit(err)
	}
	out := edited{Changed: append([]string{}, changed...), Restart: []string{}}
	if len(changed) == 0 {
		return out, nil
	}
	g.log.InfoContext(ctx, "settings were changed in the web interface", "settings", changed)
	g.tellOwner(ctx, "Settings were changed in the web interface: "+someOf(changed, 20)+".")
	for _, name := range changed {
		if es, err := next.Explain(name); err == nil && len(es) == 1 && (es[0].Source.Layer == config.LayerEnv || es[0].Source.Layer == config.LayerFlag) {
			out.Overridden = append(out.Overridden, es[0].Path+": "+es[0].Source.String())
		}
	}
	if slices.ContainsFunc(changed, ofSocket) {
		out.Reconnect, out.Note = true, "The socket restarts with these settings; connect again, with the new token or address if you changed them."
		g.reloadSoon() //nolint:contextcheck // it goes on when nobody waits any more
	} else if err := g.reloadAndWait(ctx); err != nil {
		return edited{}, webui.Refuse(http.StatusUnprocessableEntity, "the settings are saved, but they cannot be used: %s", g.secrets.Redact(err.Error()))
	}
	out.Restart = append(out.Restart, g.Status().Later...)
	return out, nil
}

// atWork refuses what would be left undone because the gateway does not run.
func (g *Gateway) atWork() error {
	select {
	case <-g.ending:
	default:
		if g.carrying != nil {
			return nil
		}
	}
	return webui.Refuse(http.StatusServiceUnavailable, "the gateway is not running; try again in a moment")
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

// reloadAndWait puts the file to use. It goes on when nobody waits any more.
func (g *Gateway) reloadAndWait(ctx context.Context) error {
	done := make(chan error, 1)
	g.background.Go(func() { done <- g.Reload(g.carrying) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answerTime is how long an answer has to reach the client before its
// connection ends.
const answerTime = 250 * time.Millisecond

func (g *Gateway) reloadSoon() {
	ctx := g.carrying
	g.background.Go(func() {
		if httpsafe.Pause(ctx, answerTime) == nil {
			_ = g.Reload(ctx) // the owner is told
		}
	})
}

// write saves an edit that would work. The first result is the configuration
// that it leads to.
func (g *Gateway) write(ctx context.Context, e edit) (*config.Loaded, []string, error) {
	file, next, changed, err := g.prepare(e)
	if err != nil || len(changed) == 0 {
		return next, nil, err
	}
	for name, s := range next.Secrets() {
		_ = g.secrets.Add(name, s) // errors must not show them
	}
	if c := changeOf(next.Changed(g.config())); c.agent || c.schedule {
		o := g.o.Options
		o.Loaded = next
		if _, err := app.Inspect(ctx, o); err != nil {
			return nil, nil, webui.Refuse(http.StatusUnprocessableEntity, "%s", g.secrets.Redact(err.Error()))
		}
	}
	return next, changed, file.Save(g.o.Now())
}

// prepare makes an edit in memory.
func (g *Gateway) prepare(e edit) (*config.File, *config.Loaded, []string, error) {
	fail := func(err error) (*config.File, *config.Loaded, []string, error) { return nil, nil, nil, err }
	o := g.configOptions()
	path, err := config.Locate(o)
	if err != nil {
		return fail(err)
	}
	file, err := config.Open(path)
	if err != nil {
		return fail(webui.Refuse(http.StatusConflict, "the configuration file cannot be edited: %v", err))
	}
	o.Text = file.Text()
	now, err := config.Load(o)
	if err != nil {
		return fail(webui.Refuse(http.StatusConflict, "the configuration file must be corrected first: %v", err))
	}
	patch, err := e.make(now)
	if err != nil {
		return fail(err)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return fail(webui.Refuse(http.StatusBadRequest, "the payload does not fit: %v", err))
	}
	changed, err := file.Patch(text)
	if err != nil {
		return fail(err)
	}
	for _, name := range changed {
		if e.only != nil && !slices.ContainsFunc(e.only, func(p string) bool { return name == p || strings.HasPrefix(name, p+".") }) {
			return fail(webui.Refuse(http.StatusBadRequest, "%s cannot be changed by this action", name))
		}
	}
	o.Text = file.Text()
	next, err := config.Load(o)
	if err != nil {
		return fail(err)
	}
	for _, p := range next.Disabled {
		if !slices.ContainsFunc(now.Disabled, func(q config.Problem) bool { return q.Path == p.Path && q.Message == p.Message }) {
			return fail(&config.Error{Kind: config.InvalidSchema, Issues: []config.Problem{p}})
		}
	}
	if e.check != nil {
		err = e.check(next)
	}
	return file, next, changed, err
}

// refuseEdit says in the terms of HTTP why an edit was not made.
func (*Gateway) refuseEdit(err error) error {
	if _, ok := errors.AsType[*webui.Error](err); ok {
		return err
	}
	if bad, ok := errors.AsType[*config.Error](err); ok && bad.Kind != config.IOError {
		var lines []string
		for _, p := range bad.Issues {
			p.Line, p.Column = 0, 0 // of a text that was never written
			lines = append(lines, p.String())
		}
		return webui.Refuse(http.StatusUnprocessableEntity, "%s", strings.Join(lines, "\n"))
	}
	_, locked := errors.AsType[*diskio.LockedError](err)
	switch {
	case errors.Is(err, config.ErrUnknown):
		return webui.Refuse(http.StatusBadRequest, "%v", err)
	case locked, errors.Is(err, config.ErrChanged):
		return webui.Refuse(http.StatusConflict, "another program changes the configuration file; try again")
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
