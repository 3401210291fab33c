package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard"
)

// closedKeyring takes nothing, so that keys are kept in files.
type closedKeyring struct{}

var errClosed = errors.New("closed")

func (closedKeyring) Get(context.Context, string, string) (string, error) { return "", errClosed }
func (closedKeyring) Set(context.Context, string, string, string) error   { return errClosed }
func (closedKeyring) Delete(context.Context, string, string) error        { return errClosed }
func (closedKeyring) Limit() int                                          { return 1 << 10 }

// Only keys of the owner are stored, and only what no person typed for a model
// keeps them.
func TestVaultKeepsKeysOfTheOwner(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90Kl12-Mn34Op_QAA"
	for name, tt := range map[string]struct {
		in     bus.Inbound
		note   string // part of it; "" is none
		shown  bool   // the key stays in the text
		stored bool
	}{
		"owner":     {in: bus.Inbound{}, note: "providers.anthropic.apiKey", stored: true},
		"guest":     {in: bus.Inbound{Scope: guest}, note: "kept nowhere"},
		"forwarded": {in: bus.Inbound{Untrusted: true}},
		"shell":     {in: bus.Inbound{Shell: true}, shown: true},
		"event":     {in: bus.Inbound{Event: "subagent_result"}, shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, secrets := t.TempDir(), &httpsafe.Registry{}
			v := guard.NewVault(keyring.Options{DataDir: dir, System: closedKeyring{}}, secrets, slog.New(slog.DiscardHandler))
			in := tt.in
			in.Text = "use " + key + " please"
			out, note := v.Clean(in)
			if strings.Contains(out.Text, key) != tt.shown {
				t.Errorf("the text is %q", out.Text)
			}
			if (note != "") != (tt.note != "") || !strings.Contains(note, tt.note) || strings.Contains(note, key) {
				t.Errorf("the note is %q, want %q in it", note, tt.note)
			}
			files, err := filepath.Glob(filepath.Join(dir, "secrets", "typed-*"))
			if err != nil || (len(files) == 1) != tt.stored {
				t.Errorf("stored: %q, %v", files, err)
			}
			// A tool that comes across it later does not show it either.
			if hidden := !strings.Contains(secrets.Redact("found "+key), key); hidden != tt.stored {
				t.Errorf("redacted later: %v", hidden)
			}
			if _, again := v.Clean(in); tt.stored && again != "" {
				t.Errorf("the note is repeated: %q", again)
			}
		})
	}
}

// Keys in what was said before are taken out of the message alone: the history
// still belongs to its client.
func TestVaultCleansTheHistory(t *testing.T) {
	t.Parallel()
	const key = "ghp_4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5rT"
	v := guard.NewVault(keyring.Options{DataDir: t.TempDir(), System: closedKeyring{}}, &httpsafe.Registry{}, slog.New(slog.DiscardHandler))
	said := []bus.Said{{Role: bus.RoleUser, Text: "earlier " + key}}
	out, note := v.Clean(bus.Inbound{Text: "go on", History: said})
	if len(out.History) != 1 || strings.Contains(out.History[0].Text, key) || note != "" {
		t.Errorf("%+v, %q", out.History, note)
	}
	if said[0].Text != "earlier "+key {
		t.Errorf("the client's history was changed: %q", said[0].Text)
	}
}

// A reply to a message with a key quotes the key.
func TestVaultCleansQuotes(t *testing.T) {
	t.Parallel()
	const key = "ghp_4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5rT"
	v := guard.NewVault(keyring.Options{DataDir: t.TempDir(), System: closedKeyring{}}, &httpsafe.Registry{}, slog.New(slog.DiscardHandler))
	quoted := []bus.Quote{{Text: "use " + key}}
	out, note := v.Clean(bus.Inbound{Text: "did that work?", Quoted: quoted})
	if len(out.Quoted) != 1 || strings.Contains(out.Quoted[0].Text, key) || note != "" {
		t.Errorf("%+v, %q", out.Quoted, note)
	}
	if quoted[0].Text != "use "+key {
		t.Errorf("the message of the caller was changed: %q", quoted[0].Text)
	}
}
