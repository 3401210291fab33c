package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/wait"
)

const (
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// kind is the word of the marker of a file.
func (a attachment) kind(m *message) channel.FileKind {
	if m.Flags&flagVoice != 0 {
		return channel.VoiceFile
	}
	word, _, _ := strings.Cut(a.ContentType, "/")
	switch k := channel.FileKind(word); k {
	case channel.ImageFile, channel.AudioFile, channel.VideoFile:
		return k
	}
	return channel.OtherFile
}

// files fetches what came with one message for the agent.
type files struct {
	bot    *bot
	n      int
	media  []bus.Media
	marks  []string
	spoken []string // what the sender said
}

// add fetches the files of a message; own says that its sender sent them, not
// the person who is quoted. What cannot be had leaves a mark, so that the agent can
// say so.
func (f *files) add(ctx context.Context, m *message, own bool) {
	for _, a := range m.Attachments {
		if f.n++; f.n > maxFiles {
			f.miss(a, "too many files in one message")
			continue
		}
		switch media, err := f.fetch(ctx, a); {
		case errors.Is(err, channel.ErrTooLarge):
			f.miss(a, "too large")
		case err != nil:
			f.bot.deps.Log.WarnContext(ctx, "fetch a file", "chat", m.ChannelID, "message", m.ID, "err", err)
			f.miss(a, "download failed")
		default:
			f.keep(ctx, a.kind(m), media, own)
		}
	}
}

func (f *files) miss(a attachment, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", channel.SafeName(a.Filename), why))
}

// keep notes a file. Words that could be made of a voice message stand for it.
// They are the sender's if the sender spoke them: any other sound is anybody's.
func (f *files) keep(ctx context.Context, kind channel.FileKind, media bus.Media, own bool) {
	voice := kind == channel.VoiceFile
	if (voice || kind == channel.AudioFile) && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, media.Path)); words != "" {
			to := &f.marks
			if own && voice {
				to = &f.spoken
			}
			*to = append(*to, "[transcription: "+words+"]")
			if voice {
				return
			}
		}
	}
	f.media = append(f.media, media)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, media.Path))
}

func (f *files) fetch(ctx context.Context, a attachment) (bus.Media, error) {
	if a.Size > f.bot.deps.Media.Max {
		return bus.Media{}, channel.ErrTooLarge
	}
	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}
		media, again, err := f.once(ctx, a)
		if err == nil || !again || errors.Is(err, channel.ErrTooLarge) {
			return media, err
		}
		last = err
	}
	return bus.Media{}, last
}

// once downloads a file. Again says that another try may help.
func (f *files) once(ctx context.Context, a attachment) (media bus.Media, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	h, err := f.bot.clientFor(a.URL)
	if err != nil {
		return bus.Media{}, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return bus.Media{}, false, httpsafe.WithoutURL(err)
	}
	req.Header.Set("User-Agent", agent)
	res, err := h.Do(req)
	if err != nil {
		return bus.Media{}, true, httpsafe.WithoutURL(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return bus.Media{}, res.StatusCode/100 == 5 || res.StatusCode == http.StatusTooManyRequests, fmt.Errorf("download: HTTP status %d", res.StatusCode)
	}
	name := a.Filename
	if name == "" {
		name = a.ID
	}
	media, err = f.bot.deps.Media.Save(ctx, name, res.Body)
	return media, true, err
}

// clientFor is the client that fetches a file: Discord's own hosts are reached
// like its API, by the proxy of the section; others only where strangers may
// send us.
func (b *bot) clientFor(address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	own, err := url.Parse(b.o.APIBase)
	if err != nil {
		return nil, err
	}
	host := u.Hostname()
	if u.Host == own.Host && u.Scheme == own.Scheme || u.Scheme == "https" && (host == "cdn.discordapp.com" || host == "media.discordapp.net") {
		return b.calls.http, nil
	}
	if b.deps.Fetch == nil {
		return nil, errors.New("the file is not at Discord")
	}
	return b.deps.Fetch()
}
