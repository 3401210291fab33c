package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// placeholder is what testdata/python/generate.py writes for a person.
const placeholder = "x-allow-from"

// The configuration that Python nanobot writes loads as it is and without a
// warning: with all sections at their defaults, with another value for every
// setting and every channel switched on, and with the names of Python's fields.
// The files are made by testdata/python/generate.py with the version that the
// folder names.
func TestPythonConfig(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.1.5", "0.3.5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			files := map[string]*config.Loaded{}
			for _, name := range []string{"default", "filled", "snake"} {
				l := loadPython(t, filepath.Join("testdata", "python", version, name+".json"))
				files[name] = l
				for _, w := range l.Warnings {
					if strings.Contains(w.String(), placeholder) {
						continue // no platform has such an id, and a person would want to know
					}
					t.Errorf("%s: %s", name, w)
				}
			}
			filled := channelSections(t, files["filled"])
			if d := cmp.Diff(filled, channelSections(t, files["snake"])); d != "" {
				t.Errorf("sections with other names (-camelCase +snake_case):\n%s", d)
			}

			states, err := gateway.CheckChannels(files["filled"])
			if err != nil {
				t.Fatal(err)
			}
			on := map[string]bool{}
			for _, s := range states {
				on[s.Name] = s.Enabled && s.Error == ""
			}
			for name := range filled {
				if !on[name] {
					t.Errorf("%s would not start: %+v", name, states)
				}
			}
		})
	}
}

// loadPython is a configuration as our commands load and check it.
func loadPython(t *testing.T, file string) *config.Loaded {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	path := filepath.Join(home, "config.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Options{Path: path, Home: home, Sections: gateway.Sections(nil)})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := CheckSettings(l, false); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return l
}

// channelSections are those of the platforms.
func channelSections(t *testing.T, l *config.Loaded) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, c := range l.Config.Channels.Each {
		var v any
		if err := json.Unmarshal(c.Raw.JSON(), &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}
