package doctor

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// doctored examines a configuration.
func doctored(t *testing.T, cfg string, offline bool, env ...string) (o app.Options, d *Diagnosis, dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Env = append(env, "HOME="+dir, "PATH=/nowhere")
	o.Config = config.Options{Path: file, Env: o.Env}
	o.Workspace = filepath.Join(dir, "ws")
	return o, Examine(t.Context(), o, offline), dir
}

func symptom(t *testing.T, d *Diagnosis, id string) Symptom {
	t.Helper()
	for _, s := range d.Symptoms {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("nothing about %s in %+v", id, d.Symptoms)
	return Symptom{}
}

// No credential gets into a bundle, wherever it stands.
func TestBundleHoldsNoKeys(t *testing.T) {
	t.Parallel()
	const key, password, fromEnv = "sk-ant-api03-Pl4ntedKeyPl4ntedKeyPl4nted-99", "Tr0ub4dor&3-horse", "gsk_EnvEnvEnvEnvEnvEnvEnvEnvEnvEnv12"
	cfg := `{"providers": {"anthropic": {"apiKey": "` + key + `"}}, "channels": {"email": {"enabled": false, "imapPassword": "` + password + `"}}}`
	o, d, dir := doctored(t, cfg, true, "GROQ_API_KEY="+fromEnv)
	log := filepath.Join(dir, "logs", "gateway.log")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, `{"n":%d,"msg":"%s %s %s Bearer abcdefghijklmnopqrstuvwxyz0123456789"}`+"\n", i, key, password, fromEnv)
	}
	if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	d.add(Symptom{ID: "x", Detail: "the key is " + key})
	file := filepath.Join(dir, "b.zip")
	if err := d.WriteBundle(file, d.Report("dev", nil), o.Env); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name] = string(data)
		for _, secret := range []string{key, password, fromEnv, "abcdefghijklmnopqrstuvwxyz0123456789"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds %s", f.Name, secret)
			}
		}
	}
	if n := strings.Count(got["gateway.log"], "\n"); n != bundleLines || !strings.Contains(got["gateway.log"], `"n":999`) {
		t.Errorf("%d lines of the log", n)
	}
	for _, name := range []string{"doctor.json", "config.json", "version.json"} {
		if got[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	if err := d.WriteBundle(file, Report{}, o.Env); err == nil {
		t.Error("a file was overwritten")
	}
}

func TestDoctorAsksTheModel(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
	}))
	defer srv.Close()
	cfg := fmt.Sprintf(`{"agents":{"defaults":{"model":"custom/m","provider":"custom"}},"providers":{"custom":{"apiBase":%q,"apiKey":"wrong-key-1234567"}}}`, srv.URL+"/v1")
	_, d, _ := doctored(t, cfg, false)
	if s := symptom(t, d, "model"); s.State != Broken || s.Fix == "" || strings.Contains(s.Detail, "wrong-key") {
		t.Errorf("got %+v", s)
	}
	_, d, _ = doctored(t, cfg, true)
	if s := symptom(t, d, "model"); s.State != Skipped {
		t.Errorf("offline: %+v", s)
	}
}

func TestDoctorFindsPortAndProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, d, _ := doctored(t, `{"gateway":{"port":`+port+`}}`, true, "HTTPS_PROXY=%%", "HTTP_PROXY=127.0.0.1:1")
	if s := symptom(t, d, "port"); s.State != Doubt || !strings.Contains(s.Fix, "gateway.port") {
		t.Errorf("port: %+v", s)
	}
	if s := symptom(t, d, "proxy.HTTPS_PROXY"); s.State != Broken {
		t.Errorf("proxy: %+v", s)
	}
	if s := symptom(t, d, "proxy.HTTP_PROXY"); s.State != Skipped {
		t.Errorf("proxy: %+v", s)
	}
	env := app.Getenv([]string{"HTTP_PROXY=127.0.0.1:1", "https_proxy=http://" + l.Addr().String()})
	got := proxySymptoms(t.Context(), env, false)
	if len(got) != 2 || got[0].State != Well || got[1].State != Broken {
		t.Errorf("got %+v", got)
	}
}

func TestDoctorFixes(t *testing.T) {
	t.Parallel()
	_, d, dir := doctored(t, "{}", true)
	done, err := d.Fix()
	if err != nil || len(done) == 0 {
		t.Fatalf("fixed %v, %v", done, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "ws")); err != nil || !info.IsDir() {
		t.Errorf("the workspace is not there: %v", err)
	}
}

func TestTailFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "l")
	for text, want := range map[string]string{"": "", "a\n": "a\n", "a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := tailFile(file, 2)
		if text == "" {
			err = nil
		}
		if err != nil || strings.TrimPrefix(string(got), "a\n") != strings.TrimPrefix(want, "a\n") {
			t.Errorf("tail of %q = %q, %v", text, got, err)
		}
	}
}
