package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
)

const (
	maxUpload  = 50_000_000 // bytes of a file a bot may send
	maxPhoto   = 10_000_000 // bytes of a file that is shown as a photo
	maxCaption = 1024       // UTF-16 units without the markup
)

// sendFile sends the first file of a message. What Telegram does not take as
// a photo, a voice message or the like goes as a document.
func (b *bot) sendFile(ctx context.Context, to outgoing, out bus.Outbound, sent *message) error {
	if len(out.Media) != 1 {
		return channel.Permanent(fmt.Errorf("one file at a time, got %d", len(out.Media)))
	}
	err := b.sendAs(ctx, "", to, out, sent)
	if e := refusal(err); e != nil && e.Code == http.StatusBadRequest && e.MigrateTo == 0 && aboutFile(e) {
		return b.sendAs(ctx, "document", to, out, sent)
	}
	return err
}

// aboutFile recognises refusals of the file, not of the chat.
func aboutFile(e *apiError) bool {
	return e.says("PHOTO_", "IMAGE_", "VIDEO_", "AUDIO_", "VOICE_", "wrong file", "wrong type", "failed to get http url content", "file of wrong")
}

// sendAs opens the file and sends it. An empty kind is looked up.
func (b *bot) sendAs(ctx context.Context, kind string, to outgoing, out bus.Outbound, sent *message) error {
	f, err := b.openFile(ctx, out.Media[0])
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	if f.size > maxUpload {
		return channel.Permanent(fmt.Errorf("%s: %w: Telegram takes 50 MB", f.name, channel.ErrTooLarge))
	}
	if kind == "" {
		kind = f.kind()
	}
	return b.caption(to, out, func(to outgoing, caption string) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		params, err := to.params()
		if err != nil {
			return err
		}
		if caption != "" {
			params["caption"] = caption
		}
		if kind == "video" {
			params["supports_streaming"] = "true"
		}
		method := "send" + strings.ToUpper(kind[:1]) + kind[1:]
		return b.calls.upload(ctx, method, params, upload{field: kind, name: f.name, data: f, size: f.size, result: sent})
	})
}

// caption tries with the text under the file, with and without markup.
func (b *bot) caption(to outgoing, out bus.Outbound, try func(to outgoing, caption string) error) error {
	if strings.TrimSpace(out.Text) == "" {
		return try(to, "")
	}
	if units(out.Text) > maxCaption {
		return channel.Permanent(fmt.Errorf("the text under a file is over %d characters", maxCaption))
	}
	out.Media = nil
	return b.formatted(to, out, func(to outgoing) error {
		text := to.Text
		to.Text = ""
		return try(to, text)
	})
}

// opened is a file to send.
type opened struct {
	io.ReadSeekCloser
	name string
	size int64
}

// openFile opens a file of this machine, or fetches one from an address that
// the model or a stranger wrote.
func (b *bot) openFile(ctx context.Context, m bus.Media) (*opened, error) {
	if strings.HasPrefix(m.Path, "https://") || strings.HasPrefix(m.Path, "http://") {
		return b.fetchFile(ctx, m)
	}
	if m.Path == "" {
		return nil, channel.Permanent(errNoFile)
	}
	f, err := os.Open(m.Path)
	if err != nil {
		return nil, channel.Permanent(fmt.Errorf("open the file to send: %w", err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(channel.Permanent(fmt.Errorf("open the file to send: %w", err)), f.Close())
	}
	name := m.Name
	if name == "" {
		name = filepath.Base(m.Path)
	}
	return &opened{f, channel.SafeName(name), info.Size()}, nil
}

func (b *bot) fetchFile(ctx context.Context, m bus.Media) (*opened, error) {
	if b.deps.Fetch == nil {
		return nil, channel.Permanent(errNoFile)
	}
	h, err := b.deps.Fetch()
	if err != nil {
		return nil, err
	}
	defer h.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Path, nil)
	if err != nil {
		return nil, channel.Permanent(err)
	}
	res, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch the file to send: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return nil, channel.Permanent(fmt.Errorf("fetch the file to send: HTTP status %d", res.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxUpload+1))
	if err != nil {
		return nil, fmt.Errorf("fetch the file to send: %w", err)
	}
	name := m.Name
	if name == "" {
		name = path.Base(req.URL.Path)
	}
	return &opened{inMemory{bytes.NewReader(data)}, channel.SafeName(name), int64(len(data))}, nil
}

type inMemory struct{ *bytes.Reader }

// Close implements io.Closer.
func (inMemory) Close() error { return nil }

// kind is what Telegram shows a file as; it is the name of the method and of
// the field as well.
func (o *opened) kind() string {
	switch strings.ToLower(filepath.Ext(o.name)) {
	case ".jpg", ".jpeg", ".png", ".webp":
		if o.size <= maxPhoto {
			return "photo"
		}
	case ".gif":
		return "animation"
	case ".mp4", ".mov", ".avi", ".mkv", ".webm", ".3gp":
		return "video"
	case ".ogg", ".oga", ".opus":
		if o.isOpus() {
			return "voice"
		}
	case ".mp3", ".m4a", ".wav", ".aac":
		return "audio"
	}
	return "document"
}

// isOpus looks for the codec's name in the first page of an Ogg file.
func (o *opened) isOpus() bool {
	head := make([]byte, 64)
	n, err := io.ReadFull(o, head)
	return (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && bytes.HasPrefix(head, []byte("OggS")) && bytes.Contains(head[:n], []byte("OpusHead"))
}
