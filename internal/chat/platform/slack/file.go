package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFiles        = 10      // of one message
	maxUpload       = 1 << 30 // bytes of a file that can be sent
	downloadTimeout = 2 * time.Minute
)

var errSignIn = errors.New("Slack answers with the page to sign in: the app lacks the scope files:read, or may not read this file") //nolint:staticcheck // a name begins the sentence

// files fetches what came with one message for the agent.
type files struct {
	bot    *bot
	count  int
	media  []bus.Media
	marks  []string
	spoken []string // what the sender said
}

// add fetches a file. What cannot be had leaves a mark, so that the agent can
// say so.
func (f *files) add(ctx context.Context, one file) {
	f.count++
	switch saved, err := f.fetch(ctx, one); {
	case errors.Is(err, media.ErrTooLarge):
		f.miss(one, "too large")
	case errors.Is(err, errTooMany), errors.Is(err, errElsewhere), errors.Is(err, errGone):
		f.miss(one, err.Error())
	case err != nil:
		f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "file", one.ID, "err", err)
		f.miss(one, "download failed")
	default:
		f.record(ctx, one, saved)
	}
}

var (
	errTooMany   = errors.New("too many files in one message")
	errElsewhere = errors.New("not a file of Slack's, only a link")
	errGone      = errors.New("removed, or hidden by the workspace")
)

func (f *files) miss(one file, why string) {
	f.marks = append(f.marks, fmt.Sprintf("[attachment: %s - %s]", media.FileName(one.Name), why))
}

// record adds a file to the message. Words that could be made of a voice message stand for it:
// they are the sender's. Any other sound may be of any speaker.
func (f *files) record(ctx context.Context, one file, saved bus.Media) {
	kind, _, _ := strings.Cut(one.MIME, "/")
	voice := one.SubType == "slack_audio"
	switch {
	case voice:
		kind = "voice"
	case kind != "image" && kind != "audio" && kind != "video":
		kind = "file"
	}

	if (voice || kind == "audio") && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			words = "[transcription: " + words + "]"
			if voice {
				f.spoken = append(f.spoken, words)
				return
			}
			f.marks = append(f.marks, words)
		}
	}

	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
}

func (f *files) fetch(ctx context.Context, one file) (bus.Media, error) {
	address := one.Download
	if address == "" {
		address = one.URL
	}

	switch {
	case f.count > maxFiles:
		return bus.Media{}, errTooMany
	case one.Size > f.bot.deps.Media.Max:
		return bus.Media{}, media.ErrTooLarge
	case one.Mode == "tombstone" || one.Mode == "hidden_by_limit" || address == "":
		return bus.Media{}, errGone
	case one.Mode == "external" || !f.bot.web.trusted(address):
		return bus.Media{}, errElsewhere
	}

	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	res, err := f.bot.web.download(ctx, address)
	if err != nil {
		return bus.Media{}, err
	}

	defer res.Body.Close() //nolint:errcheck // read only
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") && !strings.HasPrefix(one.MIME, "text/html") {
		return bus.Media{}, errSignIn
	}
	return f.bot.deps.Media.Save(ctx, one.Name, res.Body)
}

// trusted reports whether an address may be given the token: it is Slack's own.
func (c *client) trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}

	home, err := url.Parse(c.base)
	if err != nil {
		return false
	}

	host := strings.ToLower(u.Hostname())
	slack := u.Scheme == "https" && (host == "slack.com" || strings.HasSuffix(host, ".slack.com") || strings.HasSuffix(host, ".slack-gov.com"))
	return slack || u.Scheme == home.Scheme && strings.EqualFold(u.Host, home.Host)
}

func (c *client) download(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	h := *c.http
	h.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > 5 || !c.trusted(req.URL.String()) {
			return errors.New("a redirect away from Slack is not followed")
		}
		return nil
	}

	res, err := h.Do(req)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("HTTP status %d", res.StatusCode)
	}
	return res, nil
}

// upload sends the file of a part.
func (b *bot) upload(ctx context.Context, chatID string, out bus.Outbound) error {
	if len(out.Media) != 1 {
		return chat.Permanent(fmt.Errorf("one file at a time, got %d", len(out.Media)))
	}

	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxUpload)
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // read only
	if f.Size() == 0 {
		return chat.Permanent(fmt.Errorf("%s is empty, which Slack does not take", f.Name))
	}

	try := func(thread string) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}

		_, err := b.api.UploadFileContext(ctx, api.UploadFileParameters{
			Reader:          f,
			FileSize:        int(f.Size()),
			Filename:        f.Name,
			Title:           f.Name,
			Channel:         chatID,
			ThreadTimestamp: thread,
			InitialComment:  escaper().Replace(out.Text),
		})
		return err
	}

	err = try(out.Route.ThreadID)
	if out.Route.ThreadID != "" && hasCode(err, "thread_not_found", "invalid_thread_ts") {
		err = try("")
	}
	return b.web.classify(err)
}
