package matrix

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// lockedFile is a file of an encrypted room: where it is, and its keys.
type lockedFile struct {
	URL    string            `json:"url"`
	Key    fileKey           `json:"key"`
	IV     string            `json:"iv"`
	Hashes map[string]string `json:"hashes"`
	V      string            `json:"v"`
}

type fileKey struct {
	Kind  string   `json:"kty"`
	Ops   []string `json:"key_ops"`
	Alg   string   `json:"alg"`
	Value string   `json:"k"`
	Ext   bool     `json:"ext"`
}

var errHash = errors.New("the encrypted file was changed on its way")

// fileType reports whether a message is a file.
func (c *content) fileType() bool {
	switch c.Type {
	case "m.image", "m.file", "m.audio", "m.video":
		return true
	}
	return false
}

// kind returns the word of the marker.
func (c *content) kind() string {
	if c.Type == "m.audio" && len(c.Voice) > 0 {
		return "voice"
	}
	return strings.TrimPrefix(c.Type, "m.")
}

// filename returns what the sender called the file.
func (c *content) filename() string {
	if c.Filename != "" {
		return c.Filename
	}
	if c.Body != "" {
		return c.Body
	}
	return c.kind()
}

// caption returns what the sender wrote beside a file.
func (c *content) caption() string {
	if c.Filename == "" || c.Filename == c.Body {
		return ""
	}
	return c.Body
}

// mark returns what others hear of a file or a place in a message that is not for us.
func (c *content) mark() string {
	switch {
	case c.fileType():
		return "[" + c.kind() + "]"
	case c.Type == "m.location":
		return "[location]"
	}
	return ""
}

// files is what came with a message.
type files struct {
	media  []bus.Media
	quotes []bus.Quote
	spoken []string // what the sender said
}

// fetch gets the file of a message. What cannot be had leaves a mark, so that
// the agent can say so.
func (rc *receiver) fetch(ctx context.Context, e event, c *content) (f files) {
	if c.Type == "m.location" {
		place, _, _ := strings.Cut(strings.TrimPrefix(c.Geo, "geo:"), ";")
		f.quotes = []bus.Quote{{About: "sent along", Text: "[location: " + text.Label(strings.ReplaceAll(place, ",", ", "), nameShown) + "]"}}
		return f
	}

	if !c.fileType() {
		return f
	}

	saved, err := rc.download(ctx, c)
	mark := ""
	switch {
	case errors.Is(err, errNoFiles):
		mark = fmt.Sprintf("[attachment: %s - files are not accepted]", media.FileName(c.filename()))
	case errors.Is(err, media.ErrTooLarge):
		mark = fmt.Sprintf("[attachment: %s - too large]", media.FileName(c.filename()))
	case err != nil:
		rc.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "room", e.Room, "message", e.ID, "err", err)
		mark = fmt.Sprintf("[attachment: %s - download failed]", media.FileName(c.filename()))
	default:
		if words := rc.transcribe(ctx, c, saved); words != "" {
			if c.kind() == "voice" {
				f.spoken = []string{words}
				return f
			}
			mark = words + "\n"
		}

		f.media = []bus.Media{saved}
		mark += fmt.Sprintf("[%s: %s]", c.kind(), saved.Path)
	}

	f.quotes = []bus.Quote{{About: "files", Text: mark}}
	return f
}

func (rc *receiver) transcribe(ctx context.Context, c *content, saved bus.Media) string {
	if c.Type != "m.audio" || rc.bot.deps.Transcribe == nil {
		return ""
	}
	if words := strings.TrimSpace(rc.bot.deps.Transcribe(ctx, saved.Path)); words != "" {
		return "[transcription: " + words + "]"
	}
	return ""
}

var errNoFiles = errors.New("maxMediaBytes is 0")

