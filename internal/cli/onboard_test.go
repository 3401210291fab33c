package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// shop is a provider: it refuses every key but "k-good" and every model but
// those of its list.
type shop struct {
	list string // body of /models; "" is a small one
}

func (p *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, text string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": text}})
	}
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Header.Get("Authorization") != "Bearer k-good":
		refuse(http.StatusUnauthorized, "Incorrect API key provided")
	case r.Method == http.MethodGet && p.list != "":
		_, _ = io.WriteString(w, p.list)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `{"data":[{"id":"small-1","context_length":32768,"pricing":{"prompt":"0.0000005","completion":"0.000002"}},{"id":"small-2"},{"id":"large-1","context_length":1000000}]}`)
	case !bytes.Contains(body, []byte(`"small-`)) && !bytes.Contains(body, []byte(`"large-`)):
		refuse(http.StatusNotFound, "The model does not exist")
	default:
		(&fakeModel{text: "1 2 3"}).ServeHTTP(w, r)
	}
}

func openShop(t *testing.T, list string) string {
	t.Helper()
	srv := httptest.NewServer(&shop{list: list})
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// onboarded runs a setup with answers from a pipe in a home that may have a
// configuration, and returns its output and what the file is afterwards.
func onboarded(t *testing.T, before string, env []string, answers []string, args ...string) (code int, out, after string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if before != "" {
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdin := strings.Join(append(slices.Clone(answers), ""), "\n")
	env = append(env, "HOME="+dir, "USERPROFILE="+dir, "NANOBOT_NO_KEYRING=1")
	code, out, errOut := runConfig(t, dir, stdin, env, append([]string{"onboard"}, args...)...)
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return code, out + errOut, string(b)
}

// leaf is a value of a configuration file.
func leaf(t *testing.T, file, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(file), &v); err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	for part := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[part]
	}
	return v
}

