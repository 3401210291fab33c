package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// A host that was allowed for good is in the configuration file once, beside those
// that are there, and the previous version of the file is kept.
func TestAllowHost(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "config.json")
	if err := os.WriteFile(file, []byte(`{"tools":{"exec":{"allowedHosts":["mine.example.org"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	from := config.Options{Home: home, Env: []string{"NANOBOT_HOME=" + home}}
	l, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}

	allow := policyOf(l).AllowHost
	for range 2 {
		if err := allow(t.Context(), "kept.example.com"); err != nil {
			t.Fatal(err)
		}
	}

	l, err = config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Config.Tools.Exec.AllowedHosts; !slices.Equal(got, []string{"mine.example.org", "kept.example.com"}) {
		t.Errorf("the configuration has %v", got)
	}
	if copies, err := config.Backups(file); err != nil || len(copies) != 1 {
		t.Errorf("copies %v, %v", copies, err)
	}
}

// All ports that a configuration names are closed to commands, also those of
// another process.
func TestListeningPorts(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Home: t.TempDir(), Env: []string{}, Text: []byte(`{
		"api": {"port": 2}, "gateway": {"port": 3}, "channels": {"mochat": {"port": 4, "hook": {"listenPort": 5}, "retries": 6}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	ports := policyOf(l).Ports()
	slices.Sort(ports)
	if !slices.Equal(ports, []uint16{2, 3, 4, 5}) {
		t.Errorf("got the ports %v", ports)
	}
}
