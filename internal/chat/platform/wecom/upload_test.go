package wecom

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

func (r *rig) sendMedia(name string, data []byte) error {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	out := bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: wecomtest.Ann}, Media: []bus.Media{{Path: path, Name: name}}}
	_, err := r.Send(r.t.Context(), out)
	return err
}

// Files go in pieces, each kind as WeCom shows it; what it does not take as a
// picture goes as a file.
func TestUpload(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, chunkSize+100)...)
	for name, data := range map[string][]byte{
		"a.png": png,
		"b.jpg": append([]byte("\xff\xd8\xff\xe0"), make([]byte, imageMost)...),
		"c.amr": []byte("#!AMR\n12345678"),
		"d.mp3": append([]byte("ID3\x03"), make([]byte, 100)...),
		"e.mp4": []byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"),
		"f.txt": []byte("content"),
	} {
		if err := r.sendMedia(name, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	kinds := map[string]string{}
	for _, u := range r.fake.Uploaded() {
		kinds[u.Name] = u.Kind
		if u.Name == "a.png" && !bytes.Equal(u.Data, png) {
			t.Error("the picture is not what was sent")
		}
	}
	want := map[string]string{"a.png": "image", "b.jpg": "file", "c.amr": "voice", "d.mp3": "file", "e.mp4": "video", "f.txt": "file"}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
	if n := len(r.fake.Shown()); n != len(want) {
		t.Errorf("people see %d files", n)
	}
}

// A piece that WeCom refuses at first is sent again; a picture that it does not
// take goes as a file; what it takes in no form is an error for good.
func TestUploadTrouble(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	png := []byte("\x89PNG\r\n\x1a\n12345678")
	r.fake.Fail(cmdChunk, codeBusy, "system busy")
	if err := r.sendMedia("a.png", png); err != nil {
		t.Error(err)
	}
	r.fake.Fail(cmdFinish, 40009, "invalid image size")
	if err := r.sendMedia("b.png", png); err != nil {
		t.Error(err)
	}
	if err := r.sendMedia("tiny.txt", []byte("12345")); !chat.IsPermanent(err) {
		t.Errorf("a tiny file: %v", err)
	}
	if err := r.sendMedia("none.txt", nil); !chat.IsPermanent(err) {
		t.Errorf("an empty file: %v", err)
	}
	r.fake.Fail(cmdInit, codeBusy, "system busy")
	if err := r.sendMedia("c.txt", png[4:]); err == nil || chat.IsPermanent(err) {
		t.Errorf("a server that is busy: %v", err)
	}
	if d := cmp.Diff([]string{"image: a.png", "file: b.png"}, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}
