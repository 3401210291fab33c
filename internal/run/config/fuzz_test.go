package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad feeds any text: it must end in a configuration or in an *Error that
// quotes no value, never in a panic, and what loads must survive an edit.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		"", "{}", "\xef\xbb\xbf{}", "[", "{\"a\":", "{\"agents\":{\"defaults\":{\"maxTokens\":1e999}}}", "{} //", "{}/*",
		"{\"tools\":{\"exec\":{\"restrictToWorkspace\":1,},\"my_set\":[]}}", "{\"channels\":{\"a\":[{\"b_c\":[1]}]}}",
		"{\"providers\":{\"A\":{},\"a\":{\"apiKey\":\"${X:-${Y:-$${Z}}}\"}}}", "{\"modelPresets\":{\"x\":{}},\"modelPresets\":1}",
		"{\"agents\":{\"defaults\":{\"dream\":{\"model\":1}, // c\n\"fallbackModels\":[\"a\",{\"model\":\"\"}]}}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &Loaded{File: "config.json", state: &state{home: "/home"}}
		err := l.build(Options{Env: []string{"X=1", "NANOBOT_API__PORT=5", "NANOBOT_CHANNELS__A__B_C=7"}}, data)
		if err == nil {
			if !json.Valid(l.Show(false)) || !json.Valid(l.Show(true)) {
				t.Error("what is shown is not JSON")
			}
			for _, section := range rootPlace(nil).names() {
				if _, err := l.Explain(section); err != nil {
					t.Errorf("Explain(%s): %v", section, err)
				}
			}
		} else if strings.Contains(err.Error(), "hujson") {
			t.Errorf("the parser's own words are shown: %v", err)
		}
		doc, err := parse("config.json", data)
		if err != nil {
			return
		}
		file := &File{path: "config.json", doc: doc}
		before := string(file.Text())
		file.before = file.judge([]byte(before))
		if err := file.SetValue("gateway.port", 7); err != nil {
			return
		}
		if _, err := parse("config.json", file.Text()); err != nil {
			t.Fatalf("an edit broke the file: %v\n%q\n%q", err, before, file.Text())
		}
		if raw, err := file.Get("gateway.port"); err != nil || string(raw) != "7" {
			t.Errorf("Get after Set = %s, %v in %q", raw, err, file.Text())
		}
		if found, err := file.Unset("gateway.port"); err != nil || !found {
			t.Errorf("Unset after Set = %v, %v in %q", found, err, file.Text())
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	small := filepath.Join(b.TempDir(), "config.json")
	if err := os.WriteFile(small, []byte(`{"providers": {"anthropic": {"apiKey": "${K}"}}, "agents": {"defaults": {"model": "m"}}, "tools": {"restrictToWorkspace": true, "exec": {"sandbox": "auto"}}}`), 0o600); err != nil {
		b.Fatal(err)
	}
	env := append(os.Environ(), "K=k", "NANOBOT_API__PORT=9")
	for name, file := range map[string]string{"small": small, "dump": filepath.Join("testdata", "head.json")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(Options{Path: file, Env: env, Home: "/home"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
