package kit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const restToken = "token-of-the-bot"

// refusedError is what the API of these tests says no with.
type refusedError struct {
	status int
	text   string
	after  time.Duration
}

func (e *refusedError) Error() string { return fmt.Sprintf("refused: %d %s", e.status, e.text) }

// judge reads {"result": ..., "error": "..."}.
func judge(a kit.Answer) (json.RawMessage, error) {
	var said struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	switch err := json.Unmarshal(a.Body, &said); {
	case err != nil:
		return nil, a.Foreign("the API")
	case said.Error != "" || !a.OK():
		return nil, &refusedError{a.Status, a.Hide(said.Error), a.Pause()}
	}
	return said.Result, nil
}

// newREST makes calls to a server that answers with serve.
func newREST(t *testing.T, serve http.HandlerFunc) *kit.REST {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	client, err := httpsafe.Client(httpsafe.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &kit.REST{
		Client: client,
		Base:   server.URL + "/api",
		Token:  kit.Static(httpsafe.NewSecret(restToken)),
		Sign:   func(req *http.Request, token string) { req.Header.Set("X-Token", token) },
		Judge:  judge,
		Most:   100,
	}
}

// What an answer means is said by Judge; what cannot be read is never a refusal.
func TestRESTAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   string // the result, or the error
	}{
		"a result":                         {body: `{"result": "done"}`, want: "done"},
		"a refusal with status 200":        {body: `{"error": "no"}`, want: "refused: 200 no"},
		"a refusal with its status":        {status: 404, body: `{"error": "no"}`, want: "refused: 404 no"},
		"a proxy on the way":               {status: 502, body: `<html>`, want: "GET /thing: HTTP status 502 without an answer of the API"},
		"nothing":                          {want: "GET /thing: HTTP status 200 without an answer of the API"},
		"a result of another kind":         {body: `{"result": 7}`, want: "GET /thing: the answer is not as expected: json: cannot unmarshal number into Go value of type string"},
		"a result of 100 bytes":            {body: `{"result": "` + strings.Repeat("x", 86) + `"}`, want: strings.Repeat("x", 86)},
		"a result that is too long":        {body: `{"result": "` + strings.Repeat("x", 87) + `"}`, want: "GET /thing: the answer is too large: over 100 bytes"},
		"a refusal that is too long":       {status: 502, body: strings.Repeat("x", 1000), want: "GET /thing: HTTP status 502 without an answer of the API"},
		"a refusal that repeats the token": {status: 401, body: `{"error": "bad ` + restToken + `"}`, want: "refused: 401 bad ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path != "/api/thing" || q.URL.Query().Get("id") != "7" || q.Header.Get("X-Token") != restToken {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				_, _ = io.WriteString(w, c.body)
			})
			var got string
			err := r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/thing?id=7"}, &got)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(c.want, "too large") && !errors.Is(err, media.ErrTooLarge) {
				t.Errorf("%v is not media.ErrTooLarge", err)
			}
		})
	}
}

// How long a platform asks to wait is read in seconds, from the first header that says it.
func TestAnswerPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers map[string]string
		want    time.Duration
	}{
		"not said":               {nil, 0},
		"seconds":                {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"a part of a second":     {map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond},
		"the first header":       {map[string]string{"Retry-After": "7", "X-Reset": "9"}, 7 * time.Second},
		"the second header":      {map[string]string{"Retry-After": "soon", "X-Reset": "9"}, 9 * time.Second},
		"in the past":            {map[string]string{"Retry-After": "-7"}, 0},
		"not a number":           {map[string]string{"Retry-After": "NaN"}, 0},
		"never":                  {map[string]string{"Retry-After": "Inf"}, time.Hour},
		"longer than a duration": {map[string]string{"Retry-After": "99999999999999999999"}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := kit.Answer{Header: http.Header{}}
			for k, v := range c.headers {
				a.Header.Set(k, v)
			}
			if got := a.Pause("Retry-After", "X-Reset"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// An error shows neither the address nor the token, which may be a part of it.
func TestRESTHidesAddresses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kit.REST){
		"an address that is not one": func(r *kit.REST) { r.Base = "http://[::1" },
		"a server that is not there": func(r *kit.REST) { r.Base = "http://127.0.0.1:1" },
		"an error with the token": func(r *kit.REST) {
			r.Client = &http.Client{Transport: failing(func(q *http.Request) error { return errors.New("cannot reach " + q.URL.Path) })}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newREST(t, func(http.ResponseWriter, *http.Request) {})
			change(r)
			err := r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/bot" + restToken + "/say", Name: "say"}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "say: ") || strings.Contains(err.Error(), restToken) || strings.Contains(err.Error(), "say/") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

type failing func(q *http.Request) error

func (f failing) RoundTrip(q *http.Request) (*http.Response, error) { return nil, f(q) }

// A redirect to another origin would hand over the token.
func TestRESTRefusesRedirects(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(other.Close)
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, other.URL+"/secret", http.StatusTemporaryRedirect)
	})
	err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: kit.JSON("x")}, nil)
	if err == nil || err.Error() != "POST /thing: redirect to another origin refused" {
		t.Errorf("the error is %v", err)
	}
	if reached.Load() {
		t.Error("the other server was asked")
	}
}

