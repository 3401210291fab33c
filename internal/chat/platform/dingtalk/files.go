package dingtalk

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

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
		f.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "err", err)
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

// lost returns the line that stands for a file.
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
		return bus.Media{}, !chat.IsPermanent(f.bot.calls.classify(err)), err
	}

	content, err := f.bot.origin.Open(ctx, f.bot.deps, a.URL)
	if err != nil {
		return bus.Media{}, !chat.IsPermanent(err), err
	}

	defer content.Close() //nolint:errcheck // read only
	saved, err = f.bot.deps.Media.Save(ctx, name, content)
	return saved, true, err
}

func atDingTalk(host string) bool {
	return strings.HasSuffix(host, ".dingtalk.com") || strings.HasSuffix(host, ".dingtalk.io")
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
	if f.Kind == kit.ImageFile && showsImage(f.MIME) {
		kind = "image"
	}

	id, err := b.calls.upload(ctx, kind, name, content, content.Size())
	if err != nil {
		return "", b.calls.classify(err)
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

// showsImage reports whether DingTalk shows an image of this type in a message.
func showsImage(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp":
		return true
	}
	return false
}

// zipped returns an archive with one file.
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
