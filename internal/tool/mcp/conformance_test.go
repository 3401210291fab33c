package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// notOffered are the scenarios that fail, and why; docs/how-to/mcp.md says so, too.
func notOffered() map[string]string {
	return map[string]string{
		"elicitation-sep1034-client-defaults": "servers cannot ask the user questions",
		"auth/client-credentials-jwt":         "client credentials are an id and a secret",
		"auth/cross-app-access-complete-flow": "there are no logins through an identity provider of a company",
	}
}

// The client part of the public conformance suite passes, except what is not
// offered. The suite is a program for Node.js, so it runs only if its command
// is given: make mcp-suite.
func TestConformanceSuite(t *testing.T) {
	t.Parallel()
	suite := strings.Fields(os.Getenv("NANOBOT_MCP_SUITE"))
	if len(suite) == 0 {
		t.Skip("NANOBOT_MCP_SUITE is not set; see make mcp-suite")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, suite[0], slices.Concat(suite[1:], args)...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	list, err := run("list", "--client")
	if err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	seen := 0
	for line := range strings.Lines(list) {
		scenario, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			continue
		}
		scenario, _, _ = strings.Cut(scenario, " ")
		seen++
		out, err := run("client", "--command", self, "--scenario", scenario)
		why := notOffered()[scenario]
		switch {
		case err == nil && why != "":
			t.Errorf("%s passes, but is listed as not offered: %s", scenario, why)
		case err != nil && why == "":
			t.Errorf("%s: %v\n%s", scenario, err, out)
		case why != "":
			t.Logf("%s: not offered: %s", scenario, why)
		default:
			t.Logf("%s: passed", scenario)
		}
	}
	if seen < 20 {
		t.Errorf("the suite lists %d scenarios:\n%s", seen, list)
	}
}

// conformanceClient is a client for the public conformance suite: it logs in
// where that is asked for, with a browser that agrees to everything, and calls
// every tool. The suite judges by what its servers see.
func conformanceClient(scenario, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &given); err != nil {
			return err
		}
	}
	s := Server{Name: "suite", Type: StreamableHTTP, URL: address, Client: Client{ID: given.ID, Secret: httpsafe.NewSecret(given.Secret)}}
	switch {
	case scenario == "auth/basic-cimd": // a client whose id is the address of its description
		s.Auth, s.Client.ID = WithLogin, "https://conformance-test.local/client-metadata.json"
	case strings.HasPrefix(scenario, "auth/client-credentials"):
		s.Auth, s.Client.Alone = withClient, true
	case strings.HasPrefix(scenario, "auth/"):
		s.Auth = WithLogin
	}
	dir, err := os.MkdirTemp("", "mcp-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	auth, err := NewOAuth(OAuthOptions{
		Store:   disk.Open(dir, nil),
		Clients: map[string]Client{s.Name: s.Client},
	})
	if err != nil {
		return err
	}
	c := &conformance{auth: auth, server: s}
	return c.run(ctx)
}

type conformance struct {
	auth   *OAuth
	server Server
}

func (c *conformance) run(ctx context.Context) error {
	if c.server.Auth == WithLogin {
		if err := c.login(ctx); err != nil {
			return err
		}
	}
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is told already
		}
	}
	pool, err := New(Options{Servers: []Server{c.server}, Auth: c.auth, Version: "1", Patient: true, Changed: tell})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = pool.Run(ctx) }) // ends with ctx

	tools, before := pool.Tools(ctx)
	if pool.Status()[0].State == PendingLogin {
		if err := c.login(ctx); err != nil {
			return err
		}
		pool.Retry(c.server.Name)
		late := time.After(10 * time.Second)
		for now, waiting := before, true; waiting && now == before; {
			select {
			case <-changed:
			case <-late:
				waiting = false
			}
			tools, now = pool.Tools(ctx)
		}
	}
	if st := pool.Status()[0]; st.State != Ready {
		return fmt.Errorf("the server is %s: %s", st.State, st.Error)
	}
	for _, t := range tools {
		res, err := c.call(ctx, t)
		if err != nil {
			return err
		}
		if res.IsError {
			return fmt.Errorf("%s failed: %.200q", t.Name, res.Content.String())
		}
	}
	return nil
}

// call calls a tool, and once more after a login if it says that it needs one.
func (c *conformance) call(ctx context.Context, t tool.Tool) (tool.Result, error) {
	set, err := tool.NewSet(t)
	if err != nil {
		return tool.Result{}, err
	}
	args := "{}"
	if strings.HasSuffix(t.Name, "add_numbers") {
		args = `{"a":5,"b":3}`
	}
	t, input, bad := set.Prepare(t.Name, args)
	if bad != nil {
		return *bad, nil
	}
	res, err := tool.Execute(ctx, t, tool.Call{Name: t.Name, Input: input}, slog.New(slog.DiscardHandler))
	if err != nil || !strings.Contains(res.Content.String(), "nanobot mcp login") {
		return res, err
	}
	if err := c.login(ctx); err != nil {
		return res, err
	}
	return tool.Execute(ctx, t, tool.Call{Name: t.Name, Input: input}, slog.New(slog.DiscardHandler))
}

func (c *conformance) login(ctx context.Context) error {
	var wg sync.WaitGroup
	var browsing error
	_, err := c.auth.Login(ctx, c.server.Name, c.server.URL, LoginOptions{ShowAddress: func(address string) {
		wg.Go(func() { browsing = browse(ctx, address) })
	}})
	wg.Wait()
	return errors.Join(err, browsing)
}

// browse opens an address like a browser.
func browse(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}