// At another place of the same server the whole body is sent again, files too.
func TestRESTFollowsRedirects(t *testing.T) {
	t.Parallel()
	var bodies []string
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/api/old" {
			http.Redirect(w, q, "/api/new", http.StatusTemporaryRedirect)
			return
		}
		file, head, err := q.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		data, err := io.ReadAll(file)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, q.FormValue("chat")+" "+head.Filename+" "+string(data))
		_, _ = io.WriteString(w, `{"result": 1}`)
	})
	const content = "content"
	form := kit.NewForm()
	form.Field("chat", "c1")
	form.File("file", "a.txt", strings.NewReader(content), int64(len(content)))
	if err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/old", Body: form.Body()}, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(bodies, "|"); got != "c1 a.txt content" {
		t.Errorf("the server got %q", got)
	}
}

// A call that takes too long says how long it may take; one that is given up says that.
func TestRESTEnds(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	r := newREST(t, func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		<-q.Context().Done()
	})
	r.Within = 20 * time.Millisecond
	err := r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/thing"}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "GET /thing: no answer within 20ms" {
		t.Errorf("after the limit the error is %v", err)
	}
	<-asked

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	err = r.Do(ctx, kit.Call{Method: http.MethodGet, Path: "/thing", Within: time.Minute}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context the error is %v", err)
	}
}

// A token that is over is replaced once, and the call made again as it was.
func TestRESTReplacesToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		good string // the token that the server takes
		want string // what it was asked with
		err  string
	}{
		"the first token is good": {good: "t1", want: "t1 x"},
		"the next one is":         {good: "t2", want: "t1 x|t2 x"},
		"none is":                 {want: "t1 x|t2 x", err: "refused: 401 over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
				token := q.Header.Get("X-Token")
				var body string
				if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				asked = append(asked, token+" "+body)
				if token != c.good {
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, `{"error": "over"}`)
					return
				}
				_, _ = io.WriteString(w, `{}`)
			})
			r.Token = func(_ context.Context, refused string) (string, error) {
				if refused == "" {
					return "t1", nil
				}
				return "t2", nil
			}
			r.Stale = func(err error) bool {
				e, ok := errors.AsType[*refusedError](err)
				return ok && e.status == http.StatusUnauthorized
			}
			err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: kit.JSON("x")}, nil)
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			if got := strings.Join(asked, "|"); got != c.want {
				t.Errorf("asked with %q, want %q", got, c.want)
			}
		})
	}
}

// Without a token nothing is asked.
func TestRESTWithoutToken(t *testing.T) {
	t.Parallel()
	r := newREST(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	noToken := errors.New("no token")
	r.Token = func(context.Context, string) (string, error) { return "", noToken }
	if err := r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/thing"}, nil); !errors.Is(err, noToken) {
		t.Errorf("the error is %v", err)
	}
}

// What cannot be written as JSON is not sent.
func TestRESTBadBody(t *testing.T) {
	t.Parallel()
	r := newREST(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: kit.JSON(make(chan int))}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "POST /thing: json: ") {
		t.Errorf("the error is %v", err)
	}
}

