package kit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// What came with a message is fetched within limits; what cannot be had leaves
// a mark.
func TestFiles(t *testing.T) {
	t.Parallel()
	d := chattest.NewRig(t).Deps("test")
	d.Media.Max = 100
	d.Transcribe = func(context.Context, string) string { return "words" }
	opened := 0
	data := func(size int) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) {
			opened++
			return io.NopCloser(bytes.NewReader(make([]byte, size))), nil
		}
	}
	f := kit.NewFiles(d)
	f.Add(t.Context(), kit.Received{Kind: kit.ImageFile, Name: "../a.png", Open: data(5)})
	f.Add(t.Context(), kit.Received{Kind: kit.VoiceFile, Open: data(5)})
	f.Add(t.Context(), kit.Received{Kind: kit.AudioFile, Name: "song", Open: data(5)})
	f.Add(t.Context(), kit.Received{Kind: kit.OtherFile, Name: "said", Size: 101, Open: data(5)})
	if opened != 3 {
		t.Errorf("%d files were fetched", opened)
	}
	f.Add(t.Context(), kit.Received{Kind: kit.OtherFile, Name: "big", Open: data(101)})
	f.Add(t.Context(), kit.Received{Kind: kit.OtherFile, Name: "gone", Open: func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no") }})
	for range 5 {
		f.Add(t.Context(), kit.Received{Kind: kit.OtherFile, Name: "more", Open: data(1)})
	}
	if opened != 8 || len(f.Media) != 6 {
		t.Errorf("%d files were fetched, %d are there", opened, len(f.Media))
	}
	if strings.Join(f.Spoken, "") != "[transcription: words]" {
		t.Errorf("spoken %q", f.Spoken)
	}
	got := f.Quotes()[0].Text
	for _, m := range f.Media {
		got = strings.Replace(got, m.Path, "PATH"+filepath.Ext(m.Path), 1)
	}
	want := strings.Join([]string{
		"[image: PATH.png]", "[transcription: words]", "[audio: PATH]", "[attachment: said - too large]", "[attachment: big - too large]",
		"[attachment: gone - download failed]", "[file: PATH]", "[file: PATH]", "[file: PATH]", "[file: PATH]", "[attachment: more - too many files in one message]",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
