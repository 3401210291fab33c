package subject

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Checks look at the installation.
type Checks interface {
	// Run looks at everything and reports each finding as it comes. Network says
	// whether models, MCP servers and chat platforms may be asked.
	Run(ctx context.Context, network bool, found func(Finding))
	// Fix makes the changes of a finding, if they are still the same.
	Fix(ctx context.Context, id string, changes []string) (fixed bool, err error)
	// Bundle writes a file for people who help, in a new folder.
	Bundle(ctx context.Context) (file string, err error)
}

// Finding is what one check found.
type Finding struct {
	ID      string   `json:"id"`
	State   string   `json:"state"` // ok, warn, fail or skip
	Detail  string   `json:"detail"`
	Fix     string   `json:"fix,omitempty"`     // what a person can do about it
	Changes []string `json:"changes,omitempty"` // what doctor.fix does, if it can
}

// Checkup is the last run of the checks. It is safe for concurrent use.
type Checkup struct {
	Checks  Checks             // nil: nothing looks at the installation
	Secrets *httpsafe.Registry // they are taken out of what is found, and what looks like one
	// Life is how long the checks may go on, nil at the end; Go starts them.
	Life func() context.Context
	Go   func(func())
	Feed web.Feed

	mu       sync.Mutex
	running  bool
	network  bool
	started  time.Time
	findings []Finding
}

// Routes implements web.Subject.
func (c *Checkup) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"doctor": c.read, "doctor/bundle": c.bundle},
		Actions: map[string]web.Action{"doctor.run": web.Changing(c.run), "doctor.fix": web.Changing(c.fix)},
	}
}

func (c *Checkup) read(context.Context, *http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]any{"running": c.running, "network": c.network, "findings": append([]Finding{}, c.findings...)}
	if !c.started.IsZero() {
		out["started_at"] = c.started.UTC()
	}
	return out, nil
}

// run starts the checks, unless they run already.
func (c *Checkup) run(_ context.Context, payload json.RawMessage) (any, error) { //nolint:contextcheck // the checks go on when the page is closed
	var in struct {
		Network bool `json:"network"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	life := c.Life()
	if c.Checks == nil || life == nil {
		return nil, web.Refuse(http.StatusServiceUnavailable, "the checks cannot run now; try: nanobot doctor")
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.running {
		return struct{}{}, nil
	}

	c.running = true
	c.network = in.Network
	c.started = time.Now()
	c.findings = nil
	c.Go(func() {
		defer c.change(func() { c.running = false })
		c.Checks.Run(life, in.Network, func(f Finding) {
			f.Detail, f.Fix = c.Secrets.Scrub(f.Detail), c.Secrets.Scrub(f.Fix)
			c.change(func() { c.findings = append(c.findings, f) })
		})
	})
	return struct{}{}, nil
}

func (c *Checkup) change(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.Feed.Publish(web.TopicDoctor, nil)
}

// bundle returns a file for people who help.
func (c *Checkup) bundle(ctx context.Context, _ *http.Request) (any, error) {
	if c.Checks == nil {
		return nil, web.Refuse(http.StatusServiceUnavailable, "the checks cannot run now; try: nanobot doctor")
	}
	return served(ctx, "application/zip", c.Checks.Bundle)
}

// fix makes the changes that a page has shown.
func (c *Checkup) fix(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID      string   `json:"id"`
		Changes []string `json:"changes"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	c.mu.Lock()
	known := slices.ContainsFunc(c.findings, func(f Finding) bool {
		return f.ID == in.ID && len(f.Changes) > 0 && slices.Equal(f.Changes, in.Changes)
	})
	c.mu.Unlock()
	fixed := false
	if known {
		var err error
		if fixed, err = c.Checks.Fix(ctx, in.ID, in.Changes); err != nil {
			return nil, web.Refuse(http.StatusUnprocessableEntity, "this cannot be fixed: %v", err)
		}
	}

	if !fixed {
		return nil, web.Refuse(http.StatusConflict, "this finding has changed; run the checks again")
	}

	c.change(func() {
		c.findings = slices.DeleteFunc(c.findings, func(f Finding) bool { return f.ID == in.ID && slices.Equal(f.Changes, in.Changes) })
	})
	return struct{}{}, nil
}