// A file is handed on while it arrives, whatever its size; what is not the file is judged.
func TestRESTOpen(t *testing.T) {
	t.Parallel()
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/api/file":
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		case "/api/said":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"error": "no file"}`)
		case "/api/odd":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"result": 1}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error": "gone"}`)
		}
	})
	r.Holds = func(res *http.Response) bool {
		return res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") != "application/json"
	}
	res, err := r.Open(t.Context(), kit.Call{Method: http.MethodGet, Path: "/file"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err != nil || len(data) != 1000 {
		t.Errorf("read %d bytes, %v", len(data), err)
	}
	_ = res.Body.Close()

	for path, want := range map[string]string{
		"/gone": "refused: 404 gone",
		"/said": "refused: 200 no file",
		"/odd":  "GET /odd: HTTP status 200 and not what was asked for",
	} {
		res, err := r.Open(t.Context(), kit.Call{Method: http.MethodGet, Path: path})
		if err == nil {
			_ = res.Body.Close()
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", path, err, want)
		}
	}
}

// The head of every answer is heard, also of one that refuses.
func TestRESTHeard(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	r := newREST(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{}`)
	})
	heard := 0
	r.Heard = func(h http.Header) {
		if h.Get("Date") != "" {
			heard++
		}
	}
	_ = r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/thing"}, nil)
	status = http.StatusForbidden
	_ = r.Do(t.Context(), kit.Call{Method: http.MethodGet, Path: "/thing"}, nil)
	if heard != 2 {
		t.Errorf("%d answers were heard", heard)
	}
}

// What is made while it is sent cannot be sent again: the refusal of the token is the end.
func TestRESTStream(t *testing.T) {
	t.Parallel()
	var got []string
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		data, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, q.Header.Get("Content-Type")+" "+string(data))
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error": "over"}`)
	})
	r.Stale = func(error) bool { return true }
	body := kit.Stream("image/png", io.MultiReader(strings.NewReader("con"), strings.NewReader("tent")), 7)
	err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: body}, nil)
	if err == nil || err.Error() != "refused: 401 over" {
		t.Errorf("the error is %v", err)
	}
	if s := strings.Join(got, "|"); s != "image/png content" {
		t.Errorf("the server got %q", s)
	}
}

// Some platforms count the escapes that JSON has for HTML.
func TestPlainJSON(t *testing.T) {
	t.Parallel()
	var got []string
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		data, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(data))
		_, _ = io.WriteString(w, `{}`)
	})
	for _, body := range []kit.Body{kit.JSON("<&>"), kit.PlainJSON("<&>"), kit.JSON(nil), kit.PlainJSON(nil)} {
		if err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: body}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if s := strings.Join(got, "|"); s != `"\u003c\u0026\u003e"|"<&>"||` {
		t.Errorf("the server got %s", s)
	}
}

// A form has fields, JSON and files in the order in which they were added.
func TestForm(t *testing.T) {
	t.Parallel()
	var got []string
	r := newREST(t, func(w http.ResponseWriter, q *http.Request) {
		parts, err := q.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		for {
			part, err := parts.NextPart()
			if err != nil {
				break
			}
			data, err := io.ReadAll(part)
			if err != nil {
				t.Error(err)
			}
			got = append(got, part.FormName()+" "+part.FileName()+" "+part.Header.Get("Content-Type")+" "+string(data))
		}
		_, _ = io.WriteString(w, `{}`)
	})
	form := kit.NewForm()
	form.JSON("about", map[string]int{"n": 1})
	form.File("files[0]", "a.txt", strings.NewReader("one"), 3)
	form.File("files[1]", "b.txt", strings.NewReader("two"), 3)
	form.Field("end", "yes")
	if err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: form.Body()}, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{`about  application/json {"n":1}`, "files[0] a.txt application/octet-stream one", "files[1] b.txt application/octet-stream two", "end   yes"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the server got (-want +got):\n%s", d)
	}

	form = kit.NewForm()
	form.JSON("about", make(chan int))
	if err := r.Do(t.Context(), kit.Call{Method: http.MethodPost, Path: "/thing", Body: form.Body()}, nil); err == nil {
		t.Error("a form without its JSON was sent")
	}
}
