package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// platform returns the part of a runtime name before the first dot.
func platform(name string) string {
	kind, _, _ := strings.Cut(name, ".")
	return kind
}

// driver finds the driver of a section.
func (m *Manager) driver(name string) (chat.Driver, error) {
	d := m.o.Drivers[platform(name)]
	if d.New == nil {
		return d, chat.UnknownPlatform(platform(name), m.o.Drivers)
	}
	return d, nil
}

// expand makes sections of those that hold several accounts. One that cannot be
// expanded at all stays as it is: its factory says why it cannot be used.
func (m *Manager) expand(sections map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(sections))
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		d := m.o.Drivers[platform(name)]
		if d.Expand == nil {
			out[name] = sections[name]
			continue
		}

		several, err := d.Expand(sections[name])
		if err != nil {
			m.o.Log.Warn("accounts of a section cannot be read", "channel", name, "err", err)
		}
		if several == nil {
			out[name] = sections[name]
		}

		for account, section := range several {
			full := name
			if account != "" {
				full += "." + account
			}
			if _, taken := sections[full]; !taken || account == "" {
				out[full] = section
			}
		}
	}

	return out
}

// claim notes that the section uses an account of its platform. Two sections of
// one account would answer everything twice.
func (s *supervisor) claim(identity string) error {
	if identity == "" {
		return nil
	}

	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()

	key := platform(s.name) + " " + identity
	if other := m.claims[key]; other != "" && other != s.name {
		s.wants = key
		return chat.Fatal(fmt.Errorf("channels.%s is the same account as channels.%s (%s): remove one of the two sections", s.name, other, identity))
	}

	s.wants = ""
	m.claims[key] = s.name
	m.unclaim(s.name, key)
	return nil
}

// unclaim forgets the accounts of a section except one; sections that wait for
// them may try again. A section keeps its account while it is restarted. The
// caller holds the lock.
func (m *Manager) unclaim(name, except string) {
	for key, by := range m.claims {
		if by != name || key == except {
			continue
		}

		delete(m.claims, key)
		for _, s := range m.supervisors {
			if s.wants != key {
				continue
			}
			s.wants = ""
			select {
			case s.freed <- struct{}{}:
			default: // it was told already
			}
		}
	}
}

// forget drops the people of another account.
func (s *supervisor) forget(ctx context.Context, account, before string) error {
	gone, err := s.m.book.Forget(ctx, s.name, account, before)
	if len(gone) > 0 {
		s.log.WarnContext(ctx, "the section is another account now: people who were let in before must pair again", "account", account, "people", gone)
	}
	return err
}

// dir makes the folder of the account.
func (s *supervisor) dir() (string, error) {
	path := datadir.Accounts.In(s.m.o.DataDir, media.FileName(s.name))
	if d := s.m.o.Drivers[platform(s.name)]; d.Folder != "" && s.name == platform(s.name) {
		path = filepath.Join(s.m.o.DataDir, d.Folder)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the account: %w", err)
	}
	return path, os.Chmod(path, 0o700) //nolint:gosec // a folder needs the x
}

// ErrNoLogin says that a channel needs none: its keys stand in the
// configuration.
var ErrNoLogin = errors.New("no login is needed")

// errNoSection comes with an empty section: a login can be the first that is set up.
var errNoSection = errors.New("the configuration has no section")

// account returns a section outside of its channel's life, for a login or a probe.
func (m *Manager) account(name string) (chat.Driver, *supervisor, error) {
	d, err := m.driver(name)
	if err != nil {
		return d, nil, err
	}

	m.mu.Lock()
	s := m.supervisors[name]
	names := slices.Sorted(maps.Keys(m.supervisors))
	m.mu.Unlock()
	section := json.RawMessage("{}")
	if s == nil {
		err = fmt.Errorf("%w channels.%s; there are %s", errNoSection, name, strings.Join(names, ", "))
	} else {
		section = s.section
	}

	apart := newSupervisor(m, name, section)
	return d, apart, errors.Join(err, chat.DecodeCommon(apart.section, &apart.common))
}

