package socket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	mediaPath = "/api/media/"
	sigBytes  = 16
)

// links signs the addresses of files, so that only who was given one can read
// the file. The key outlives a restart, and so do the addresses.
type links struct {
	mu  sync.Mutex
	key []byte
}

// use sets the key.
func (l *links) use(key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key = key
}

// sign returns "" while there is no key.
func (l *links) sign(payload string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == nil {
		return ""
	}
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(payload))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:sigBytes])
}

// shownFiles are the files of one message as clients see them.
type shownFiles struct{ urls, names []string }

// append adds the files to a message: as the older protocol lists them, with
// addresses instead of paths, and with names.
func (m *shownFiles) append(f frame) frame {
	f = append(f.list("media", m.urls).key("media_urls"), '[')
	for i, u := range m.urls {
		if i > 0 {
			f = append(f, ',')
		}
		f = frame(text.AppendJSON(append(f, `{"url":`...), u)).must("name", m.names[i])
		f = append(f, '}')
	}
	return append(f, ']')
}

// link makes addresses of files. Files from elsewhere are copied to the media
// store first: what a client was promised is what it gets, whatever happens to
// the original.
func (c *Channel) link(ctx context.Context, files []bus.Media) (*shownFiles, error) {
	if len(files) == 0 {
		return nil, nil // nothing to add
	}
	if c.d.Media == nil {
		return nil, chat.Permanent(errors.New("files cannot be sent"))
	}

	m := &shownFiles{}
	for _, f := range files {
		rel, err := filepath.Rel(c.d.Media.Dir, f.Path)
		if err != nil || !filepath.IsLocal(rel) || filepath.Dir(rel) != "." {
			kept, err := c.copyIn(ctx, f)
			if err != nil {
				return nil, err
			}
			rel = filepath.Base(kept.Path)
		}

		name := f.Name
		if name == "" {
			name = filepath.Base(f.Path)
		}

		payload := base64.RawURLEncoding.EncodeToString([]byte(rel))
		sig := c.links.sign(payload)
		if sig == "" {
			return nil, chat.ErrNotReady
		}

		m.urls = append(m.urls, mediaPath+sig+"/"+payload)
		m.names = append(m.names, name)
	}

	return m, nil
}

// File is the address of a file in the media store, what it is and how long.
// The address is "" for other files, and for one that is gone.
func (c *Channel) File(path string) (url, mime string, size int64) {
	if c.d.Media == nil {
		return "", "", 0
	}

	rel, err := filepath.Rel(c.d.Media.Dir, path)
	if err != nil || !filepath.IsLocal(rel) || filepath.Dir(rel) != "." {
		return "", "", 0
	}

	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", "", 0
	}

	payload := base64.RawURLEncoding.EncodeToString([]byte(rel))
	if sig := c.links.sign(payload); sig != "" {
		url = mediaPath + sig + "/" + payload
	}
	return url, contentType(rel), info.Size()
}

func (c *Channel) copyIn(ctx context.Context, f bus.Media) (bus.Media, error) {
	if info, err := os.Stat(f.Path); err != nil || !info.Mode().IsRegular() {
		return bus.Media{}, chat.Permanent(fmt.Errorf("%s is not a file that can be sent", f.Path))
	}

	src, err := os.Open(f.Path)
	if err != nil {
		return bus.Media{}, chat.Permanent(err)
	}

	defer func() { _ = src.Close() }()
	kept, err := c.d.Media.Save(ctx, filepath.Base(f.Path), src)
	if errors.Is(err, media.ErrTooLarge) {
		return kept, chat.Permanent(err)
	}
	return kept, err
}

// ServeMedia hands out a file to who has its address: the path values sig and payload.
func (c *Channel) ServeMedia(w http.ResponseWriter, r *http.Request) {
	payload := r.PathValue("payload")
	name, err := base64.RawURLEncoding.DecodeString(payload)
	sig := c.links.sign(payload)
	if err != nil || c.d.Media == nil || sig == "" || !hmac.Equal([]byte(sig), []byte(r.PathValue("sig"))) {
		http.NotFound(w, r)
		return
	}

	root, err := os.OpenRoot(c.d.Media.Dir)
	if err != nil {
		http.NotFound(w, r)
		return
	}

	defer func() { _ = root.Close() }()
	f, err := root.Open(string(name))
	if err != nil {
		http.NotFound(w, r)
		return
	}

	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}

	h := w.Header()
	h.Set("Content-Type", contentType(string(name)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; media-src 'self'; img-src 'self' data:")
	h.Set("Cache-Control", "private, max-age=3600")
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// contentType returns what a browser may show by itself; everything else is to be
// saved.
func contentType(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".svg":
		return "image/svg+xml"
	case ".mp4":
		return "video/mp4"
	case ".webm":
		return "video/webm"
	case ".mov":
		return "video/quicktime"
	case ".mp3":
		return "audio/mpeg"
	case ".ogg", ".oga", ".opus":
		return "audio/ogg"
	case ".wav":
		return "audio/wav"
	case ".pdf":
		return "application/pdf"
	case ".txt", ".md", ".csv", ".json", ".log":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
