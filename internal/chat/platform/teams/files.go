package teams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFiles        = 10 // of one message
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
	downloadInfo    = "application/vnd.microsoft.teams.file.download.info"
)

// kind returns what a file is called where it stands in a text.
func (at *attachment) kind() string {
	for _, k := range []string{"image", "audio", "video"} {
		if strings.HasPrefix(at.ContentType, k+"/") {
			return k
		}
	}
	if strings.HasPrefix(at.ContentType, "application/vnd.microsoft.card.") {
		return "card"
	}
	return "file"
}

// address returns where the content of a file is fetched.
func (at *attachment) address() string {
	if at.ContentType != downloadInfo {
		return at.ContentURL
	}
	var info struct {
		URL string `json:"downloadUrl"`
	}
	_ = json.Unmarshal(at.Content, &info) // without an address it is missing
	return info.URL
}

// name returns what the sender called a file.
func (at *attachment) name() string {
	if at.Name != "" {
		return at.Name
	}
	kind, sub, _ := strings.Cut(at.ContentType, "/")
	if sub = strings.TrimSuffix(sub, "*"); sub == "" || at.kind() == "file" {
		return "file"
	}
	return kind + "." + sub
}

// files fetches what came with one message.
type files struct {
	bot   *bot
	n     int
	media []bus.Media
	marks []string
}

// add fetches a file. What cannot be had leaves a mark, so that the agent can
// say so.
func (f *files) add(ctx context.Context, at attachment, direct bool) {
	switch {
	case at.ContentType == "text/html": // the text again
		return
	case at.kind() == "card":
		f.marks = append(f.marks, "[card]")
		return
	}

	f.n++
	saved, err := f.fetch(ctx, &at)
	switch {
	case errors.Is(err, errNowhere) && !direct:
		f.miss(&at, "Teams gives files to bots in personal chats only")
	case errors.Is(err, media.ErrTooLarge):
		f.miss(&at, "too large")
	case errors.Is(err, errTooMany):
		f.miss(&at, "too many files in one message")
	case err != nil:
		f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "err", err)
		f.miss(&at, "download failed")
	default:
		f.record(ctx, &at, saved)
	}
}

var (
	errTooMany = errors.New("too many files")
	errNowhere = errors.New("the file has no address")
)

func (f *files) miss(at *attachment, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", media.FileName(at.name()), why))
}

// record adds a file to the message, and the words in it if it is a sound.
func (f *files) record(ctx context.Context, at *attachment, saved bus.Media) {
	kind := at.kind()
	if kind == "file" {
		for _, k := range []string{"image", "audio", "video"} {
			if strings.HasPrefix(saved.MIME, k+"/") {
				kind = k
			}
		}
	}

	if kind == "audio" && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			f.marks = append(f.marks, "[transcription: "+words+"]")
		}
	}

	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
}

func (f *files) fetch(ctx context.Context, at *attachment) (bus.Media, error) {
	address := at.address()
	switch {
	case f.n > maxFiles:
		return bus.Media{}, errTooMany
	case address == "" || !strings.HasPrefix(address, "https://") && !f.bot.o.trusted(address):
		return bus.Media{}, errNowhere
	}

	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}
		saved, err := f.once(ctx, address, at.name())
		if err == nil || errors.Is(err, media.ErrTooLarge) {
			return saved, err
		}
		last = err
	}

	return bus.Media{}, last
}

func (f *files) once(ctx context.Context, address, name string) (bus.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	h, err := f.bot.deps.Fetch()
	if err != nil {
		return bus.Media{}, err
	}

	defer h.CloseIdleConnections()
	body, err := f.bot.calls.get(ctx, h, address)
	if err != nil {
		return bus.Media{}, err
	}

	defer body.Close() //nolint:errcheck // read only
	return f.bot.deps.Media.Save(ctx, name, body)
}

// upload puts a file where the person who accepted it wants it.
func (b *bot) upload(ctx context.Context, address string, f *kit.Attachment) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	if !strings.HasPrefix(address, "https://") && !b.o.trusted(address) {
		return errNowhere
	}

	h, err := b.deps.Fetch()
	if err != nil {
		return err
	}

	defer h.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, f)
	if err != nil {
		return httpsafe.WithoutURL(err)
	}

	req.ContentLength = f.Size()
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", f.Size()-1, f.Size()))
	res, err := h.Do(req)
	if err != nil {
		return httpsafe.WithoutURL(err)
	}

	defer res.Body.Close() //nolint:errcheck // the status says it
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	return nil
}
