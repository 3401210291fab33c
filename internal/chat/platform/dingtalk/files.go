package dingtalk

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	filesMost       = 20 // of one message
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// files fetches what came with one message for the agent.
type files struct {
	bot   *bot
	n     int
	media []bus.Media
	marks []string
}

// add fetches a file. What cannot be had leaves a mark, so that the agent can say
// so. It returns the words of a voice message of the sender.
func (f *files) add(ctx context.Context, kind kit.FileKind, code, name string, own bool) string {
	if f.n++; f.n > filesMost {
		f.marks = append(f.marks, lost(name, "too many files in one message"))
		return ""
	}
	saved, err := f.fetch(ctx, code, name)
	switch {
	case errors.Is(err, media.ErrTooLarge):
		f.marks = append(f.marks, lost(name, "too large"))
		return ""
	case err != nil:
		f.bot.deps.Log.WarnContext(ctx, "fetch a file", "err", err)
		f.marks = append(f.marks, lost(name, "download failed"))
		return ""
	}
	if kind == kit.VoiceFile && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
			words = "[transcription: " + words + "]"
			if own {
				return words
			}
			f.marks = append(f.marks, words)
		}
	}
	f.media = append(f.media, saved)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, saved.Path))
	return ""
}

// lost is the line that stands for a file.
func lost(name, why string) string {
	return fmt.Sprintf("[attachment: %s - %s]", media.FileName(name), why)
}

func (f *files) fetch(ctx context.Context, code, name string) (bus.Media, error) {
	if code == "" {
		return bus.Media{}, errors.New("the message names no file")
	}
	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}
		saved, again, err := f.once(ctx, code, name)
		if err == nil || !again || errors.Is(err, media.ErrTooLarge) {
			return saved, err
		}
		last = err
	}
	return bus.Media{}, last
}

// once downloads a file. Again says that another try may help.
func (f *files) once(ctx context.Context, code, name string) (saved bus.Media, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	var a struct {
		URL string `json:"downloadUrl"`
	}
	body := map[string]string{"downloadCode": code, "robotCode": f.bot.o.ClientID}
	if err := f.bot.calls.do(ctx, "/v1.0/robot/messageFiles/download", body, &a); err != nil {
		return bus.Media{}, !chat.IsPermanent(f.bot.classify(err)), err
	}
	h, err := f.bot.clientFor(a.URL)
	if err != nil {
		return bus.Media{}, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return bus.Media{}, false, httpsafe.WithoutURL(err)
	}
	res, err := h.Do(req)
	if err != nil {
		return bus.Media{}, true, httpsafe.WithoutURL(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return bus.Media{}, res.StatusCode/100 == 5 || res.StatusCode == http.StatusTooManyRequests, fmt.Errorf("download: HTTP status %d", res.StatusCode)
	}
	saved, err = f.bot.deps.Media.Save(ctx, name, res.Body)
	return saved, true, err
}

// ours reports whether an address is DingTalk's own.
func (b *bot) ours(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	for _, base := range []string{b.o.APIBaseURL, b.o.OAPIBaseURL} {
		if own, err := url.Parse(base); err == nil && own.Host == u.Host && own.Scheme == u.Scheme {
			return true
		}
	}
	host := u.Hostname()
	return u.Scheme == "https" && (strings.HasSuffix(host, ".dingtalk.com") || strings.HasSuffix(host, ".dingtalk.io"))
}

// clientFor is the client that fetches a file: DingTalk's own hosts are reached
// like its API, by the proxy of the section; others only where strangers may send
// us.
func (b *bot) clientFor(address string) (*http.Client, error) {
	if b.ours(address) {
		return b.calls.public.Client, nil
	}
	if b.deps.Fetch == nil {
		return nil, errors.New("the file is not at DingTalk")
	}
	return b.deps.Fetch()
}

// sendFile uploads a file and sends it.
func (b *bot) sendFile(ctx context.Context, out bus.Outbound) (string, error) {
	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxFile)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	name := f.Name
	content := f.SectionReader
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if ext == "htm" || ext == "html" || strings.HasPrefix(f.MIME, "text/html") { // DingTalk refuses them
		if content, err = zipped(name, f); err != nil {
			return "", err
		}
		name, ext = strings.TrimSuffix(name, filepath.Ext(name))+".zip", "zip"
	}

	kind := "file"
	if f.Kind == kit.ImageFile && (f.MIME == "image/png" || f.MIME == "image/jpeg" || f.MIME == "image/gif" || f.MIME == "image/bmp" || f.MIME == "image/webp") {
		kind = "image"
	}
	id, err := b.calls.upload(ctx, kind, name, content, content.Size())
	if err != nil {
		return "", b.classify(err)
	}
	if kind == "image" {
		return b.push(ctx, out.Route, "sampleImageMsg", map[string]string{"photoURL": id})
	}
	switch ext {
	case "jpeg":
		ext = "jpg"
	case "":
		ext = "bin"
	}
	return b.push(ctx, out.Route, "sampleFile", map[string]string{"mediaId": id, "fileName": name, "fileType": ext})
}

// zipped is an archive with one file.
func zipped(name string, r io.Reader) (*io.SectionReader, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err == nil {
		_, err = io.Copy(f, r)
	}
	err = errors.Join(err, w.Close())
	return io.NewSectionReader(bytes.NewReader(b.Bytes()), 0, int64(b.Len())), err
}
