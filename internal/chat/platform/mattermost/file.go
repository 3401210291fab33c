package mattermost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

const (
	maxFiles        = 10 // of one post
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// files fetches what came with a post.
type files struct {
	bot   *bot
	media []bus.Media
	marks []string
}

// add fetches files. What cannot be had leaves a mark, so that the agent can say
// so.
func (f *files) add(ctx context.Context, ids []string) {
	for i, id := range ids {
		info, err := f.info(ctx, id)
		name := media.FileName(info.Name)
		if i >= maxFiles {
			f.miss(name, "too many files in one message")
			continue
		}

		var saved bus.Media
		if err == nil {
			saved, err = f.fetch(ctx, info)
		}

		switch {
		case errors.Is(err, media.ErrTooLarge):
			f.miss(name, "too large")
		case err != nil:
			f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "file", id, "err", err)
			f.miss(name, "download failed")
		default:
			f.record(ctx, saved, info.MIME)
		}
	}
}

func (f *files) miss(name, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", name, why))
}

// record adds a file to the message. Words of a recording may be of any speaker, since the file can be
// anything.
func (f *files) record(ctx context.Context, saved bus.Media, mime string) {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image", "video", "audio":
	default:
		kind = "file"
	}

	if kind == "audio" && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			f.marks = append(f.marks, "[transcription: "+words+"]")
		}
	}

	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
}

func (f *files) info(ctx context.Context, id string) (file, error) {
	info := file{ID: id, Name: id}
	err := f.again(ctx, func(ctx context.Context) error {
		return f.bot.calls.call(ctx, http.MethodGet, "/files/"+id+"/info", nil, &info)
	})
	return info, err
}

func (f *files) fetch(ctx context.Context, info file) (saved bus.Media, err error) {
	if info.Size > f.bot.deps.Media.Max {
		return saved, media.ErrTooLarge
	}

	err = f.again(ctx, func(ctx context.Context) error {
		body, err := f.bot.calls.download(ctx, info.ID)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // read only
		saved, err = f.bot.deps.Media.Save(ctx, info.Name, body)
		return err
	})
	return saved, err
}

// again tries a few times, unless that is pointless.
func (f *files) again(ctx context.Context, try func(ctx context.Context) error) (err error) {
	for n := range downloadTries {
		if n > 0 && wait.For(ctx, downloadRetry<<n) != nil {
			return ctx.Err()
		}

		limited, cancel := context.WithTimeout(ctx, downloadTimeout)
		err = try(limited)
		cancel()
		if err == nil || errors.Is(err, media.ErrTooLarge) || refusal(err).refused() {
			return err
		}
	}
	return err
}