func (rc *receiver) download(ctx context.Context, c *content) (bus.Media, error) {
	limit := min(rc.bot.limit.Load(), rc.bot.deps.Media.Max)
	switch {
	case rc.bot.o.MaxMediaBytes == 0:
		return bus.Media{}, errNoFiles
	case c.Info.Size > limit:
		return bus.Media{}, media.ErrTooLarge
	}

	select { // so many at the same time
	case rc.bot.downloads <- struct{}{}:
		defer func() { <-rc.bot.downloads }()
	case <-ctx.Done():
		return bus.Media{}, ctx.Err()
	}

	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}
		saved, err := rc.downloadOnce(ctx, c, limit)
		if err == nil || errors.Is(err, media.ErrTooLarge) || errors.Is(err, errHash) || chat.IsPermanent(classify(err)) {
			return saved, err
		}
		last = err
	}

	return bus.Media{}, last
}

func (rc *receiver) downloadOnce(ctx context.Context, c *content, limit int64) (bus.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	address := c.URL
	if c.File != nil {
		address = c.File.URL
	}

	body, err := rc.bot.client.download(ctx, address)
	if err != nil {
		return bus.Media{}, err
	}

	defer body.Close() //nolint:errcheck // read only
	store := &media.Store{Dir: rc.bot.deps.Media.Dir, Max: limit}
	if c.File == nil {
		return store.Save(ctx, c.filename(), body)
	}

	// Nothing of an encrypted file is kept before it is proven to be whole.
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return bus.Media{}, err
	}
	if int64(len(data)) > limit {
		return bus.Media{}, media.ErrTooLarge
	}
	if err := c.File.unlock(data); err != nil {
		return bus.Media{}, chat.Permanent(err)
	}
	return store.Save(ctx, c.filename(), bytes.NewReader(data))
}

// unlock decrypts a file in place.
func (f *lockedFile) unlock(data []byte) error {
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(f.Key.Value, "="))
	if err != nil || len(key) != 32 || f.Key.Alg != "A256CTR" {
		return errors.New("the key of the encrypted file is malformed")
	}

	iv, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(f.IV, "="))
	if err != nil || len(iv) != aes.BlockSize {
		return errors.New("the key of the encrypted file is malformed")
	}

	sum := sha256.Sum256(data)
	if strings.TrimRight(f.Hashes["sha256"], "=") != base64.RawStdEncoding.EncodeToString(sum[:]) {
		return errHash
	}

	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}

	cipher.NewCTR(block, iv).XORKeyStream(data, data)
	return nil
}

// locker encrypts a file while it is read.
type locker struct {
	src    io.Reader
	stream cipher.Stream
	sum    hash.Hash
	file   lockedFile
}

func newLocker(src io.Reader) (*locker, error) {
	key, iv := make([]byte, 32), make([]byte, aes.BlockSize)
	_, _ = rand.Read(key)    // it cannot fail
	_, _ = rand.Read(iv[:8]) // the rest counts blocks
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return &locker{src: src, stream: cipher.NewCTR(block, iv), sum: sha256.New(), file: lockedFile{
		Key: fileKey{
			Kind:  "oct",
			Ops:   []string{"encrypt", "decrypt"},
			Alg:   "A256CTR",
			Value: base64.RawURLEncoding.EncodeToString(key),
			Ext:   true,
		},
		IV: base64.RawStdEncoding.EncodeToString(iv), V: "v2",
	}}, nil
}

// Read implements io.Reader.
func (l *locker) Read(p []byte) (int, error) {
	n, err := l.src.Read(p)
	l.stream.XORKeyStream(p[:n], p[:n])
	_, _ = l.sum.Write(p[:n]) // it cannot fail
	return n, err
}

// done returns the file after all of it was read.
func (l *locker) done(address string) *lockedFile {
	l.file.URL = address
	l.file.Hashes = map[string]string{"sha256": base64.RawStdEncoding.EncodeToString(l.sum.Sum(nil))}
	return &l.file
}
