package llmtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

//go:embed testdata/conformance
var caseFiles embed.FS

// Case is one conformance case: a conversation with a server that behaves in
// a particular way. Cases are files named NN-wire-what.txtar; the comment says
// what is shown, and the sections, in this order, are
//
//	setup    (optional) JSON of Setup
//	request  (optional, repeated) JSON of what is asked; without one, a plain question
//	answer   (any number) one HTTP answer: head lines, a blank line, the body
//	want     JSON of what must come out; it ends a step, and another may follow
//
// Head lines of an answer are "status N", "frames" (the body is lines of
// Converse frames), "quoted" (the body is Go strings, one per line, without
// what is between them), "hold" (the stream stays open), "abort" (the
// connection breaks), "refuse" (there is no server), "every D" (wait before
// each line of the body) or "Header: value". ${c*N} in any of them
// stands for N times the character c, and ${now+D} for the HTTP date D later.
type Case struct {
	Number int
	Name   string // file name without the ending
	Wire   string // chat, strm, msgs, resp, bedr, err, oauth, loop (the tool loop)
	Title  string
	Setup  Setup
	Steps  []Exchange
}

// Setup is how the model of a case is made. A driver's test applies Quirks,
// Idle and Chat; the decorators are put around it by Conformance.
type Setup struct {
	// Brand names a row of the catalog.
	Brand string
	// Idle is how long the server may be silent; "" leaves the default.
	Idle string
	// Local puts the server on this machine.
	Local bool
	// Chat lets a Responses driver fall back to Chat Completions.
	Chat bool
	// Through lists decorators, innermost first: retry, persistent, fallback.
	Through []string
	// SignIn is for the cases of the wire "oauth".
	SignIn SignIn
}

// SignIn is how the account of a case behaves.
type SignIn struct {
	Polls []string // what the provider says before it gives the token
	Token string   // "expired" or "revoked": the stored token at the start
	Calls int      // calls made at once
	State string   // what the browser comes back with
}

// IdleTimeout is Idle as a duration, 0 if there is none.
func (s Setup) IdleTimeout() time.Duration {
	d, _ := time.ParseDuration(s.Idle)
	return d
}

// Quirks returns those of the brand.
func (s Setup) Quirks() wire.Quirks {
	r, _ := catalog.Lookup(s.Brand) // without a brand there are none
	return r.Quirks
}

// Exchange is one request of a case, the answers it meets and what comes of it.
type Exchange struct {
	Request Ask
	Answers []string
	Want    Want
}

// Ask is a request. Missing parts are those of the step before, or of a plain
// question with the tools f and g.
type Ask struct {
	Model       string
	System      string
	Messages    []llm.Message
	Continue    []llm.Message // after the history and the answer so far
	Tools       []string
	ToolChoice  string
	MaxTokens   int
	Effort      string
	Temperature *float64
	// After waits before the request; CancelAt cancels it at the first text.
	After  string
	Cancel bool
}

// Want holds what a step must come to. Absent parts are not compared.
type Want struct {
	Text      *string
	Reasoning *string // "absent" is a keyword for no reasoning at all
	Calls     *[]WantCall
	Finish    llm.Finish
	Runs      *bool // whether the calls may be executed
	Usage     *llm.Usage
	Error     *WantError
	// Events is the order of kinds: T text, t thought, W waiting, R restarted,
	// D done; repeated deltas count once.
	Events string
	// Waits are times that Waiting events must mention.
	Waits []string
	// Requests is how many requests the server has seen so far, At when they
	// were made.
	Requests *int
	At       []string
	Paths    []string // the last part of each request's path so far
	// Sent and NotSent are parts of the newest request's body.
	Sent    []string
	NotSent []string
	// Header holds headers of the newest request.
	Header map[string]string
}

// WantCall is a tool call. Args is compared after parsing, Raw as it is. ID is
// "?" for one that was made up: nine characters, unlike all others.
type WantCall struct {
	ID    string
	Name  string
	Args  json.RawMessage
	Raw   string
	Error string // "cut" or "shape": why it must not run
	Extra map[string]json.RawMessage
}

// WantError is a failed request.
type WantError struct {
	Kind       llm.Kind
	Status     int
	Code       string
	Retryable  *bool
	FallsBack  *bool
	Limit      int // the context window it names
	RetryAfter string
	Says       []string
	Hides      []string
	Canceled   bool // the context's error instead of an *llm.Error
}

