package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// Accounts tries channels, logs in and sends by hand: through the gateway that
// runs with a configuration, so that no account is used twice, or by itself if
// none runs.
type Accounts struct {
	Loaded *config.Loaded
	// File is where the result of a login is written to.
	File config.Options
}

// running reports whether a gateway answers, after it was asked for something.
func running(err error) bool { return !errors.Is(err, daemon.ErrNotRunning) }

// Test asks the platform of a channel whether its section works.
func (a Accounts) Test(ctx context.Context, name string) (chat.Report, error) {
	r, err := control.To(a.Loaded).Probe(ctx, name)
	if running(err) {
		return r, err
	}
	return a.Try(ctx, name)
}

// Try is Test without the running gateway, for a section that it does not have
// yet.
func (a Accounts) Try(ctx context.Context, name string) (chat.Report, error) {
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return chat.Report{}, err
	}
	return m.Probe(ctx, name)
}

// Address finds the chat that a route names.
func (a Accounts) Address(ctx context.Context, to bus.Route) (bus.Route, error) {
	if to.Channel == "" {
		return to, nil
	}

	found, err := control.To(a.Loaded).Address(ctx, to)
	if running(err) {
		return found, err
	}

	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return to, err
	}
	return m.Address(ctx, to)
}

// Logout makes a channel forget its account.
func (a Accounts) Logout(ctx context.Context, name string) error {
	err := control.To(a.Loaded).Logout(ctx, name)
	if running(err) {
		return err
	}
	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return err
	}
	return m.Logout(ctx, name)
}

// Login connects a channel to an account and writes what the login found out
// into the configuration.
func (a Accounts) Login(ctx context.Context, name string, p chat.Dialog, force bool) (chat.Result, error) {
	r, err := control.To(a.Loaded).Login(ctx, name, p, force)
	if running(err) {
		return r, err
	}

	m, err := deliver.NewManager(unconnected(a.Loaded))
	if err != nil {
		return r, err
	}
	if r, err = m.Login(ctx, name, p, force); err != nil {
		return r, err
	}

	_, err = saveLogin(a.File, name, r)
	return r, err
}

// saveLogin writes what a login found out into the section, and reports whether
// that changed anything.
func saveLogin(o config.Options, name string, r chat.Result) (changed bool, err error) {
	path, err := config.Locate(o)
	if err != nil {
		return false, err
	}
	err = config.Edit(path, o.Sections, func(f *config.File) (err error) {
		changed, err = setLogin(f, name, r)
		return err
	})
	return changed, err
}

// setLogin changes the section in the text of the file.
func setLogin(f *config.File, name string, r chat.Result) (changed bool, err error) {
	patch := maps.Clone(r.Patch)
	if patch == nil {
		patch = map[string]any{}
	}

	there, err := f.Get("channels." + strings.ReplaceAll(name, ".", `\.`))
	if err != nil {
		return false, err
	}

	var was struct{ Owners []string }
	if there != nil {
		if err := json.Unmarshal(there, &was); err != nil {
			return false, err
		}
	}

	if r.Owner != "" && !slices.Contains(was.Owners, r.Owner) {
		patch["owners"] = append(was.Owners, r.Owner)
	}

	if there != nil && len(patch) == 0 {
		return false, nil
	}

	section, patch, err := within(f, name, patch)
	if err != nil {
		return false, err
	}

	if there == nil && section == name { // the login is the first that is set up
		patch["enabled"] = true
	}

	text, err := json.Marshal(map[string]any{"channels": map[string]any{section: patch}})
	if err != nil {
		return false, err
	}

	names, err := f.Patch(text)
	return len(names) > 0, err
}

// within is the section that a patch of a channel is written into: its own, or
// the one that holds several accounts.
func within(f *config.File, name string, patch map[string]any) (section string, _ map[string]any, err error) {
	kind, account, _ := strings.Cut(name, ".")
	merge := Channels()[kind].Merge
	if merge == nil {
		return name, patch, nil
	}

	if account != "" {
		if own, err := f.Get("channels." + strings.ReplaceAll(name, ".", `\.`)); err != nil || own != nil {
			return name, patch, err
		}
	}

	text, err := f.Get("channels." + kind)
	if err != nil {
		return name, patch, err
	}
	if merged, ok := merge(text, account, patch); ok {
		return kind, merged, nil
	}
	return name, patch, nil
}

// accounts are those of the running gateway.
type accounts struct {
	*deliver.Manager
	address func(ctx context.Context, r bus.Route) (bus.Route, error)
	send    func(ctx context.Context, out bus.Outbound) error
	file    func() config.Options
	reload  func(ctx context.Context) error
}

// Send keeps a message for a chat until it is delivered.
func (a *accounts) Send(ctx context.Context, out bus.Outbound) (to bus.Route, err error) {
	out.Kind = bus.Message
	if out.Route, err = a.address(ctx, out.Route); err != nil {
		return out.Route, err
	}
	return out.Route, a.send(ctx, out)
}

// Login logs in and writes what that found out into the configuration.
func (a *accounts) Login(ctx context.Context, name string, d chat.Dialog, force bool) (chat.Result, error) {
	result, err := a.Manager.Login(ctx, name, d, force)
	if err != nil {
		return result, err
	}
	changed, err := saveLogin(a.file(), name, result)
	if err == nil && changed {
		err = a.reload(context.WithoutCancel(ctx))
	}
	return result, err
}
