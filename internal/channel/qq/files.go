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
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/wait"
)

const (
	filesMost       = 10 // of one message
	downloadTries   = 3
	downloadRetry   = time.Second
	downloadTimeout = 2 * time.Minute
)

// files fetches what came with one message for the agent.
type files struct {
	bot    *bot
	media  []bus.Media
	marks  []string
	spoken []string // what the sender said
}

// kind is the word of the marker of a file.
func (a attachment) kind() channel.FileKind {
	if a.ContentType == "voice" {
		return channel.VoiceFile
	}
	word, _, _ := strings.Cut(a.ContentType, "/")
	switch k := channel.FileKind(word); k {
	case channel.ImageFile, channel.AudioFile, channel.VideoFile:
		return k
	}
	return channel.OtherFile
}

// name is that of a file, made of its address if QQ tells none.
func (a attachment) name() string {
	if a.Filename != "" {
		return a.Filename
	}
	if u, err := url.Parse(a.URL); err == nil && path.Ext(u.Path) != "" {
		return path.Base(u.Path)
	}
	return string(a.kind())
}

// add fetches the files of a message. What cannot be had leaves a mark, so that
// the agent can say so.
func (f *files) add(ctx context.Context, m *message) {
	for i, a := range m.Attachments {
		if words := strings.TrimSpace(a.Spoken); words != "" && a.kind() == channel.VoiceFile {
			f.spoken = append(f.spoken, "[transcription: "+words+"]") // QQ did it
			continue
		}
		if i >= filesMost {
			f.miss(a, "too many files in one message")
			continue
		}
		switch media, err := f.fetch(ctx, a); {
		case errors.Is(err, channel.ErrTooLarge):
			f.miss(a, "too large")
		case err != nil:
			f.bot.deps.Log.WarnContext(ctx, "fetch a file", "message", m.ID, "err", err)
			f.miss(a, "download failed")
		default:
			f.keep(ctx, a.kind(), media)
		}
	}
}

func (f *files) miss(a attachment, why string) { f.marks = append(f.marks, lost(a.name(), why)) }

// lost is the line that stands for a file.
func lost(name, why string) string {
	return fmt.Sprintf("[attachment: %s - %s]", channel.SafeName(name), why)
}

// keep notes a file. Words that could be made of a voice message stand for it.
func (f *files) keep(ctx context.Context, kind channel.FileKind, media bus.Media) {
	if (kind == channel.VoiceFile || kind == channel.AudioFile) && f.bot.deps.Transcribe != nil {
		if words := strings.TrimSpace(f.bot.deps.Transcribe(ctx, media.Path)); words != "" {
			line := "[transcription: " + words + "]"
			if kind == channel.VoiceFile {
				f.spoken = append(f.spoken, line)
				return
			}
			f.marks = append(f.marks, line) // other sounds can be of anyone
		}
	}
	f.media = append(f.media, media)
	f.marks = append(f.marks, fmt.Sprintf("[%s: %s]", kind, media.Path))
}

func (f *files) fetch(ctx context.Context, a attachment) (bus.Media, error) {
	most := min(f.bot.deps.Media.Max, f.bot.o.DownloadMaxBytes)
	if int64(a.Size) > most {
		return bus.Media{}, channel.ErrTooLarge
	}
	address := a.URL
	if a.kind() == channel.VoiceFile && a.VoiceURL != "" {
		address = a.VoiceURL // else it is SILK, which few programs read
	}
	if strings.HasPrefix(address, "//") {
		address = "https:" + address
	}
	store := &channel.MediaStore{Dir: f.bot.deps.Media.Dir, Max: most}
	var last error
	for try := range downloadTries {
		if try > 0 && wait.For(ctx, downloadRetry<<try) != nil {
			return bus.Media{}, ctx.Err()
		}
		media, again, err := f.once(ctx, address, a.name(), store)
		if err == nil || !again || errors.Is(err, channel.ErrTooLarge) {
			return media, err
		}
		last = err
	}
	return bus.Media{}, last
}

// once downloads a file. Again says that another try may help. The address is all
// that is needed, so the token stays here.
func (f *files) once(ctx context.Context, address, name string, store *channel.MediaStore) (media bus.Media, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	h, err := f.bot.clientFor(address)
	if err != nil {
		return bus.Media{}, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
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
	media, err = store.Save(ctx, name, res.Body)
	return media, true, err
}

// clientFor is the client that fetches a file: QQ's own hosts are reached like
// its API, by the proxy of the section; others only where strangers may send us.
func (b *bot) clientFor(address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, httpsafe.WithoutURL(err)
	}
	own, err := url.Parse(b.o.APIBaseURL)
	if err != nil {
		return nil, err
	}
	host := u.Hostname()
	if u.Host == own.Host && u.Scheme == own.Scheme || u.Scheme == "https" && (strings.HasSuffix(host, ".qq.com") || strings.HasSuffix(host, ".qq.com.cn") || strings.HasSuffix(host, ".qpic.cn")) {
		return b.calls.http, nil
	}
	if b.deps.Fetch == nil {
		return nil, errors.New("the file is not at QQ")
	}
	return b.deps.Fetch()
}

// The types of files that are sent.
const (
	filePicture = 1
	fileVideo   = 2
	fileVoice   = 3
	fileOther   = 4
)

// fileType is what QQ shows a file as.
func fileType(f *channel.Attachment, head []byte) int {
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
	f, err := b.deps.Open(ctx, m, maxFile)
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
			return outgoing{}, channel.Permanent(errors.New("only pictures can be sent in guilds"))
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
	if err := b.calls.do(ctx, call{method: http.MethodPost, path: to.path("files"), body: body, patience: uploadTimeout}, &a); err != nil {
		return outgoing{}, classify(err)
	}
	if a.Info == "" {
		return outgoing{}, errors.New("QQ named no file")
	}
	media := typeMedia
	return outgoing{Type: &media, Media: &mediaBody{a.Info}, Content: " "}, nil
}
