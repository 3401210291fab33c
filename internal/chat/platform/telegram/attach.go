package telegram

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
)

const (
	maxDownload     = 20_000_000 // bytes of a file that a bot may fetch
	maxFiles        = 10         // of one message, quoted ones included
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// attachment is a file that came with a message.
type attachment struct {
	kind string // image, voice, audio, video, animation, file: the word of the marker
	file file
	ext  string // when neither name nor type says it
}

// attachments lists the files of a message.
func (m *message) attachments() []attachment {
	var out []attachment
	if n := len(m.Photo); n > 0 {
		best := m.Photo[0]
		for _, p := range m.Photo[1:] {
			if p.Width*p.Height >= best.Width*best.Height && p.Size <= maxDownload {
				best = p
			}
		}
		out = append(out, attachment{"image", best, ".jpg"})
	}

	for _, a := range []struct {
		kind string
		file *file
		ext  string
	}{
		{"voice", m.Voice, ".ogg"},
		{"audio", m.Audio, ".mp3"},
		{"video", m.Video, ".mp4"},
		{"video", m.VideoNote, ".mp4"},
		{"animation", m.Animation, ".mp4"},
	} {
		if a.file != nil {
			out = append(out, attachment{a.kind, *a.file, a.ext})
		}
	}

	if m.Document != nil && m.Animation == nil { // an animation comes as a document as well
		out = append(out, attachment{"file", *m.Document, ""})
	}
	if s := m.Sticker; s != nil && !s.Animated && !s.Video {
		out = append(out, attachment{"image", s.file, ".webp"})
	}
	return out
}

// name returns what the file is called: as the sender did, else by Telegram's id
// and what kind of file it is.
func (a attachment) name() string {
	if a.file.Name != "" {
		return a.file.Name
	}

	ext := extension(a.file.MIME)
	if ext == "" {
		ext = a.ext
	}
	if ext == "" {
		ext = path.Ext(a.file.Path)
	}
	return a.file.UniqueID + ext
}

// extension returns the usual ending of the types that Telegram names.
func extension(mime string) string {
	switch mime {
	case "image/jpeg":
		return ".jpg"
	case "image/png":
		return ".png"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "audio/ogg", "audio/opus":
		return ".ogg"
	case "audio/mpeg":
		return ".mp3"
	case "audio/mp4", "audio/x-m4a":
		return ".m4a"
	case "video/mp4":
		return ".mp4"
	case "video/quicktime":
		return ".mov"
	case "video/webm":
		return ".webm"
	case "application/pdf":
		return ".pdf"
	case "text/plain":
		return ".txt"
	}
	return ""
}

// files fetches what came with one message for the agent.
type files struct {
	bot    *bot
	seen   map[string]bool
	media  []bus.Media
	marks  []string
	spoken []string // what the sender said
}

func (rc *receiver) files() *files {
	return &files{bot: rc.bot, seen: map[string]bool{}}
}

// add fetches the files of a message that were not fetched yet; own says that
// it is the message itself, not one that it answers. What cannot be
// had leaves a mark, so that the agent can say so.
func (f *files) add(ctx context.Context, m *message, own bool) {
	for _, a := range m.attachments() {
		if f.seen[a.file.UniqueID] {
			continue
		}

		f.seen[a.file.UniqueID] = true
		switch saved, err := f.fetch(ctx, a); {
		case errors.Is(err, media.ErrTooLarge):
			f.miss(a, "too large")
		case errors.Is(err, errTooMany):
			f.miss(a, "too many files in one message")
		case err != nil:
			f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "chat", m.Chat.ID, "message", m.ID, "err", err)
			f.miss(a, "download failed")
		default:
			f.record(ctx, a, saved, own && m.typed && a.kind == "voice")
		}
	}
}

var errTooMany = errors.New("too many files")

func (f *files) miss(a attachment, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", media.FileName(a.name()), why))
}

// record adds a file to the message. Words that could be made of a voice message stand for it.
// They are the sender's if the sender spoke them: any other sound may be of any speaker.
func (f *files) record(ctx context.Context, a attachment, saved bus.Media, spoken bool) {
	if (a.kind == "voice" || a.kind == "audio") && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			to := &f.marks
			if spoken {
				to = &f.spoken
			}
			*to = append(*to, "[transcription: "+words+"]")
			if a.kind == "voice" {
				return
			}
		}
	}

	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", a.kind, saved.Path))
}

func (f *files) fetch(ctx context.Context, a attachment) (bus.Media, error) {
	switch {
	case len(f.seen) > maxFiles:
		return bus.Media{}, errTooMany
	case a.file.Size > min(maxDownload, f.bot.deps.Media.Max):
		return bus.Media{}, media.ErrTooLarge
	}

	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}

		saved, err := f.once(ctx, a)
		if err == nil || errors.Is(err, media.ErrTooLarge) {
			return saved, err
		}

		last = err
		if e := refusal(err); e != nil && e.Code/100 == 4 && e.RetryAfter == 0 {
			if e.mentions("file is too big") {
				return bus.Media{}, media.ErrTooLarge
			}
			break
		}
	}

	return bus.Media{}, last
}

func (f *files) once(ctx context.Context, a attachment) (bus.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	var got file
	if err := f.bot.calls.call(ctx, "getFile", map[string]string{"file_id": a.file.ID}, &got); err != nil {
		return bus.Media{}, err
	}
	if got.Path == "" {
		return bus.Media{}, errors.New("getFile: no path in the answer")
	}

	a.file.Path = got.Path
	body, err := f.bot.calls.download(ctx, got.Path)
	if err != nil {
		return bus.Media{}, err
	}

	defer body.Close() //nolint:errcheck // read only
	saved, err := f.bot.deps.Media.Save(ctx, a.name(), body)
	if err != nil {
		return bus.Media{}, fmt.Errorf("download: %w", httpsafe.WithoutURL(err))
	}
	return saved, nil
}
