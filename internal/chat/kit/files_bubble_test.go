package kit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// A download that failed is tried again where that may help, and each file has
// its own limit.
func TestFilesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := chattest.NewRig(t).Deps("test")
		for what, c := range map[string]struct {
			err   error
			again bool
			fails int
			max   int64
			tries int
			want  string
		}{
			"once":      {errors.New("no"), false, 9, 0, 1, "download failed"},
			"a while":   {errors.New("no"), true, 2, 0, 3, "[file: "},
			"for ever":  {errors.New("no"), true, 9, 0, 3, "download failed"},
			"pointless": {chat.Permanent(errors.New("no")), true, 9, 0, 1, "download failed"},
			"large":     {nil, true, 0, 3, 1, "too large"},
		} {
			tries := 0
			f := kit.NewFiles(d)
			f.Add(t.Context(), kit.Received{Kind: kit.OtherFile, Name: "a", Max: c.max, Again: c.again, Open: func(context.Context) (io.ReadCloser, error) {
				if tries++; tries <= c.fails {
					return nil, c.err
				}
				return io.NopCloser(strings.NewReader("content")), nil
			}})
			if got := f.Quotes()[0].Text; !strings.Contains(got, c.want) || tries != c.tries {
				t.Errorf("%s: %q after %d tries", what, got, tries)
			}
		}
	})
}

// answers is a transport that answers with a status.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("no line")
	}
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// What a server refuses is not asked for again, and no error shows the address.
func TestDownload(t *testing.T) {
	t.Parallel()
	for status, permanent := range map[int]bool{0: false, 403: true, 404: true, 429: false, 503: false} {
		res, err := kit.Download(t.Context(), &http.Client{Transport: answers(status)}, "https://files.example/a?key=secret", nil)
		if err == nil {
			_ = res.Body.Close()
		}
		if err == nil || chat.IsPermanent(err) != permanent || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "files.example") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// What is not an address is not asked for, and not shown.
func TestDownloadBadAddress(t *testing.T) {
	t.Parallel()
	res, err := kit.Download(t.Context(), &http.Client{Transport: answers(http.StatusOK)}, "https://files.example/\x7fsecret", nil)
	if err == nil {
		_ = res.Body.Close()
	}
	if !chat.IsPermanent(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

// seen remembers which hosts were asked, and says yes.
type seen struct{ hosts []string }

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.hosts = append(s.hosts, r.URL.Host+" "+r.Header.Get("User-Agent"))
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A file at the platform is reached like its API, also by a proxy; one elsewhere only
// where strangers may send us.
func TestOrigin(t *testing.T) {
	t.Parallel()
	for address, own := range map[string]bool{
		"http://api.example:8080/f": true,
		"https://cdn.example/f":     true,
		"http://cdn.example/f":      false, // anyone on the way could answer
		"http://api.example/f":      false,
		"https://api.example:8080/": false,
		"https://evil.example/f":    false,
		"cdn.example/f":             false,
	} {
		platform := &seen{}
		strangers := &seen{}
		o := kit.Origin{
			Client: &http.Client{Transport: platform},
			Bases:  []string{"http://api.example:8080/v1", "::"},
			Ours:   func(host string) bool { return host == "cdn.example" },
			Head:   http.Header{"User-Agent": {"test"}},
		}
		if got := o.Has(address); got != own {
			t.Errorf("%s: the platform's %v, want %v", address, got, own)
		}
		d := chat.Deps{Fetch: func() (*http.Client, error) { return &http.Client{Transport: strangers}, nil }}
		if body, err := o.Open(t.Context(), d, address); err == nil {
			_ = body.Close()
		}
		if asked := len(platform.hosts) > 0; asked != own {
			t.Errorf("%s: asked like the API: %v, want %v (%v)", address, asked, own, strangers.hosts)
		}
		if own && !strings.HasSuffix(platform.hosts[0], " test") {
			t.Errorf("%s: asked %q", address, platform.hosts)
		}

		body, err := o.Open(t.Context(), chat.Deps{}, address)
		if err == nil {
			_ = body.Close()
		}
		if !own && !chat.IsPermanent(err) {
			t.Errorf("%s: without a way to others the error is %v", address, err)
		}
	}
}
