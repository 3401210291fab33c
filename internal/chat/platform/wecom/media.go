package wecom

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	padding       = 32 // bytes that the length of an encrypted file is a multiple of
	keyLength     = 32
	filesMost     = 20        // of one message
	downloadMost  = 100 << 20 // bytes
	downloadTime  = time.Minute
	downloadTries = 3
	downloadPause = time.Second
)

var errCipher = errors.New("the file cannot be decrypted")

// pieces are what a message is made of.
type pieces struct {
	bot   *bot
	typed []string // words of the sender
	marks []string // what else came
	media []bus.Media
}

func (p *pieces) add(ctx context.Context, c *content) {
	switch c.Type {
	case "text":
		p.write(c.Text.Content)
	case "voice": // WeCom wrote down what the sender said
		p.write("[voice] " + c.Voice.Content)
	case "image":
		p.fetch(ctx, "image", c.Image)
	case "file":
		p.fetch(ctx, "file", c.File)
	case "video":
		p.fetch(ctx, "video", c.Video)
	case "mixed":
		for i := range c.Mixed.Items {
			if c.Mixed.Items[i].Type != "mixed" {
				p.add(ctx, &c.Mixed.Items[i])
			}
		}

	default:
		p.bot.once(ctx, "unknown kind of message", "msgtype", c.Type)
		p.marks = append(p.marks, "["+text.Label(c.Type, nameShown)+": cannot be shown]")
	}
}

func (p *pieces) write(s string) {
	if s = strings.TrimSpace(text.Valid(s)); s != "" {
		p.typed = append(p.typed, s)
	}
}

// fetch gets a file. What cannot be had leaves a mark, so that the agent can say
// so.
func (p *pieces) fetch(ctx context.Context, kind string, f file) {
	if len(p.media) >= filesMost {
		p.marks = append(p.marks, "["+kind+": too many files in one message]")
		return
	}

	saved, err := p.bot.download(ctx, kind, f)
	switch {
	case errors.Is(err, media.ErrTooLarge):
		p.marks = append(p.marks, "["+kind+": too large]")
	case err != nil:
		p.bot.deps.Log.WarnContext(ctx, "cannot fetch a file", "err", err)
		p.marks = append(p.marks, "["+kind+": download failed]")
	default:
		p.media = append(p.media, saved)
		p.marks = append(p.marks, "["+kind+": "+saved.Path+"]")
	}
}

// download gets a file and decrypts it. Its address is good for five minutes.
func (b *bot) download(ctx context.Context, kind string, f file) (bus.Media, error) {
	for try := 0; ; try++ {
		name, data, err := b.get(ctx, f.URL)
		if err == nil && f.AESKey != "" {
			data, err = decrypt(f.AESKey, data)
		}

		if err == nil {
			if name == "" {
				name = kind + extension(data)
			}
			return b.deps.Media.Save(ctx, name, bytes.NewReader(data))
		}

		if chat.IsPermanent(err) || errors.Is(err, errCipher) || try+1 == downloadTries || wait.For(ctx, downloadPause<<try) != nil {
			return bus.Media{}, err
		}
	}
}

// get fetches what an address has. An error does not show the address, which is
// all that one needs to read the file.
func (b *bot) get(ctx context.Context, address string) (name string, data []byte, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", nil, chat.Permanent(errors.New("the file has no address"))
	}

	h, err := b.deps.Fetch()
	if err != nil {
		return "", nil, err
	}

	defer h.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	res, err := kit.Download(ctx, h, address, nil)
	if err != nil {
		return "", nil, err
	}

	defer res.Body.Close() //nolint:errcheck // read only
	most := min(b.deps.Media.Max, downloadMost) + padding
	data, err = io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = chat.Permanent(media.ErrTooLarge)
	}
	return fileName(res.Header.Get("Content-Disposition")), data, err
}

// fileName returns the name in the header of a download, "" if there is none.
func fileName(header string) string {
	_, params, err := mime.ParseMediaType(header)
	name := params["filename"]
	if err != nil {
		_, name, _ = strings.Cut(header, "filename=")
		name, _, _ = strings.Cut(name, ";")
		name = strings.Trim(name, `" `)
	}

	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return text.Valid(name)
}

// extension returns the end of a name for a file without one.
func extension(data []byte) string {
	switch http.DetectContentType(data) {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "video/mp4":
		return ".mp4"
	case "application/pdf":
		return ".pdf"
	}
	return ""
}

// decrypt undoes AES-256-CBC, whose first block comes from the key, with a
// padding to 32 bytes.
func decrypt(key string, data []byte) ([]byte, error) {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(key, "="))
	if err != nil || len(raw) != keyLength {
		return nil, fmt.Errorf("%w: its key is not one", errCipher)
	}

	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil, fmt.Errorf("%w: its length is wrong", errCipher)
	}

	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, raw[:aes.BlockSize]).CryptBlocks(out, data)

	n := int(out[len(out)-1])
	if n < 1 || n > padding || n > len(out) || !bytes.Equal(out[len(out)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, fmt.Errorf("%w: its end is wrong", errCipher)
	}
	return out[:len(out)-n], nil
}
