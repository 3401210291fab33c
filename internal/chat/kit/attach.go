package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// FileKind is what a chat shows a file as.
type FileKind string

// The kinds of files, by the words of the markers in which the agent reads of them.
const (
	ImageFile FileKind = "image"
	VideoFile FileKind = "video"
	AudioFile FileKind = "audio"
	VoiceFile FileKind = "voice" // Opus in Ogg, which platforms play as a voice message
	OtherFile FileKind = "file"
)

// Attachment is a file to send. Its content is as long as Size says even if the
// file grows meanwhile.
type Attachment struct {
	*io.SectionReader
	Name string   // safe to show and to store
	Kind FileKind // by the content, whatever the name says
	MIME string   // by the content; of other files by the name, if that says more
	file io.Closer
}

// Close implements io.Closer.
func (a *Attachment) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

var errNoFile = errors.New("no file to send")

// OpenAttachment opens a file of this machine to send it, or fetches one from an address
// that the model or a stranger wrote. More than most bytes are media.ErrTooLarge, and
// no more are read.
func OpenAttachment(ctx context.Context, d chat.Deps, m bus.Media, most int64) (*Attachment, error) {
	name := m.Name
	if name == "" {
		name = filepath.Base(m.Path)
	}

	switch {
	case m.Path == "":
		return nil, chat.Permanent(errNoFile)
	case !strings.HasPrefix(m.Path, "https://") && !strings.HasPrefix(m.Path, "http://"):
		return openLocal(m.Path, name, most)
	}

	data, err := fetchAttachment(ctx, d.Fetch, m.Path, most)
	if err != nil {
		return nil, fmt.Errorf("fetch the file to send: %w", err)
	}

	if m.Name == "" {
		name = remoteName(m.Path)
	}
	return newAttachment(bytes.NewReader(data), int64(len(data)), name, nil)
}

func openLocal(file, name string, most int64) (*Attachment, error) {
	info, err := os.Stat(file) // before it is opened, which waits for the other end of a pipe
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil && info.Size() > most {
		err = tooLarge(name, most)
	}

	if err != nil {
		return nil, chat.Permanent(fmt.Errorf("open the file to send: %w", err))
	}

	f, err := os.Open(file)
	if err != nil {
		return nil, chat.Permanent(fmt.Errorf("open the file to send: %w", err))
	}
	return newAttachment(f, info.Size(), name, f)
}

func tooLarge(name string, most int64) error {
	return fmt.Errorf("%s: %w: %d bytes are the limit", media.FileName(name), media.ErrTooLarge, most)
}

func fetchAttachment(ctx context.Context, client func() (*http.Client, error), address string, most int64) ([]byte, error) {
	if client == nil {
		return nil, chat.Permanent(errNoFile)
	}

	h, err := client()
	if err != nil {
		return nil, err
	}

	defer h.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, chat.Permanent(err)
	}

	res, err := h.Do(req)
	if err != nil {
		return nil, err
	}

	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode != http.StatusOK {
		return nil, chat.Permanent(fmt.Errorf("HTTP status %d", res.StatusCode))
	}
	if res.ContentLength > most {
		return nil, chat.Permanent(tooLarge(remoteName(address), most))
	}

	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = chat.Permanent(tooLarge(remoteName(address), most))
	}
	return data, err
}

// remoteName returns the last part of an address without its query.
func remoteName(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	return path.Base(address)
}

func newAttachment(r io.ReaderAt, size int64, name string, file io.Closer) (*Attachment, error) {
	a := &Attachment{SectionReader: io.NewSectionReader(r, 0, size), Name: media.FileName(name), file: file}
	head := make([]byte, min(size, 512))
	if _, err := a.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("read the file to send: %w", err), a.Close())
	}

	a.MIME = sniff(head)
	a.Kind = kindOf(a.MIME)
	if bytes.HasPrefix(head, []byte("OggS")) && bytes.Contains(head[:min(len(head), 64)], []byte("OpusHead")) {
		a.Kind = VoiceFile
	}
	if named := mime.TypeByExtension(filepath.Ext(a.Name)); a.Kind == OtherFile && named != "" && kindOf(named) == OtherFile {
		a.MIME = named
	}
	return a, nil
}

func kindOf(mimeType string) FileKind {
	switch kind, _, _ := strings.Cut(mimeType, "/"); FileKind(kind) {
	case ImageFile:
		if strings.HasPrefix(mimeType, "image/svg") {
			return OtherFile // a document that can hold scripts
		}
		return ImageFile

	case AudioFile:
		return AudioFile
	case VideoFile:
		return VideoFile
	}
	return OtherFile
}

// sniff is http.DetectContentType for the sounds and videos of chats as well.
func sniff(head []byte) string {
	at := func(i int, s string) bool { return len(head) >= i+len(s) && string(head[i:i+len(s)]) == s }
	switch {
	case at(0, "OggS") && bytes.Contains(head, []byte("\x80theora")):
		return "video/ogg"
	case at(0, "OggS"):
		return "audio/ogg"
	case at(0, "fLaC"):
		return "audio/flac"
	case at(0, "#!AMR"):
		return "audio/amr"
	case at(4, "ftypM4A"), at(4, "ftypM4B"):
		return "audio/mp4"
	case at(4, "ftypqt"):
		return "video/quicktime"
	case at(4, "ftyp3g"):
		return "video/3gpp"
	case at(4, "ftyphei"), at(4, "ftypmif1"):
		return "image/heic"
	case at(4, "ftypavif"):
		return "image/avif"
	case at(4, "ftyp"):
		return "video/mp4"
	case len(head) > 3 && head[0] == 0xff && head[1]&0xe6 == 0xe2 && head[2]>>4 != 0xf: // a frame of layer 3
		return "audio/mpeg"
	case len(head) > 3 && head[0] == 0xff && head[1]&0xf6 == 0xf0: // ADTS
		return "audio/aac"
	}

	return http.DetectContentType(head)
}
