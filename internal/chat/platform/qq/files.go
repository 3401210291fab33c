package qq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// kind returns the word of the marker of a file.
func (a attachment) kind() kit.FileKind {
	if a.ContentType == "voice" {
		return kit.VoiceFile
	}
	word, _, _ := strings.Cut(a.ContentType, "/")
	switch k := kit.FileKind(word); k {
	case kit.ImageFile, kit.AudioFile, kit.VideoFile:
		return k
	}
	return kit.OtherFile
}

// name returns that of a file, made of its address if QQ tells none.
func (a attachment) name() string {
	if a.Filename != "" {
		return a.Filename
	}
	if u, err := url.Parse(a.URL); err == nil && path.Ext(u.Path) != "" {
		return path.Base(u.Path)
	}
	return string(a.kind())
}

// received returns a file that came with a message. Its address is all that is needed
// to read it, so the token stays here.
func (b *bot) received(a attachment) kit.Received {
	address := a.URL
	if a.kind() == kit.VoiceFile && a.VoiceURL != "" {
		address = a.VoiceURL // else it is SILK, which few programs read
	}
	if strings.HasPrefix(address, "//") {
		address = "https:" + address
	}

	origin := kit.Origin{Client: b.calls.rest.Client, Bases: []string{b.o.APIBaseURL}, Ours: atQQ}
	open := func(ctx context.Context) (io.ReadCloser, error) { return origin.Open(ctx, b.deps, address) }
	return kit.Received{
		Kind:  a.kind(),
		Name:  a.name(),
		Size:  int64(a.Size),
		Max:   b.o.DownloadMaxBytes,
		Open:  open,
		Again: true,
	}
}

func atQQ(host string) bool {
	return strings.HasSuffix(host, ".qq.com") || strings.HasSuffix(host, ".qq.com.cn") || strings.HasSuffix(host, ".qpic.cn")
}

// lost returns the line that stands for a file that could not be sent.
func lost(name, why string) string {
	return fmt.Sprintf("[attachment: %s - %s]", media.FileName(name), why)
}

// The types of files that are sent.
const (
	filePicture = 1
	fileVideo   = 2
	fileVoice   = 3
	fileOther   = 4
)

// fileType returns what QQ shows a file as.
func fileType(f *kit.Attachment, head []byte) int {
	switch {
	case f.MIME == "image/png" || f.MIME == "image/jpeg":
		return filePicture
	case f.MIME == "video/mp4":
		return fileVideo
	case strings.Contains(string(head[:min(len(head), 12)]), "#!SILK"):
		return fileVoice
	}
	return fileOther
}

// upload brings a file to QQ and returns what a message names it by.
func (b *bot) upload(ctx context.Context, to target, m bus.Media) (outgoing, error) {
	f, err := kit.OpenAttachment(ctx, b.deps, m, maxFile)
	if err != nil {
		return outgoing{}, err
	}

	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(f)
	if err != nil {
		return outgoing{}, err
	}

	what := fileType(f, data)
	if !to.kind.modern() {
		if what != filePicture {
			return outgoing{}, chat.Permanent(errors.New("only pictures can be sent in guilds"))
		}
		return outgoing{picture: data}, nil
	}

	body := map[string]any{"file_type": what, "file_data": data, "srv_send_msg": false} // bytes become base64
	if what == fileOther {
		body["file_name"] = f.Name // with it, pictures would be shown as files
	}

	var a struct {
		Info string `json:"file_info"`
	}
	k := kit.Call{Method: http.MethodPost, Path: to.path("files"), Body: kit.JSON(body), Within: uploadTimeout}
	if err := b.calls.send(ctx, k, &a); err != nil {
		return outgoing{}, classify(err)
	}
	if a.Info == "" {
		return outgoing{}, errors.New("QQ named no file")
	}

	kind := typeMedia
	return outgoing{Type: &kind, Media: &mediaBody{a.Info}, Content: " "}, nil
}
