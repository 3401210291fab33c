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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://files.example/a?key=secret", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := kit.Download(&http.Client{Transport: answers(status)}, req)
		if err == nil {
			_ = res.Body.Close()
		}
		if err == nil || chat.IsPermanent(err) != permanent || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "files.example") {
			t.Errorf("%d: %v", status, err)
		}
	}
}
