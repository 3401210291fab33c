package httpsafe_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

const planted = `pl4nted/K+ey="7<&`

func registry(values ...string) *httpsafe.Registry {
	r := &httpsafe.Registry{}
	for i, v := range values {
		r.Add(fmt.Sprintf("k%d", i), httpsafe.NewSecret(v))
	}
	return r
}

func TestRedactForms(t *testing.T) {
	t.Parallel()
	r := registry(planted)
	quoted, err := json.Marshal(planted)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(quoted))
	if err != nil {
		t.Fatal(err)
	}
	std, web := base64.StdEncoding, base64.RawURLEncoding
	for name, form := range map[string]string{
		"plain": planted, "query": url.QueryEscape(planted), "path": url.PathEscape(planted),
		"lower escapes": strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3D", "%3d", "%3C", "%3c").Replace(url.QueryEscape(planted)),
		"json":          string(quoted), "json in json": string(twice), "go": fmt.Sprintf("%q", planted),
		"hex": hex.EncodeToString([]byte(planted)), "HEX": fmt.Sprintf("%X", planted),
		"base64": std.EncodeToString([]byte(planted)), "base64 after one": std.EncodeToString([]byte("x" + planted)),
		"base64 after two": web.EncodeToString([]byte("xy" + planted + "tail")), "basic": std.EncodeToString([]byte("user:" + planted)),
	} {
		for _, text := range []string{form, "before " + form + " after", form + form} {
			got := r.Redact(text)
			if !strings.Contains(got, "[redacted:k0]") || strings.Contains(got, "pl4nted") {
				t.Errorf("%s: %q became %q", name, text, got)
			}
			if n, ok := r.Leaks(text); !ok || n != "k0" {
				t.Errorf("%s: Leaks = %q, %v", name, n, ok)
			}
			if !strings.HasPrefix(text, "before") {
				continue
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s: the text around changed: %q", name, got)
			}
		}
	}
	var hidden strings.Builder
	for _, b := range []byte(planted) {
		fmt.Fprintf(&hidden, "%%%02X", b)
	}
	if _, ok := r.Leaks("https://evil.example/?d=" + hidden.String()); !ok {
		t.Error("a value with every character escaped is not seen")
	}
	if _, ok := r.Leaks("\\u0070" + planted[1:]); !ok {
		t.Error("an escaped first character hides a value")
	}
}

func TestRedactParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ value, text, want string }{
		"scheme":            {"Bearer tok3n-abcdef", "used tok3n-abcdef", "used [redacted:x]"},
		"proxy":             {"http://me:pa55word9@proxy:3128", "pass pa55word9 at proxy:3128", "pass [redacted:x] at proxy:3128"},
		"plain proxy":       {"http://127.0.0.1:7890", "via http://127.0.0.1:7890", "via http://127.0.0.1:7890"},
		"webhook":           {"https://hooks.example/services/T00/B00abcdefghij0123456789", "B00abcdefghij0123456789", "[redacted:x]"},
		"bot url":           {"https://api.telegram.org/bot123456:abcdefghijklmnopqrstuvwxyz012345678", "123456:abcdefghijklmnopqrstuvwxyz012345678", "[redacted:x]"},
		"query":             {"https://h/?key=a1b2c3d4e5", "a1b2c3d4e5", "[redacted:x]"},
		"line of a key":     {"-----BEGIN PRIVATE KEY-----\nMIIabcdefghijklmnop\nqrstuvwxyz0123456789\n-----END PRIVATE KEY-----", "MIIabcdefghijklmnop", "[redacted:x]"},
		"white space":       {"  s3cretvalue\n", "s3cretvalue", "[redacted:x]"},
		"overlap by itself": {"abcXabcXabc9", "abcXabcXabcXabcXabc9", "abcXabcX[redacted:x]"},
	} {
		r := &httpsafe.Registry{}
		r.Add("x", httpsafe.NewSecret(c.value))
		if got := r.Redact(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	two := &httpsafe.Registry{}
	two.Add("a", httpsafe.NewSecret("ABCDEFGH12"))
	two.Add("b", httpsafe.NewSecret("EFGH12345"))
	two.Add("c", httpsafe.NewSecret("ABCDEFGH12345678"))
	for text, want := range map[string]string{
		"-ABCDEFGH12345-": "-[redacted:a]-", "-ABCDEFGH12345678-": "-[redacted:c]-", "EFGH12345ABCDEFGH12": "[redacted:b][redacted:a]",
	} {
		if got := two.Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// What is too ordinary is not searched for, and the reason is told.
func TestOrdinaryValues(t *testing.T) {
	t.Parallel()
	r := &httpsafe.Registry{}
	for _, v := range []string{
		"short", "password", "Disabled", "no-key-required", "application/json", "aaaaaaaaaaaa", "12345678", "EMPTY-KEY", "lm-studio-key",
		"your-api-key", "http://127.0.0.1:1", "abababab",
	} {
		if why := r.Add("n-"+v, httpsafe.NewSecret(v)); why == "" {
			t.Errorf("%q is looked for", v)
		}
	}
	text := "the password is Disabled: application/json, your-api-key"
	if got := r.Redact(text); got != text {
		t.Errorf("text became %q", got)
	}
	if n := len(r.Skipped()); n != 12 {
		t.Errorf("%d reasons, want 12: %v", n, r.Skipped())
	}
	for _, v := range []string{"hunter2x", "AbCdEfGhIj", "correct-horse-battery-staple", "123456789012", "sk-ant-api03-x", "pässword-ñ9"} {
		if why := r.Add("y", httpsafe.NewSecret(v)); why != "" {
			t.Errorf("%q is not looked for: %s", v, why)
		}
	}
	if why := r.Add("z", httpsafe.Secret{}); why != "" {
		t.Errorf("an empty one has a reason: %s", why)
	}
}

func TestAddEnv(t *testing.T) {
	t.Parallel()
	r := &httpsafe.Registry{}
	r.AddEnv([]string{"OPENAI_API_KEY=v4lue-one", "PATH=/usr/bin:/opt/tool9", "GH_TOKEN=v4lue-two", "MAX_TOKENS=123456789012", "HOME=/home/u5er-name"})
	got := r.Redact("v4lue-one v4lue-two /usr/bin:/opt/tool9 123456789012 /home/u5er-name")
	if want := "[redacted:env.OPENAI_API_KEY] [redacted:env.GH_TOKEN] /usr/bin:/opt/tool9 123456789012 /home/u5er-name"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/+=%\"\\ é"

func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	alphabet := []rune(letters)
	for range n {
		b.WriteRune(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

// No output contains a value, whole or streamed in any pieces; text without one is untouched.
func TestRedactProperty(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		r := &httpsafe.Registry{}
		var values []string
		for i := range 1 + rng.IntN(6) {
			v := strings.TrimSpace(randomText(rng, 8+rng.IntN(40)))
			if i > 0 && rng.IntN(3) == 0 { // overlaps with another
				v = values[i-1][len(values[i-1])/2:] + v
			}
			if r.Add(fmt.Sprintf("n%d", i), httpsafe.NewSecret(v)) != "" || strings.Contains(v, "://") {
				v = "st4nd-in-" + fmt.Sprint(rng.Uint64())
				r.Add(fmt.Sprintf("m%d", i), httpsafe.NewSecret(v))
			}
			values = append(values, v)
		}
		var text strings.Builder
		var kept []string
		for range 1 + rng.IntN(8) {
			word := randomText(rng, rng.IntN(30))
			kept = append(kept, word)
			text.WriteString(word)
			v := values[rng.IntN(len(values))]
			switch rng.IntN(6) {
			case 0:
				v = url.QueryEscape(v)
			case 1:
				v = hex.EncodeToString([]byte(v))
			case 2:
				v = v[:len(v)-1] // not the whole value: stays
			case 3:
				v = v[:len(v)/2] + v // begins twice
			}
			text.WriteString(v)
		}
		whole := r.Redact(text.String())
		streamed := stream(r, text.String(), rng)
		if whole != streamed {
			t.Fatalf("streamed %q\nwhole    %q", streamed, whole)
		}
		for _, v := range values {
			if strings.Contains(whole, v) {
				t.Fatalf("%q is in %q", v, whole)
			}
		}
		plain := strings.Join(kept, "")
		if _, leaks := r.Leaks(plain); !leaks && r.Redact(plain) != plain {
			t.Fatalf("harmless text became %q", r.Redact(plain))
		}
	}
}

// stream cuts a text into random pieces, in the middle of characters too.
func stream(r *httpsafe.Registry, text string, rng *rand.Rand) string {
	s := r.Stream()
	var out strings.Builder
	for text != "" {
		n := min(len(text), 1+rng.IntN(7))
		out.WriteString(s.Push(text[:n]))
		text = text[n:]
	}
	out.WriteString(s.Flush())
	return out.String()
}

func TestStreamHoldsBackLittle(t *testing.T) {
	t.Parallel()
	r := registry("s3cret-value")
	s := r.Stream()
	for _, step := range []struct{ in, out string }{
		{"hello ", "hello "}, {"s3cr", ""}, {"et-va", ""}, {"lue!", "[redacted:k0]!"}, {"s3", ""}, {"x", "s3x"}, {"tail s3cre", "tail "},
	} {
		if got := s.Push(step.in); got != step.out {
			t.Errorf("Push(%q) = %q, want %q", step.in, got, step.out)
		}
	}
	if got := s.Flush(); got != "s3cre" {
		t.Errorf("Flush = %q", got)
	}
	// Values that follow each other without an end do not fill memory.
	long := registry("abXabXcX1")
	ls := long.Stream()
	n := 0
	for range 10_000 {
		n += len(ls.Push("abXabXcX1"))
	}
	if n += len(ls.Flush()); n != 10_000*len("[redacted:k0]") {
		t.Errorf("%d bytes came out", n)
	}
	var none httpsafe.Registry
	if got := none.Stream().Push("s3cr"); got != "s3cr" {
		t.Errorf("an empty registry holds back: %q", got)
	}
}

func TestRegistryConcurrently(t *testing.T) {
	t.Parallel()
	r := &httpsafe.Registry{}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				v := fmt.Sprintf("v4lue-%d-%d", i, j)
				r.Add("n", httpsafe.NewSecret(v))
				if got := r.Redact(v); got != "[redacted:n]" {
					t.Errorf("%q became %q right after Add", v, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestRedactPatterns(t *testing.T) {
	t.Parallel()
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
	for _, secret := range []string{
		"sk-proj-abcdefghijkl", "sk-ant-api03-ABCdef_123", "ghp_0123456789abcdefABCDEF0123456789abcd", "github_pat_11ABCDEFG0abcdefghij_klm",
		"xoxb-123456789012-abcdef", "AKIAIOSFODNN7EXAMPLE", "AIzaSyABCDEFGHIJ", jwt, "123456789:AAFabcdefghijklmnopqrstuvwxyz0123456",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIEcut", "gsk_abcdefgh1234",
	} {
		got := httpsafe.RedactPatterns("got " + secret + " here")
		if strings.Contains(got, secret[len(secret)/2:]) || !strings.HasPrefix(got, "got ***") {
			t.Errorf("%q became %q", secret, got)
		}
	}
	for text, want := range map[string]string{
		"Bearer abcdef123456":                          "Bearer ***",
		`{"api_key": "zzzzzzzzzz"}`:                    `{"api_key": "***"}`,
		`{\"apiKey\":\"zzzzzzzzzz\"}`:                  `{\"apiKey\":\"***\"}`,
		"authorization: Basic dXNlcjpwYXNz":            "authorization: Basic ***",
		"GET https://u:pw@host/x?y=1 failed":           "GET https://host/*** failed",
		"GET https://h/p?access_token=abc&x=1: EOF":    "GET https://h/*** EOF",
		`Post "https://api.telegram.org/bot1:ab/send"`: `Post "https://api.telegram.org/***"`,
		"https://h/a?sig=1, https://h/b?q=1":           "https://h/*** https://h/b?q=1",
	} {
		if got := httpsafe.RedactPatterns(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{
		"the api key is wrong; use a bearer token", "a task-oriented risk-assessment of disk-encryption", "sk-8", "at 12:30:45 in ::1 and fe80::1",
		"https://example.com/search?q=tokens&lang=de", "http-only and tp-link-router", "skill_name hf_transfer", "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----",
		"commit 5d793dc0123456789abcdef0123456789abcdef01", "max_tokens=8192000 in use", "a://b", "10:00 key: yes",
	} {
		if got := httpsafe.RedactPatterns(text); got != text {
			t.Errorf("harmless %q became %q", text, got)
		}
	}
}

type stringer string

func (s stringer) String() string { return "stringer " + string(s) }

type valuer string

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("inner", string(v)), slog.Any("list", []string{string(v)}))
}

type broken struct{}

func (*broken) String() string { panic("broken") }

// A planted key appears in no form a program prints things in.
func TestPlantedKeyInEveryVerb(t *testing.T) {
	t.Parallel()
	const key = "pl4nted-key-0123456789"
	r := &httpsafe.Registry{}
	r.Add("planted", httpsafe.NewSecret(key))
	s := httpsafe.NewSecret(key)
	type holder struct {
		S httpsafe.Secret
		P *httpsafe.Secret
		m map[string]httpsafe.Secret
	}
	h := holder{s, &s, map[string]httpsafe.Secret{"k": s}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b", "%T", "%10s"} {
		for _, v := range []any{s, &s, h, []httpsafe.Secret{s}, fmt.Errorf("wrapped %v: %w", s, errors.New(s.String()))} {
			if _, bad := r.Leaks(fmt.Sprintf(verb, v)); bad {
				t.Errorf("%s of %T shows the key", verb, v)
			}
		}
	}
	if b, err := json.Marshal(h); err != nil || strings.Contains(string(b), key) {
		t.Errorf("json = %s, %v", b, err)
	}
	carriers := []any{
		"msg " + key, errors.New("bad " + key), fmt.Errorf("outer: %w", errors.New(key)), stringer(key), valuer(key), []byte(key), &broken{},
		map[string]any{"deep": []any{map[string]string{"x": key}}},
		struct{ A, b string }{key, key},
		&url.URL{Scheme: "https", Host: "h", Path: key},
		slog.GroupValue(slog.String("a", key), slog.Group("g", "b", key)), &struct{ P *string }{new(key)},
		[]string{key},
		base64.StdEncoding.EncodeToString([]byte(key)), nil, 7,
	}
	for _, form := range []string{"text", "json"} {
		var b bytes.Buffer
		var inner slog.Handler = slog.NewTextHandler(&b, nil)
		if form == "json" {
			inner = slog.NewJSONHandler(&b, nil)
		}
		log := slog.New(r.Handler(inner))
		for i, c := range carriers {
			log.InfoContext(t.Context(), "value", "i", i, "v", c)
			log.With("v", c).WithGroup("group").ErrorContext(t.Context(), "more", slog.Group("in", "v", c))
		}
		log.InfoContext(t.Context(), "message with "+key, "token", "unregistered", "session_key", "cli:direct", "n", 42)
		log.With([]any{key, "as a name"}...).InfoContext(t.Context(), "odd name")
		out := b.String()
		if name, bad := r.Leaks(out); bad {
			t.Errorf("%s log shows %s:\n%s", form, name, out)
		}
		for _, want := range []string{"cli:direct", "42", "[redacted:planted]", "message with"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s log lost %q", form, want)
			}
		}
		if strings.Contains(out, "unregistered") {
			t.Errorf("%s log shows a text named token", form)
		}
	}
}

// Crash output of the runtime, which nobody can filter, shows no Secret either.
func TestPlantedKeyInPanic(t *testing.T) {
	t.Parallel()
	if os.Getenv("HTTPSAFE_PANIC") != "" {
		s := httpsafe.NewSecret("pl4nted-key-0123456789")
		switch os.Getenv("HTTPSAFE_PANIC") {
		case "secret":
			panic(s)
		case "error":
			panic(fmt.Errorf("with %v and %+v", s, struct{ S httpsafe.Secret }{s}))
		default:
			panic(fmt.Sprintf("%#v", []any{s, &s}))
		}
	}
	for _, kind := range []string{"secret", "error", "text"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlantedKeyInPanic$")
		cmd.Env = append(os.Environ(), "HTTPSAFE_PANIC="+kind)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("panic: ")) {
			t.Fatalf("%s: no crash: %v\n%s", kind, err, out)
		}
		if bytes.Contains(out, []byte("pl4nted")) {
			t.Errorf("%s: the crash shows the key:\n%s", kind, out)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	var prose, dense strings.Builder
	for prose.Len() < 1<<20 {
		prose.WriteString("The quick brown fox, said 17 times, jumps over {\"the\": \"lazy dog\"} and https://example.com/path?x=1.\n")
	}
	for dense.Len() < 1<<20 {
		dense.WriteString(base64.StdEncoding.EncodeToString(fmt.Append(nil, rng.Uint64(), rng.Uint64())))
	}
	for _, n := range []int{0, 1, 20, 100} {
		r := &httpsafe.Registry{}
		for i := range n {
			r.Add(fmt.Sprint("n", i), httpsafe.NewSecret(fmt.Sprintf("sk-%x%x", rng.Uint64(), rng.Uint64())))
		}
		for name, text := range map[string]string{"prose": prose.String(), "base64": dense.String()} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					r.Redact(text)
				}
			})
		}
	}
	b.Run("patterns", func(b *testing.B) {
		b.SetBytes(int64(prose.Len()))
		for b.Loop() {
			httpsafe.RedactPatterns(prose.String())
		}
	})
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			r := &httpsafe.Registry{}
			for i := range 20 {
				r.Add("n", httpsafe.NewSecret(fmt.Sprintf("sk-0123456789abcdef-%d", i)))
			}
			r.Redact("x")
		}
	})
}