func TestSetupTriesTheKeyAndOffersModels(t *testing.T) {
	t.Parallel()
	base := openShop(t, "")
	code, out, file := onboarded(t, "", nil, []string{"custom", base, "k-bad", "k-good", "small", "1"}, "--wizard")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{
		"OpenRouter", "GitHub Copilot", "skip", // the short list
		"The server refused the key: Incorrect API key provided",
		"small-1    32k  $0.5 / $2", "large-1     1M", "2 models fit", "Trying small-1", "It answers.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
	for path, want := range map[string]any{
		"agents.defaults.provider": "custom", "agents.defaults.model": "small-1", "providers.custom.apiKey": "k-good",
		"providers.custom.apiBase": base, "agents.defaults.contextWindowTokens": 32768.0, "tools.restrictToWorkspace": true,
	} {
		if got := leaf(t, file, path); got != want {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	}
	if strings.Contains(out, "k-good") || strings.Contains(out, "\x1b") {
		t.Errorf("the output has a key or an escape code:\n%q", out)
	}
}

// An empty answer goes back one step, at every step.
func TestSetupGoesBack(t *testing.T) {
	t.Parallel()
	base := openShop(t, "")
	answers := []string{
		"", "custom", "", // back from the address
		"custom", base, "", // back from the key
		base, "k-good", "", // back from the models
		"k-good", "nosuch", "", // back from the failed trial
		"skip", "", // the server has no usual model; back to the key
		"k-good", "small-2",
	}
	code, out, file := onboarded(t, "", nil, answers, "--wizard")
	if code != 0 || leaf(t, file, "agents.defaults.model") != "small-2" {
		t.Fatalf("exit code %d\n%s\n%s", code, out, file)
	}
	for _, want := range []string{"This is the first step", `does not know the model "nosuch"`, "has no usual model"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output:\n%s", want, out)
		}
	}
}

// Whoever leaves, at any step, finds the configuration as it was.
func TestSetupLeavesEverythingAlone(t *testing.T) {
	t.Parallel()
	base := openShop(t, "")
	answers := []string{"more", "custom", base, "k-bad", "k-good", "small", "nosuch", "again"}
	const before = `{"agents": {"defaults": {"model": "m"}}} // mine`
	for n := range answers {
		for _, file := range []string{"", before} {
			code, out, after := onboarded(t, file, nil, answers[:n], "--wizard")
			if code != 0 || after != file || !strings.Contains(out, "Nothing was changed.") {
				t.Errorf("after %q: exit code %d, file %q\n%s", answers[:n], code, after, out)
			}
		}
	}
}

// The same for a user who does not wait for an answer of the provider: the list
// of models and the trial end with the context, which Ctrl-C cancels.
func TestSetupLeavesDuringRequests(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/models", "/v1/chat/completions"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client leaves
				cancel()
				<-r.Context().Done()
				return
			}
			(&shop{}).ServeHTTP(w, r)
		}))
		t.Cleanup(srv.Close)
		s, out := looking(t, "", "MY_KEY=k-good")
		s.flags = onboardFlags{provider: "custom", base: srv.URL + "/v1", keyEnv: "MY_KEY", model: "small-1"}
		if err := s.run(ctx); !errors.Is(err, errSkipped) {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

func TestSetupByFlags(t *testing.T) {
	t.Parallel()
	base := openShop(t, "")
	shut := httptest.NewServer(http.NotFoundHandler())
	shut.Close()
	env := []string{"MY_KEY=k-good", "BAD_KEY=k-bad", "BROKEN_KEY=k-go\nod"}
	server := "--provider custom --base-url " + base
	for _, c := range []struct {
		name, args string
		code       int
		want       string            // in the output
		file       map[string]string // nil: it is not written
	}{
		{"all of it", server + " --key-env MY_KEY --model small-2", 0, "small-2 answers", map[string]string{
			"agents.defaults.provider": "custom", "agents.defaults.model": "small-2", "providers.custom.apiKey": "${MY_KEY}",
		}},
		{"wrong key", server + " --key-env BAD_KEY --model small-2", exitAuth, "the server refused the key: Incorrect API key provided", nil},
		{"untested", server + " --key-env BAD_KEY --model small-2 --no-test", 0, "", map[string]string{"providers.custom.apiKey": "${BAD_KEY}"}},
		{"no key in the variable", server + " --key-env NO_KEY", exitUsage, "NO_KEY is not set", nil},
		{"a key with a line break", server + " --key-env BROKEN_KEY", exitUsage, "line breaks", nil},
		{"no such model", server + " --key-env MY_KEY --model large", exitFailure, "does not know the model", nil},
		{"no model", server + " --key-env MY_KEY", exitUsage, "--model; it offers large-1, small-1 and 1 more", nil},
		{"unreachable", "--provider custom --base-url " + shut.URL + "/v1 --model m", 0, "cannot be reached", map[string]string{"agents.defaults.model": "m"}},
		{"no provider", "--key-env MY_KEY", exitUsage, "need --provider", nil},
		{"unknown provider", "--provider antropic", exitUsage, "did you mean anthropic?", nil},
		{"no key", "--provider anthropic", exitConfig, "ANTHROPIC_API_KEY", nil},
		{"a sign-in that is not supported", "--provider xai_grok", exitUsage, "not supported yet", nil},
		{"speech", "--provider assemblyai", exitUsage, "unknown provider", nil},
		{"not an address", "--provider custom --base-url house", exitUsage, "is not a base URL", nil},
		{"nothing", "", 0, "Configuration:", map[string]string{"agents.defaults.model": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, file := onboarded(t, "", env, nil, append([]string{"--yes"}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want %d, and %q in the output:\n%s", code, c.code, c.want, out)
			}
			if (file != "") != (c.file != nil) {
				t.Fatalf("the file is %q", file)
			}
			for path, want := range c.file {
				if got, _ := leaf(t, file, path).(string); got != want {
					t.Errorf("%s = %q, want %q", path, got, want)
				}
			}
			if strings.Contains(out+file, "k-good") {
				t.Errorf("the key is in the output or the file:\n%s\n%s", out, file)
			}
		})
	}
}

// A configuration of Python nanobot keeps every value but those that were answered.
func TestSetupKeepsPythonConfiguration(t *testing.T) {
	t.Parallel()
	base := openShop(t, "")
	for _, name := range []string{"v0.1.5.json", "head.json"} {
		b, err := os.ReadFile(filepath.Join("..", "run", "config", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		code, out, after := onboarded(t, string(b), nil, []string{"custom", base, "k-good", "small-1"}, "--wizard")
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s", name, code, out)
		}
		was, is := leaves(t, string(b)), leaves(t, after)
		for path, v := range was {
			switch path {
			case "agents.defaults.model", "agents.defaults.provider", "providers.custom.apiKey", "providers.custom.apiBase":
			default:
				if got, ok := is[path]; !ok || !reflect.DeepEqual(got, v) {
					t.Errorf("%s: %s was %v and is %v", name, path, v, got)
				}
			}
		}
		if len(is) != len(was) || is["agents.defaults.model"] != "small-1" || is["providers.custom.apiKey"] != "k-good" {
			t.Errorf("%s: %d leaves became %d: %v", name, len(was), len(is), is)
		}
	}
}

// leaves are all values of a file by their paths.
func leaves(t *testing.T, file string) map[string]any {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(file), &root); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 {
			out[strings.TrimPrefix(path, ".")] = v
		}
		for k, v := range m {
			walk(path+"."+k, v)
		}
	}
	walk("", root)
	return out
}

// A sign-in is a step like a key, and the next setup finds it.
func TestSetupSignsIn(t *testing.T) {
	t.Parallel()
	tokens, err := url.Parse(codexServer(t))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/accounts/deviceauth/usercode":
			_, _ = io.WriteString(w, `{"device_auth_id":"id","user_code":"WXYZ-1234","interval":"1"}`)
		case "/api/accounts/deviceauth/token":
			_, _ = io.WriteString(w, `{"authorization_code":"pasted-code","code_verifier":"v"}`)
		default:
			httputil.NewSingleHostReverseProxy(tokens).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	env := []string{"NANOBOT_OPENAI_CODEX_AUTH_URL=" + srv.URL, "HOME=" + dir, "USERPROFILE=" + dir, "NANOBOT_NO_KEYRING=1"}
	code, out, errOut := runConfig(t, dir, "codex\ngpt-5.6-terra\n", env, "onboard", "--wizard", "--no-test")
	if code != 0 || !strings.Contains(out, "WXYZ-1234") || !strings.Contains(out, "Signed in to OpenAI Codex") || !strings.Contains(out, "gpt-5.6-sol") {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || leaf(t, string(b), "agents.defaults.provider") != "openai_codex" || leaf(t, string(b), "agents.defaults.model") != "gpt-5.6-terra" {
		t.Errorf("%v\n%s", err, b)
	}
	if _, out, _ := runConfig(t, dir, "", env, "onboard", "--wizard"); !strings.Contains(squeeze(out), "OpenAI Codex you are signed in") {
		t.Errorf("the sign-in is not found:\n%s", out)
	}
}

// looking is a setup whose only model server is at an address, and what it printed.
func looking(t *testing.T, address string, env ...string) (*setup, *printed) {
	t.Helper()
	dir := t.TempDir()
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	out := newPrinted(t)
	c := newProgram(Stdio{Now: time.Now, In: in, Out: out.File, Err: out.File, Env: append(env, "NANOBOT_HOME="+dir, "HOME="+dir, "NANOBOT_NO_KEYRING=1", "OLLAMA_HOST="+address)}, "", "")
	loaded, err := c.home.read()
	if err != nil {
		t.Fatal(err)
	}
	s := c.onboard(c.agent()).newSetup(loaded, onboardFlags{})
	s.surveyTime = time.Minute // of a busy machine
	return s, out
}

// What was found comes first: servers with their models, then keys.
func TestSetupShowsWhatWasFound(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/tags":
			_, _ = io.WriteString(w, `{"models":[{"name":"qwen3:8b","digest":"d"},{"name":"llama3.2:3b","digest":"d"},{"name":"x\u001b[2Jy","digest":"d"}]}`)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"qwen3:8b","owned_by":"library"},{"id":"llama3.2:3b","owned_by":"library"},{"id":"x\u001b[2Jy","owned_by":"library"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	address := strings.TrimPrefix(srv.URL, "http://")
	s, out := looking(t, address, "ANTHROPIC_API_KEY=sk-ant-x", "MINIMAX_API_KEY=m")
	found := s.survey(t.Context())
	m := s.providerMenu(found)
	m.show(out, 100)
	for _, want := range []string{
		"Found: 1 Ollama qwen3:8b, llama3.2:3b at http://" + address, "Anthropic key in ANTHROPIC_API_KEY", "MiniMax key in MINIMAX_API_KEY",
	} {
		if !strings.Contains(squeeze(out.String()), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Count(out.String(), "Anthropic") != 1 || strings.Contains(out.String(), "MiniMax (Anthropic)") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("twice, or hostile:\n%q", out)
	}
	at, _, ok := m.pick("ollama")
	if !ok || at >= len(found) {
		t.Fatalf("ollama is entry %d, %v", at, ok)
	}
	if s.use(found[at]); !s.served || s.base != srv.URL+"/v1" {
		t.Errorf("the server is at %q, found: %v", s.base, s.served)
	}
	if m, err := s.chooseAddress(t.Context()); m != passed || err != nil {
		t.Errorf("asks for the address of a server that was found: %v, %v", m, err)
	}
	if m, err := s.giveKey(t.Context()); m != passed || err != nil {
		t.Errorf("asks for the key of a server that was found: %v, %v", m, err)
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// A server on this machine that streams without end, or lists ten megabytes,
// is not waited for and not shown.
func TestSetupSurvivesHostileServers(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"models":[{"name":"`+strings.Repeat("x", 10<<20)+`","digest":"d"}],"data":[{"id":"`+strings.Repeat("x", 10<<20)+`"}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(serve)
			t.Cleanup(srv.Close)
			s, _ := looking(t, strings.TrimPrefix(srv.URL, "http://"))
			s.surveyTime = time.Second
			for _, d := range s.survey(t.Context()) {
				if d.Base == srv.URL+"/v1" {
					t.Errorf("it is offered: %s", d.about)
				}
			}
		})
	}
}

// A list of ten thousand models is shown in pages and found by typing.
func TestSetupWithManyModels(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	list.WriteString(`{"data":[{"id":"evil\u001b]0;x\u0007"}`)
	for i := range 10_000 {
		fmt.Fprintf(&list, `,{"id":"small-%05d"}`, i)
	}
	list.WriteString("]}")
	code, out, file := onboarded(t, "", nil, []string{"custom", openShop(t, list.String()), "k-good", "more", "0123", "01234"}, "--wizard")
	if code != 0 || leaf(t, file, "agents.defaults.model") != "small-01234" {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if n := strings.Count(out, "\n"); n > 120 || strings.ContainsAny(out, "\x1b\x07") {
		t.Errorf("%d lines of output", n)
	}
	if !strings.Contains(out, " 30  small-00029") || !strings.Contains(out, "9985 more") {
		t.Errorf("no pages:\n%s", out)
	}
}

func TestMenu(t *testing.T) {
	t.Parallel()
	m := newMenu([]item{{name: "openrouter", title: "OpenRouter"}, {name: "openai", title: "OpenAI"}, {name: "openai_codex", title: "OpenAI Codex"}, {name: "groq", title: "Groq"}}, 2, 10, "")
	for _, c := range []struct {
		typed string
		at    int
		found int
		ok    bool
	}{
		{"1", 0, 1, true},
		{"4", 3, 1, true},
		{"openai", 1, 1, true}, // the whole name, although another begins like it
		{"OpenAI-Codex", 2, 1, true},
		{"gro", 3, 1, true},
		{"nothing", 0, 0, false},
		{"open", 0, 3, false}, // narrows
		{"3", 2, 1, true},
		{"4", 0, 0, false}, // of three
	} {
		if at, found, ok := m.pick(c.typed); at != c.at || found != c.found || ok != c.ok {
			t.Errorf("pick(%q) = %d, %d, %v", c.typed, at, found, ok)
		}
	}
}

// No line of a menu is wider than the terminal, and no name is broken.
func TestMenuFits(t *testing.T) {
	t.Parallel()
	s, _ := looking(t, "")
	for _, width := range []int{40, 60, 80, 200} {
		m := s.providerMenu([]discovery{{Status: catalog.Status{Choice: catalog.Choice{Name: "ollama", Row: catalog.Row{Display: "Ollama"}}}, about: strings.Repeat("model ", 40)}})
		for range 2 {
			var out bytes.Buffer
			m.show(&out, width)
			for line := range strings.SplitSeq(out.String(), "\n") {
				if n := len([]rune(line)); n > width {
					t.Errorf("%d columns, not %d: %q", n, width, line)
				}
			}
			m.next()
		}
	}
}

// The answer of a model with a small window leaves room for the question.
func TestSetupOfSmallWindow(t *testing.T) {
	t.Parallel()
	base := openShop(t, `{"data":[{"id":"small-8k","context_length":8192},{"id":"large-1","context_length":1000000}]}`)
	for name, row := range map[string]struct {
		before, model string
		answer        any // nil is the default
	}{
		"small":                    {model: "small-8k", answer: 2048.0},
		"large":                    {model: "large-1"},
		"small, in a written file": {before: `{"agents": {"defaults": {"maxTokens": 16000, "contextWindowTokens": 8192}}}`, model: "small-8k", answer: 2048.0},
		"fits, in a written file":  {before: `{"agents": {"defaults": {"maxTokens": 4000, "contextWindowTokens": 8192}}}`, model: "small-8k", answer: 4000.0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, file := onboarded(t, row.before, []string{"K=k-good"}, nil, "--yes", "--provider", "custom", "--base-url", base, "--key-env", "K", "--model", row.model)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			if got := leaf(t, file, "agents.defaults.maxTokens"); got != row.answer {
				t.Errorf("maxTokens = %v, want %v\n%s", got, row.answer, file)
			}
			if strings.Contains(out, "leaves no room") {
				t.Errorf("warned:\n%s", out)
			}
		})
	}
}
