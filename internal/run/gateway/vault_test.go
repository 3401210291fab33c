package gateway_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/backup"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// typed are keys as people paste them.
func typed() []string {
	return []string{
		"sk-ant-api03-Ab12Cd34Ef56Gh78Ij90Kl12-Mn34Op_QAA", "ghp_4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5rT", "123456789:AAE4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5",
		"AIzaSyA4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7", "AKIA4FJK29SLMQ0PZX7R", "glpat-4fJk29sLmQ0pZx7Rt5Yb",
	}
}

// grepped lists the files below dir that hold one of the keys, the store of
// keys aside.
func grepped(t *testing.T, dir string, keys []string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go
		}
		if strings.Contains(path, string(filepath.Separator)+"secrets"+string(filepath.Separator)) {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // the same
		}
		for _, k := range keys {
			if bytes.Contains(b, []byte(k[6:])) {
				found = append(found, path+" holds "+k[:8])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A key that the owner types is neither shown to the model nor kept anywhere
// but in a file for keys: not in the queue, which is on disk when the message is
// taken, not in the conversation, and not in a backup.
func TestTypedKeysAreKeptApart(t *testing.T) {
	t.Parallel()
	keys := typed()
	var mu sync.Mutex
	var asked strings.Builder
	begun, free := make(chan struct{}, 64), make(chan struct{})
	script := llmtest.NewScript(t)
	script.Otherwise = func(req llm.Request) llmtest.Step {
		mu.Lock()
		for _, m := range req.Messages {
			asked.WriteString(m.Content.String() + "\n")
		}
		mu.Unlock()
		begun <- struct{}{}
		<-free
		return llmtest.Reply("echo fine")
	}
	h := running(t, script)
	h.must(h.party.write(t, "ann", "1", "please use this key: "+keys[0]))
	if found := grepped(t, h.dir, keys); len(found) > 0 {
		t.Errorf("as soon as the message was taken: %q", found)
	}
	note := h.party.hear(t, "looks like an API key")
	if !strings.Contains(note.Text, "providers.anthropic.apiKey '${keyring:typed-") || strings.Contains(note.Text, keys[0]) {
		t.Errorf("the note says %q", note.Text)
	}
	<-begun
	for i, k := range keys[1:] { // these join the turn or wait
		h.must(h.party.write(t, "ann", "k"+string(rune('a'+i)), "and "+k+" too"))
	}
	if found := grepped(t, h.dir, keys); len(found) > 0 { // as a kill at this moment would leave it
		t.Errorf("in the middle of a turn: %q", found)
	}
	close(free)
	h.party.hear(t, "echo fine")
	// Somebody who asks over HTTP or in a terminal comes another way.
	noted := false
	for out, err := range h.g.Ask(t.Context(), bus.Inbound{
		ID: "x", Route: bus.Route{Channel: "api", ChatID: "x"}, Text: "my token: " + keys[1], At: time.Now(), SessionKey: "api:x",
		History: []bus.Said{{Role: bus.RoleUser, Text: "earlier " + keys[2]}},
	}) {
		h.must(err)
		noted = noted || strings.Contains(out.Text, "looks like an API key")
	}
	if noted {
		t.Error("the same key was told about twice")
	}
	h.must(h.end())
	if found := grepped(t, h.dir, keys); len(found) > 0 {
		t.Errorf("at the end: %q", found)
	}
	mu.Lock()
	for _, k := range keys {
		if strings.Contains(asked.String(), k[6:]) {
			t.Errorf("the model saw %s", k)
		}
	}
	if !strings.Contains(asked.String(), "[redacted:key]") {
		t.Errorf("the model was asked %q", asked.String())
	}
	mu.Unlock()

	list, err := filepath.Glob(filepath.Join(h.dir, "secrets", "typed-*"))
	if err != nil || len(list) != len(keys) {
		t.Errorf("stored: %q, %v", list, err)
	}
	for _, path := range list {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	loaded, err := config.Load(config.Options{Home: h.dir, Env: []string{"NANOBOT_HOME=" + h.dir}})
	h.must(err)
	file := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Create(t.Context(), file, backup.Options{Config: loaded, Workspace: filepath.Join(h.dir, "workspace"), Now: time.Now()})
	h.must(err)
	packed, err := os.ReadFile(file)
	h.must(err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	h.must(err)
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		h.must(err)
		b, err := io.ReadAll(r)
		h.must(err)
		for _, k := range keys {
			if bytes.Contains(b, []byte(k[6:])) {
				t.Errorf("the backup has %s in %s", k, head.Name)
			}
		}
	}
}
