package subject_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

type file struct {
	Path, Name, MIME, Kind string
	Size                   int64
	Truncated              bool
	Content                *string
	DataURL                string `json:"data_url"`
}

func TestPreview(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00p", 100)
	h.write(t, "notes/a.md", "# Grüße\nsk-hush-0123456789\n")
	h.write(t, "cat.png", png)
	h.write(t, "big.png", png+strings.Repeat("x", 400<<10))
	h.write(t, "long.txt", strings.Repeat("a", 384<<10-1)+"ü and more")
	h.write(t, "data.bin", "a\x00b")
	h.write(t, "latin.txt", "Gr\xfc\xdfe")
	h.write(t, "empty", "")
	at := "sessions/websocket:new/file-preview?path="
	for _, c := range []struct {
		name, kind, mime string
		truncated        bool
	}{
		{"notes/a.md", "text", "text/markdown", false},
		{"cat.png", "image", "image/png", false},
		{"long.txt", "text", "text/plain", true},
		{"data.bin", "binary", "application/octet-stream", false},
		{"latin.txt", "binary", "application/octet-stream", false},
		{"empty", "text", "text/plain", false},
		{filepath.Join(h.Workspace, "cat.png"), "image", "image/png", false},
	} {
		for _, probe := range []string{"", "&probe=1"} {
			f := read[file](t, h, at+c.name+probe)
			info, err := os.Stat(filepath.Join(h.Workspace, f.Path))
			if err != nil || f.Name != filepath.Base(c.name) || f.Kind != c.kind || f.MIME != c.mime || f.Size != info.Size() || f.Truncated != c.truncated {
				t.Errorf("%s%s = %+v, %v", c.name, probe, f, err)
			}
			if (f.Content != nil) != (c.kind == "text" && probe == "") || (f.DataURL != "") != (c.kind == "image" && probe == "") {
				t.Errorf("%s%s: content %v, %d bytes of picture", c.name, probe, f.Content != nil, len(f.DataURL))
			}
		}
	}
	if f := read[file](t, h, at+"notes/a.md"); *f.Content != "# Grüße\n[redacted:key]\n" {
		t.Errorf("content = %q", *f.Content)
	}
	if f := read[file](t, h, at+"long.txt"); len(*f.Content) != 384<<10-1 || f.MIME != "text/plain" {
		t.Errorf("a long text has %d bytes, want what comes before the cut character", len(*f.Content))
	}
	if f := read[file](t, h, at+"cat.png"); f.DataURL != "data:image/png;base64,"+base64.StdEncoding.EncodeToString([]byte(png)) {
		t.Errorf("data_url = %.60s", f.DataURL)
	}
	if f := read[file](t, h, at+"big.png&probe=1"); f.Kind != "image" {
		t.Errorf("a probe of a large picture: %+v", f)
	}
	h.refused(t, at+"big.png", 413, "384 KiB")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/"+at+"big.png&download=1", http.NoBody))
	if w.Code != 200 || w.Body.String() != png+strings.Repeat("x", 400<<10) || w.Header().Get("Content-Disposition") != "attachment; filename=big.png" {
		t.Errorf("a download: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestPreviewRefuses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	free, err := diskio.OpenJail(diskio.JailOptions{Workspace: h.Workspace, Protected: []string{filepath.Join(h.Workspace, "secret.txt")}})
	must(t, err)
	t.Cleanup(func() { must(t, free.Close()) })
	h.Jail = free // tools may go anywhere, lookers may not
	h.write(t, "secret.txt", "hush")
	h.write(t, "dir/x", "x")
	outside := filepath.Join(t.TempDir(), "o.txt")
	must(t, os.WriteFile(outside, []byte("outside"), 0o600))
	at := "sessions/websocket:new/file-preview?path="
	if err := os.Symlink(outside, filepath.Join(h.Workspace, "link")); err == nil {
		h.refused(t, at+"link", 403, "outside")
	}
	h.refused(t, at+outside, 403, "outside")
	h.refused(t, at+"../x", 403, "outside")
	h.refused(t, at+"secret.txt", 403, "protected")
	h.refused(t, at+"secret.txt&probe=1", 403, "protected")
	h.refused(t, at+"secret.txt&download=1", 403, "protected")
	h.refused(t, at+"none.txt", 404, "no file")
	h.refused(t, at+"dir", 422, "directory")
	h.refused(t, at+"a%00b", 422, "")
	h.refused(t, at, 400, "path")
	h.refused(t, at+"dir/x&probe=yes", 400, "probe")
}

// A conversation that works in a folder of its own means files there, also
// when that lies outside of the workspace.
func TestPreviewInProject(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	far, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	free, err := diskio.OpenJail(diskio.JailOptions{Workspace: h.Workspace})
	must(t, err)
	t.Cleanup(func() { must(t, free.Close()) })
	h.Jail = free
	h.write(t, "x.txt", "outer")
	h.write(t, "proj/x.txt", "inner")
	must(t, os.WriteFile(filepath.Join(far, "x.txt"), []byte("far"), 0o600))
	inside, err := filepath.EvalSymlinks(filepath.Join(h.Workspace, "proj"))
	must(t, err)
	for key, dir := range map[string]string{"websocket:p": inside, "websocket:far": far, "websocket:gone": filepath.Join(far, "gone")} {
		must(t, h.Sessions.Annotate(t.Context(), key, func(s *session.Session) error {
			return s.SetMeta("workspace_scope", map[string]string{"project_path": dir, "access_mode": "restricted"})
		}))
	}
	for key, want := range map[string]string{"websocket:p": "inner", "websocket:other": "outer", "websocket:far": "far", "websocket:gone": "outer"} {
		f := read[file](t, h, "sessions/"+key+"/file-preview?path=x.txt")
		if *f.Content != want || f.Path != "x.txt" {
			t.Errorf("%s shows %q as %s, want %q", key, *f.Content, f.Path, want)
		}
		// The workspace can be seen from everywhere, other folders only from their own conversation.
		if f := read[file](t, h, "sessions/"+key+"/file-preview?path="+filepath.Join(h.Workspace, "x.txt")); *f.Content != "outer" {
			t.Errorf("%s shows %q of the workspace", key, *f.Content)
		}
	}
	h.refused(t, "sessions/websocket:p/file-preview?path="+filepath.Join(far, "x.txt"), 403, "outside")
	h.refused(t, "sessions/websocket:far/file-preview?path=../x", 403, "outside")
}
