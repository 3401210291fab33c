package kit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// A file is what its content says.
func TestAttachmentKind(t *testing.T) {
	t.Parallel()
	const ogg = "OggS\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x13"
	dir := t.TempDir()
	for name, c := range map[string]struct {
		data string
		kind kit.FileKind
		mime string
	}{
		"a.jpg":        {"\xff\xd8\xff\xe0", kit.ImageFile, "image/jpeg"},
		"b.bin":        {"\x89PNG\r\n\x1a\n", kit.ImageFile, "image/png"},
		"c.gif":        {"GIF89a", kit.ImageFile, "image/gif"},
		"d.webp":       {"RIFF\x00\x00\x00\x00WEBPVP8 ", kit.ImageFile, "image/webp"},
		"e.heic":       {"\x00\x00\x00\x18ftypheic", kit.ImageFile, "image/heic"},
		"text.jpg":     {"not a picture", kit.OtherFile, "text/plain; charset=utf-8"},
		"page.png":     {"<html><script>alert(1)</script>", kit.OtherFile, "text/html; charset=utf-8"},
		"drawing.svg":  {"<svg xmlns='http://www.w3.org/2000/svg'/>", kit.OtherFile, ""},
		"voice.ogg":    {ogg + "OpusHead", kit.VoiceFile, "audio/ogg"},
		"vorbis.ogg":   {ogg + "\x01vorbis", kit.AudioFile, "audio/ogg"},
		"late.ogg":     {ogg + strings.Repeat("\x00", 100) + "OpusHead", kit.AudioFile, "audio/ogg"},
		"film.ogv":     {ogg + "\x80theora", kit.VideoFile, "video/ogg"},
		"tagged.mp3":   {"ID3\x04", kit.AudioFile, "audio/mpeg"},
		"bare.mp3":     {"\xff\xfb\x90\x64", kit.AudioFile, "audio/mpeg"},
		"utf16.mp3":    {"\xff\xfeh\x00i\x00", kit.OtherFile, "text/plain; charset=utf-16le"},
		"x.aac":        {"\xff\xf1\x50\x80", kit.AudioFile, "audio/aac"},
		"x.flac":       {"fLaC\x00", kit.AudioFile, "audio/flac"},
		"x.wav":        {"RIFF\x00\x00\x00\x00WAVE", kit.AudioFile, "audio/wave"},
		"song.m4a":     {"\x00\x00\x00\x20ftypM4A \x00\x00\x00\x00M4A mp42isom", kit.AudioFile, "audio/mp4"},
		"x.mp4":        {"\x00\x00\x00\x18ftypisom", kit.VideoFile, "video/mp4"},
		"x.mov":        {"\x00\x00\x00\x14ftypqt  ", kit.VideoFile, "video/quicktime"},
		"x.mkv":        {"\x1a\x45\xdf\xa3", kit.VideoFile, "video/webm"},
		"empty":        {"", kit.OtherFile, "text/plain; charset=utf-8"},
		"table.json":   {"{}", kit.OtherFile, "application/json"},
		"unknown.zzzz": {"\x00\x01\x02\x03", kit.OtherFile, "application/octet-stream"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := kit.OpenAttachment(t.Context(), chat.Deps{}, bus.Media{Path: path}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(a)
		if err != nil || string(data) != c.data || a.Size() != int64(len(c.data)) || a.Name != name {
			t.Errorf("%s: %q of %d bytes, %v", name, data, a.Size(), err)
		}
		if a.Kind != c.kind || c.mime != "" && a.MIME != c.mime {
			t.Errorf("%s: %s, %s, want %s, %s", name, a.Kind, a.MIME, c.kind, c.mime)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Files that cannot be sent are refused for good, and a large one unread.
func TestAttachmentRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, large := range map[string]bool{"": false, dir: false, filepath.Join(dir, "none"): false, big: true, "http://x.test/a": false} {
		_, err := kit.OpenAttachment(t.Context(), chat.Deps{}, bus.Media{Path: path}, 100)
		if !chat.IsPermanent(err) || errors.Is(err, media.ErrTooLarge) != large {
			t.Errorf("Open(%q): %v", path, err)
		}
	}
}

// A file that grows while it is sent is sent as it was.
func TestAttachmentGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := kit.OpenAttachment(t.Context(), chat.Deps{}, bus.Media{Path: path, Name: "../a/b\n.log"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.WriteFile(path, []byte("one two three"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(a); err != nil || string(data) != "one" || a.Size() != 3 {
		t.Errorf("%q of %d bytes, %v", data, a.Size(), err)
	}
	if strings.ContainsAny(a.Name, "/\n") {
		t.Errorf("name %q", a.Name)
	}
}

func TestAttachmentFetched(t *testing.T) {
	t.Parallel()
	read := make(chan int, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pic.png":
			_, _ = io.WriteString(w, "\x89PNG\r\n\x1a\n")
		case "/announced":
			w.Header().Set("Content-Length", "1000000000")
			_, _ = w.Write(make([]byte, 10))
		case "/endless":
			n := 0
			for block := make([]byte, 1<<16); r.Context().Err() == nil; n++ {
				if _, err := w.Write(block); err != nil {
					break
				}
			}
			read <- n
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	d := chat.Deps{Fetch: func() (*http.Client, error) { return &http.Client{Transport: &http.Transport{}}, nil }}
	a, err := kit.OpenAttachment(t.Context(), d, bus.Media{Path: srv.URL + "/pic.png?size=9#x"}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "pic.png" || a.Kind != kit.ImageFile || a.Size() != 8 || a.Close() != nil {
		t.Errorf("%q, %s, %d bytes", a.Name, a.Kind, a.Size())
	}
	for _, path := range []string{"/announced", "/endless"} {
		if _, err := kit.OpenAttachment(t.Context(), d, bus.Media{Path: srv.URL + path}, 100); !errors.Is(err, media.ErrTooLarge) || !chat.IsPermanent(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	<-read // the connection was given up
	if _, err := kit.OpenAttachment(t.Context(), d, bus.Media{Path: srv.URL + "/none"}, 100); !chat.IsPermanent(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	private := errors.New("a private address")
	d.Fetch = func() (*http.Client, error) { return nil, private }
	if _, err := kit.OpenAttachment(t.Context(), d, bus.Media{Path: srv.URL + "/pic.png"}, 100); !errors.Is(err, private) {
		t.Errorf("Open: %v, want what Fetch says", err)
	}
}