// Cases returns the cases of a wire, in order.
func Cases(tb testing.TB, wire string) []Case {
	tb.Helper()
	files, err := caseFiles.ReadDir("testdata/conformance")
	if err != nil {
		tb.Fatal(err)
	}

	var out []Case
	for _, f := range files {
		data, err := caseFiles.ReadFile("testdata/conformance/" + f.Name())
		if err != nil {
			tb.Fatal(err)
		}

		c, err := parseCase(f.Name(), data)
		if err != nil {
			tb.Fatalf("%s: %v", f.Name(), err)
		}
		if wire == "" || c.Wire == wire {
			out = append(out, c)
		}
	}

	return out
}

func parseCase(file string, data []byte) (Case, error) {
	name := strings.TrimSuffix(path.Base(file), ".txtar")
	parts := strings.SplitN(name, "-", 3)
	if len(parts) != 3 {
		return Case{}, fmt.Errorf("the name is not NN-wire-what")
	}

	n, err := strconv.Atoi(strings.TrimRight(parts[0], "abcdefgh"))
	if err != nil {
		return Case{}, err
	}

	ar := txtar.Parse(data)
	c := Case{Number: n, Name: name, Wire: parts[1], Title: strings.TrimSpace(string(ar.Comment))}
	step := Exchange{}
	for _, f := range ar.Files {
		switch f.Name {
		case "setup":
			err = strictJSON(f.Data, &c.Setup)
		case "request":
			err = strictJSON([]byte(expand(string(f.Data))), &step.Request)
		case "answer":
			step.Answers = append(step.Answers, string(f.Data))
		case "want":
			err = strictJSON([]byte(expand(string(f.Data))), &step.Want)
			c.Steps = append(c.Steps, step)
			step = Exchange{}
		default:
			err = fmt.Errorf("unknown section")
		}
		if err != nil {
			return c, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}

	if len(c.Steps) == 0 || c.Title == "" {
		return c, fmt.Errorf("no title or no want")
	}
	return c, nil
}

// strictJSON reads field names without regard to case and rejects unknown ones.
func strictJSON(data []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

var macros = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(?:(.)\*(\d+)|now\+(\w+))\}`) })

func expand(s string) string {
	return macros().ReplaceAllStringFunc(s, func(m string) string {
		p := macros().FindStringSubmatch(m)
		if p[3] != "" {
			d, _ := time.ParseDuration(p[3])
			return time.Now().Add(d).UTC().Format(http.TimeFormat)
		}
		n, _ := strconv.Atoi(p[2])
		return strings.Repeat(p[1], n)
	})
}

// parseAnswer reads an answer section.
func parseAnswer(raw string) (Answer, error) {
	a := Answer{Header: http.Header{}}
	head, body, _ := strings.Cut("\n"+raw, "\n\n")
	body = expand(body)
	var pause time.Duration
	for line := range strings.Lines(head) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "":
		case "status":
			a.Status, err = strconv.Atoi(rest)
		case "frames":
			a.ContentType, body = "application/vnd.amazon.eventstream", ConverseFrames(body)
		case "quoted":
			body, err = unquote(body)
		case "hold":
			a.Hold = make(chan struct{})
		case "abort":
			a.Abort = true
		case "refuse":
			a.Refuse = true
		case "every":
			pause, err = time.ParseDuration(rest)
		default:
			key, ok := strings.CutSuffix(word, ":")
			if !ok {
				err = fmt.Errorf("unknown head line %q", line)
			}
			a.Header.Set(key, expand(rest))
		}

		if err != nil {
			return a, err
		}
	}

	if t := a.Header.Get("Content-Type"); t != "" {
		a.ContentType = t
	} else if a.ContentType == "" && (strings.HasPrefix(body, "data:") || strings.HasPrefix(body, "event:") || strings.HasPrefix(body, ":")) {
		a.ContentType = "text/event-stream"
	}

	a.Body = body
	if pause > 0 {
		a.Handler = slowly(a, pause)
	}
	return a, nil
}

func unquote(body string) (string, error) {
	var out strings.Builder
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s, err := strconv.Unquote(line)
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		out.WriteString(s)
	}

	return out.String(), nil
}

// slowly writes the lines of a body with a pause before each.
func slowly(a Answer, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", a.ContentType)
		w.WriteHeader(http.StatusOK)
		tick := time.NewTicker(pause)
		defer tick.Stop()

		for line := range strings.Lines(a.Body) {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			if _, err := w.Write([]byte(line)); err != nil {
				return
			}
		}
	}
}
