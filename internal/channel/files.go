package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

const (
	filesMost = 10              // of one message
	fetchTime = 2 * time.Minute // for one file
)

// Received is a file that came with a message and was not fetched yet.
type Received struct {
	Kind FileKind // what the platform calls it; a VoiceFile is spoken by its sender
	Name string   // as the sender says
	Size int64    // as the platform says; 0: it does not say
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Files are what came with one message, for the agent. Sounds become words
// where that is possible.
type Files struct {
	Media  []bus.Media
	Spoken []string // what the sender said; words of the sender as if they were typed
	deps   *Deps
	marks  []string
	count  int
}

// Files begins with none.
func (d *Deps) Files() *Files { return &Files{deps: d} }

// Add fetches a file. One that cannot be had leaves a mark, so that the agent
// can say so.
func (f *Files) Add(ctx context.Context, r Received) {
	media, err := f.fetch(ctx, r)
	switch {
	case errors.Is(err, ErrTooLarge):
		f.miss(r, "too large")
	case errors.Is(err, errTooMany):
		f.miss(r, "too many files in one message")
	case err != nil:
		f.deps.Log.WarnContext(ctx, "fetch a file", "channel", f.deps.Name, "err", err)
		f.miss(r, "download failed")
	default:
		f.keep(ctx, r.Kind, media)
	}
}

var errTooMany = errors.New("too many files")

func (f *Files) miss(r Received, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", SafeName(r.Name), why))
}

func (f *Files) fetch(ctx context.Context, r Received) (bus.Media, error) {
	if f.count++; f.count > filesMost {
		return bus.Media{}, errTooMany
	}
	if r.Size > f.deps.Media.Max {
		return bus.Media{}, ErrTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	body, err := r.Open(ctx)
	if err != nil {
		return bus.Media{}, err
	}
	defer body.Close() //nolint:errcheck // read only
	return f.deps.Media.Save(ctx, r.Name, body)
}

// keep notes a file. Words that could be made of a voice message stand for it.
func (f *Files) keep(ctx context.Context, kind FileKind, media bus.Media) {
	if (kind == VoiceFile || kind == AudioFile) && f.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.deps.Transcribe(ctx, media.Path)); words != "" {
			words = "[transcription: " + words + "]"
			if kind == VoiceFile {
				f.Spoken = append(f.Spoken, words)
				return
			}
			f.marks = append(f.marks, words) // anybody's words
		}
	}
	f.Media = append(f.Media, media)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, media.Path))
}

// Quotes tell the agent of the files, in words that nobody typed.
func (f *Files) Quotes() []bus.Quote {
	if len(f.marks) == 0 {
		return nil
	}
	return []bus.Quote{{About: "files", Text: strings.Join(f.marks, "\n")}}
}
