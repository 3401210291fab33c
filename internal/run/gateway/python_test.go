package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// The section that Python nanobot writes for a platform, of its first and its
// newest version, loads as it is: no key is unknown and no value has the wrong
// form. The files are what default_config of each channel returned.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/python/*/*.json")
	if err != nil || len(files) < 29 {
		t.Fatalf("%d sections, %v", len(files), err)
	}
	for _, file := range files {
		version, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name+" "+version, func(t *testing.T) {
			t.Parallel()
			driver, ok := Channels()[name]
			if !ok {
				t.Skipf("the platform %s is not there yet", name)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range []func(string) string{func(s string) string { return s }, snakeCase} {
				raw := loadSection(t, name, renamed(t, data, form))
				if err := chat.Decode(raw, driver.Options()); err != nil {
					t.Errorf("%v in %s", err, raw)
				}
			}
		})
	}
}

// loadSection is a section as the configuration hands it to its platform.
func loadSection(t *testing.T, name string, section json.RawMessage) json.RawMessage {
	t.Helper()
	home := t.TempDir()
	file, err := json.Marshal(map[string]any{"channels": map[string]any{name: section}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "config.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Options{Path: path, Home: home, Sections: Sections(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return sections(l)[name]
}

// renamed is a section with other names of its keys, also of those inside.
func renamed(t *testing.T, data json.RawMessage, form func(string) string) json.RawMessage {
	t.Helper()
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || object == nil {
		return data
	}
	out := map[string]json.RawMessage{}
	for k, v := range object {
		out[form(k)] = renamed(t, v, form)
	}
	back, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// snakeCase is a name as Python's own fields have it.
func snakeCase(s string) string {
	var out strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
