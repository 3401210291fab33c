package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

func transcribeOf(t *testing.T, settings string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"config.json": settings, "note.oga": "sound", "cat.txt": "words"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, told := newPrinted(t), newPrinted(t)
	c := newProgram(Stdio{Now: time.Now, Out: out.File, Err: told.File, Env: []string{"NANOBOT_HOME=" + dir, "HOME=" + dir}}, "", "")
	cmd := build(t, c, "transcribe")
	cmd.SetOut(out)
	cmd.SetErr(out)
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "DIR", dir)
	}
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), told.String(), err
}

func TestTranscribe(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer test-key" || r.FormValue("language") == "xx" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"text":"`+r.FormValue("model")+" "+r.FormValue("language")+`"}`)
	}))
	t.Cleanup(srv.Close)
	settings := `{"transcription":{"provider":"silicon","model":"m1","language":"fr","maxUploadMb":1},
		"providers":{"siliconflow":{"apiKey":"test-key","apiBase":"` + srv.URL + `/v1"},"openai":{"apiBase":"` + srv.URL + `","apiKey":"test-key"}}}`
	for _, tt := range []struct {
		name     string
		settings string
		args     []string
		want     string
		code     int
	}{
		{"as configured", settings, []string{"DIR/note.oga"}, "m1 fr\n", exitOK},
		{"json", settings, []string{"--json", "DIR/note.oga"}, `"provider": "siliconflow"`, exitOK},
		{"flags win", settings, []string{"--provider", "openai", "--language", "de", "DIR/note.oga"}, "whisper-1 de\n", exitOK},
		{"refused", settings, []string{"--language", "xx", "DIR/note.oga"}, "", exitAuth},
		{"no key", `{}`, []string{"DIR/note.oga"}, "", exitConfig},
		{"unknown provider", settings, []string{"--provider", "parrot", "DIR/note.oga"}, "", exitConfig},
		{"not audio", settings, []string{"DIR/cat.txt"}, "", exitFailure},
		{"no such file", settings, []string{"DIR/gone.ogg"}, "", exitFailure},
		{"no argument", settings, nil, "", exitUsage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, told, err := transcribeOf(t, tt.settings, tt.args...)
			code := exitOK
			if err != nil {
				code = exitCode(err)
			}
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q, err %v", code, tt.code, out, told, err)
			}
			if code == exitConfig && !strings.Contains(told, "nanobot: ") {
				t.Errorf("nothing was told: %q", told)
			}
			if e, ok := errors.AsType[*llm.Error](err); ok && e.Provider == "" {
				t.Errorf("the error names no provider: %v", err)
			}
		})
	}
	if _, ok := speech.Canonical("parrot"); ok {
		t.Error("parrot is a provider")
	}
}
