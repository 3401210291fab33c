package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	filesMost  = 10              // of one message
	fetchTime  = 2 * time.Minute // for one try
	fetchTries = 3
	fetchPause = 2 * time.Second // after the first try
)

// Received is a file that came with a message and was not fetched yet.
type Received struct {
	Kind FileKind // what the platform calls it; a VoiceFile is spoken by its sender
	Name string   // as the sender says
	Size int64    // as the platform says; 0: it does not say
	Max  int64    // bytes that this one may have; 0: as many as any
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Again says that a try that failed is repeated, unless its error is
	// Permanent.
	Again bool
}

// Files are what came with one message, for the agent. Sounds become words
// where that is possible.
type Files struct {
	Media  []bus.Media
	Spoken []string // what the sender said; words of the sender as if they were typed
	deps   chat.Deps
	marks  []string
	count  int
}

// NewFiles begins with none; it needs Deps.Media and Deps.Log.
func NewFiles(d chat.Deps) *Files { return &Files{deps: d} }

// Add fetches a file. One that cannot be had leaves a mark, so that the agent
// can say so.
func (f *Files) Add(ctx context.Context, r Received) {
	saved, err := f.fetch(ctx, r)
	switch {
	case errors.Is(err, media.ErrTooLarge):
		f.miss(r, "too large")
	case errors.Is(err, errTooMany):
		f.miss(r, "too many files in one message")
	case err != nil:
		f.deps.Log.WarnContext(ctx, "cannot fetch a file", "channel", f.deps.Name, "err", err)
		f.miss(r, "download failed")
	default:
		f.record(ctx, r.Kind, saved)
	}
}

var errTooMany = errors.New("too many files")

func (f *Files) miss(r Received, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", media.FileName(r.Name), why))
}

func (f *Files) fetch(ctx context.Context, r Received) (saved bus.Media, err error) {
	if f.count++; f.count > filesMost {
		return saved, errTooMany
	}

	store := *f.deps.Media
	if r.Max > 0 {
		store.Max = min(store.Max, r.Max)
	}

	if r.Size > store.Max {
		return saved, media.ErrTooLarge
	}

	for try := range fetchTries {
		if try > 0 && wait.For(ctx, fetchPause<<(try-1)) != nil {
			return saved, ctx.Err()
		}
		if saved, err = r.save(ctx, &store); err == nil || !r.Again || chat.IsPermanent(err) || errors.Is(err, media.ErrTooLarge) {
			break
		}
	}

	return saved, err
}

func (r *Received) save(ctx context.Context, store *media.Store) (bus.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	body, err := r.Open(ctx)
	if err != nil {
		return bus.Media{}, err
	}
	defer body.Close() //nolint:errcheck // read only
	return store.Save(ctx, r.Name, body)
}

// Download opens what an address has. Its errors do not show the address, which
// may be all that is needed to read the file; one is Permanent if the server
// would say the same again.
func Download(ctx context.Context, h *http.Client, address string, head http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, chat.Permanent(fmt.Errorf("the address of the file is not one: %w", httpsafe.WithoutURL(err)))
	}

	maps.Copy(req.Header, head)

	res, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("download from %s: %w", req.URL.Host, httpsafe.WithoutURL(err))
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}

	_ = res.Body.Close() // it is not what was asked for
	err = fmt.Errorf("download from %s: HTTP status %d", req.URL.Host, res.StatusCode)
	if res.StatusCode < http.StatusInternalServerError && res.StatusCode != http.StatusTooManyRequests {
		err = chat.Permanent(err)
	}
	return nil, err
}

// Origin is where a platform keeps the files of messages. They are reached like its
// API; files elsewhere only where strangers may send us, by Deps.Fetch.
type Origin struct {
	Client *http.Client
	Bases  []string               // of the API
	Ours   func(host string) bool // reports whether a host is the platform's; asked for https only
	Head   http.Header            // of requests
}

// Has reports whether an address is the platform's.
func (o *Origin) Has(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}

	for _, base := range o.Bases {
		if api, err := url.Parse(base); err == nil && u.Host == api.Host && u.Scheme == api.Scheme {
			return true
		}
	}
	return u.Scheme == "https" && o.Ours(u.Hostname())
}

// Open opens a file by its address.
func (o *Origin) Open(ctx context.Context, d chat.Deps, address string) (io.ReadCloser, error) {
	h := o.Client
	if !o.Has(address) {
		if d.Fetch == nil {
			return nil, chat.Permanent(errors.New("the file is not at the platform"))
		}
		var err error
		if h, err = d.Fetch(); err != nil {
			return nil, err
		}
	}

	res, err := Download(ctx, h, address, o.Head)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// record adds a file to the message. Words that could be made of a voice message stand for it.
func (f *Files) record(ctx context.Context, kind FileKind, saved bus.Media) {
	if (kind == VoiceFile || kind == AudioFile) && f.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.deps.Transcribe(ctx, saved.Path)); words != "" {
			words = "[transcription: " + words + "]"
			if kind == VoiceFile {
				f.Spoken = append(f.Spoken, words)
				return
			}
			f.marks = append(f.marks, words) // the speaker is unknown
		}
	}

	f.Media = append(f.Media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
}

// Quotes tell the agent of the files, in words of ours, not of the sender.
func (f *Files) Quotes() []bus.Quote {
	if len(f.marks) == 0 {
		return nil
	}
	return []bus.Quote{{About: "files", Text: strings.Join(f.marks, "\n")}}
}
