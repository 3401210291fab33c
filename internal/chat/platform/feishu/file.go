package feishu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

const (
	maxFiles        = 10 // of one message
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// files fetches what came with a message.
type files struct {
	bot     *bot
	message string
	media   []bus.Media
	marks   []string
	spoken  []string // words of voice messages, which the sender said
}

// add fetches files. What cannot be had leaves a mark, so that the agent can say
// so.
func (f *files) add(ctx context.Context, list []fileRef) {
	for i, ref := range list {
		if i >= maxFiles {
			f.marks = append(f.marks, "[attachment: too many files in one message]")
			return
		}

		saved, err := f.fetch(ctx, ref)
		switch {
		case errors.Is(err, media.ErrTooLarge):
			f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - too large]", media.FileName(ref.name)))
		case err != nil:
			f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "message", f.message, "err", err)
			f.marks = append(f.marks, fmt.Sprintf("[%s: download failed]", ref.kind))
		default:
			f.record(ctx, ref.kind, saved)
		}
	}
}

func (f *files) record(ctx context.Context, kind string, saved bus.Media) {
	if kind == "audio" && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			f.spoken = append(f.spoken, "[transcription: "+words+"]")
			return
		}
	}
	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
}

func (f *files) fetch(ctx context.Context, ref fileRef) (saved bus.Media, err error) {
	if strings.ContainsAny(ref.key, "/?#%") || ref.key == ".." {
		return saved, errors.New("the key of the file is not one")
	}

	kind := "file"
	if ref.kind == "image" {
		kind = "image"
	}

	paths := []string{messagePath(f.message) + "/resources/" + ref.key + "?type=" + kind}
	if kind == "image" {
		paths = append(paths, "/open-apis/im/v1/images/"+ref.key)
	}

	for _, p := range paths {
		if saved, err = f.try(ctx, p, ref); err == nil || errors.Is(err, media.ErrTooLarge) {
			return saved, err
		}
	}
	return saved, err
}

// try fetches a file, a few times unless that is pointless.
func (f *files) try(ctx context.Context, from string, ref fileRef) (saved bus.Media, err error) {
	for n := range downloadTries {
		if n > 0 && wait.For(ctx, downloadRetry<<n) != nil {
			return saved, ctx.Err()
		}
		if saved, err = f.save(ctx, from, ref); err == nil || errors.Is(err, media.ErrTooLarge) || refused(err) {
			return saved, err
		}
	}
	return saved, err
}

func (f *files) save(ctx context.Context, from string, ref fileRef) (bus.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	body, name, err := f.bot.calls.download(ctx, from)
	if err != nil {
		return bus.Media{}, err
	}

	defer body.Close() //nolint:errcheck // read only
	if ref.name != "" {
		name = ref.name
	}
	return f.bot.deps.Media.Save(ctx, fileName(ref, name), io.Reader(body))
}

// fileName returns the name of a file; one without takes it from its key.
func fileName(ref fileRef, name string) string {
	if name == "" {
		name = text.Cut(ref.key, 16)
		if ref.kind == "image" {
			name += ".jpg"
		}
	}

	switch strings.ToLower(path.Ext(name)) {
	case ".opus", ".ogg", ".oga":
	default:
		if ref.kind == "audio" {
			name += ".ogg"
		}
	}

	return name
}