// Probe asks the platform of a section whether it works. The section need not
// be enabled.
func (m *Manager) Probe(ctx context.Context, name string) (r chat.Report, err error) {
	d, s, err := m.account(name)
	if err != nil {
		return chat.Report{}, err
	}

	defer recoverPanic(s.log, &err)
	deps := s.deps()
	if _, err := d.New(deps, s.section); err != nil {
		return chat.Report{}, err
	}
	if d.Probe == nil {
		return chat.Report{}, nil
	}

	r, err = d.Probe(ctx, deps, s.section)
	return r, chat.Explain(err)
}

// Login connects a section to an account with a person. The channel does not run
// meanwhile and is started again at the end, whatever came of it. The section
// need not be enabled.
func (m *Manager) Login(ctx context.Context, name string, p chat.Dialog, force bool) (r chat.Result, err error) {
	d, s, err := m.account(name)
	if err != nil && (d.Login == nil || !errors.Is(err, errNoSection)) {
		return chat.Result{}, err
	}

	if d.Login == nil {
		if _, err := s.make(d.New); err != nil {
			return chat.Result{}, err // says which key is missing
		}
		return chat.Result{}, fmt.Errorf("%s: %w", name, ErrNoLogin)
	}

	err = m.without(ctx, name, func() (err error) {
		defer recoverPanic(s.log, &err)
		r, err = d.Login(ctx, s.deps(), s.section, p, force)
		return err
	})
	return r, err
}

// Logout makes a section forget its account.
func (m *Manager) Logout(ctx context.Context, name string) error {
	d, s, err := m.account(name)
	if err != nil {
		return err
	}
	if d.Logout == nil {
		return fmt.Errorf("%s keeps its keys in the configuration (%w): remove them, or set enabled to false", name, ErrNoLogin)
	}
	return m.without(ctx, name, func() (err error) {
		defer recoverPanic(s.log, &err)
		return d.Logout(ctx, s.deps(), s.section)
	})
}

// Restart stops a channel and starts it again, also one that gave up.
func (m *Manager) Restart(ctx context.Context, name string) error {
	if _, _, err := m.account(name); err != nil {
		return err
	}
	return m.without(ctx, name, func() error { return nil })
}

// without does something while a channel does not run.
func (m *Manager) without(ctx context.Context, name string, do func() error) error {
	m.mu.Lock()
	if m.away[name] {
		m.mu.Unlock()
		return fmt.Errorf("%s is being logged in or restarted already", name)
	}

	m.away[name] = true
	running := m.running
	m.mu.Unlock()

	if !running {
		defer m.back(name, func(*supervisor) {})
		return do()
	}

	stop := func(context.Context) []error {
		m.mu.Lock()
		s := m.supervisors[name]
		m.mu.Unlock()
		if s != nil {
			stopAll(s)
		}
		return nil
	}

	err := errors.Join(m.during(ctx, stop)...)
	if err == nil {
		err = do()
	}

	start := func(life context.Context) []error {
		return m.back(name, func(s *supervisor) { s.start(life) })
	}
	return errors.Join(append(m.during(context.WithoutCancel(ctx), start), err)...)
}

// back makes the channel of a section again and begins it.
func (m *Manager) back(name string, begin func(*supervisor)) []error {
	m.mu.Lock()
	defer m.mu.Unlock()

	delete(m.away, name)
	old := m.supervisors[name]
	if old == nil {
		return nil // the section was removed meanwhile
	}

	s := m.build(name, old.section)
	m.supervisors[name] = s
	m.route()
	if s.ch == nil {
		m.unclaim(name, "")
	}

	begin(s)
	if s.broken != nil {
		return []error{fmt.Errorf("channel %s: %w", name, s.broken)}
	}
	return nil
}
