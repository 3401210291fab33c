package subject

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	maxPreview   = 384 << 10 // of a file that is shown
	previewProbe = 8 << 10   // by which a file is recognised
)

// The kinds of files.
const (
	fileText   = "text"
	fileImage  = "image"
	fileBinary = "binary"
)

// file is a file as it is shown.
type file struct {
	Path      string  `json:"path"` // relative to where the conversation works if it lies there
	Name      string  `json:"name"`
	Size      int64   `json:"size"`
	MIME      string  `json:"mime"`
	Kind      string  `json:"kind"`
	Modified  string  `json:"modified_at,omitempty"`
	Truncated bool    `json:"truncated"`
	Content   *string `json:"content,omitempty"`  // of a text
	DataURL   string  `json:"data_url,omitempty"` // of an image
}

// Files are those that can be seen from a conversation.
type Files struct{ Now Source }

// Routes implements web.Subject.
func (f Files) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"sessions/{key}/file-preview": f.preview}}
}

// preview shows a file of the workspace, through the same door as the tools of
// the model, or serves it unchanged.
func (f Files) preview(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	name := q.Get("path")
	if name == "" {
		return nil, web.Refuse(http.StatusBadRequest, "path is missing: say which file")
	}

	probe := q.Get("probe")
	if probe != "" && probe != "0" && probe != "1" {
		return nil, web.Refuse(http.StatusBadRequest, "probe is 0 or 1")
	}

	now, err := f.Now(ctx)
	if err != nil {
		return nil, err
	}

	jail, done, err := now.window(ctx, r.PathValue("key"))
	if err != nil {
		return nil, err
	}

	opened, err := jail.Open(name)
	if err != nil {
		done()
		return nil, barred(name, err)
	}

	release := func() { _ = opened.Close(); done() } // only read from
	if q.Get("download") == "1" {
		head, err := io.ReadAll(io.LimitReader(opened, previewProbe))
		if err != nil {
			release()
			return nil, err
		}

		mime := "application/octet-stream"
		var p file
		if p.recognise(head); p.Kind == fileImage { // a page shows it; what could run as a page stays a file
			mime = p.MIME
		}
		return web.Download{Name: filepath.Base(name), MIME: mime, Write: func(w io.Writer) error {
			defer release()
			_, err := io.Copy(w, io.MultiReader(bytes.NewReader(head), opened))
			return err
		}}, nil
	}

	defer release()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}

	abs, err := jail.Path(name)
	if err != nil {
		return nil, err
	}

	out := &file{Path: filepath.ToSlash(jail.Display(abs)), Name: filepath.Base(abs), Size: info.Size(), Modified: stamp(info.ModTime())}
	return out, out.read(opened, probe != "1", now.Secrets)
}

// window is what can be seen from a conversation: the workspace, files that
// came with messages, and the folder it works in, where its relative names
// start. However far the model's tools reach, the page does not look at the rest of the
// machine from afar.
func (p *Program) window(ctx context.Context, key string) (jail *diskio.Jail, done func(), err error) {
	jail, done = p.Jail.Narrower(diskio.Narrow{Restrict: true}), func() {}
	meta, err := p.Sessions.Metadata(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return jail, done, nil // nothing was said in it yet
	}
	if err != nil {
		return nil, nil, err
	}

	var scope struct {
		Path string `json:"project_path"`
	}
	_ = json.Unmarshal(meta["workspace_scope"], &scope) // absent is none
	if scope.Path == "" {
		return jail, done, nil
	}

	there, err := p.Jail.At(diskio.Base{Dir: scope.Path, Only: true, ReadOnly: []string{"."}})
	if err != nil {
		return jail, done, nil //nolint:nilerr // the folder is gone; the conversation works in the workspace, too
	}
	return there, func() { _ = there.Close() }, nil // only read from
}

// barred is why a file is not shown.
func barred(name string, err error) error {
	switch {
	case diskio.IsMissing(err):
		return web.Refuse(http.StatusNotFound, "there is no file %s", name)
	case errors.Is(err, diskio.ErrNotRegular), errors.Is(err, diskio.ErrBadName):
		return web.Refuse(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, diskio.ErrTooLarge):
		return web.Refuse(http.StatusRequestEntityTooLarge, "%v", err)
	case errors.Is(err, diskio.ErrProtected):
		return web.Refuse(http.StatusForbidden, "%s is protected and not shown", name)
	case errors.Is(err, diskio.ErrOutside):
		return web.Refuse(http.StatusForbidden, "%s lies outside of the workspace", name)
	case errors.Is(err, fs.ErrPermission):
		return web.Refuse(http.StatusForbidden, "%s may not be read", name)
	case errors.Is(err, diskio.ErrChanged):
		return web.Refuse(http.StatusConflict, "%v", err)
	}
	return err
}

// read finds out what a file is and takes in as much of it as is shown.
func (p *file) read(f io.Reader, content bool, secrets *httpsafe.Registry) error {
	most := int64(maxPreview)
	if !content {
		most = previewProbe
	}

	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err
	}

	cut := int64(len(data)) > most
	data = data[:min(int64(len(data)), most)]
	p.recognise(data)
	p.Truncated = p.Kind == fileText && p.Size > maxPreview

	switch {
	case !content || p.Kind == fileBinary:
	case p.Kind == fileImage && cut:
		return web.Refuse(http.StatusRequestEntityTooLarge, "%s has %d KiB; pictures are shown up to %d KiB", p.Name, p.Size>>10, maxPreview>>10)
	case p.Kind == fileImage:
		p.DataURL = "data:" + p.MIME + ";base64," + base64.StdEncoding.EncodeToString(data)
	default:
		text := secrets.Redact(string(whole(data)))
		p.Content, p.Truncated = &text, cut
	}

	return nil
}

// recognise tells texts and pictures from the rest, by what they begin with.
func (p *file) recognise(data []byte) {
	start := data[:min(len(data), previewProbe)]
	p.MIME, p.Kind = http.DetectContentType(start), fileBinary
	switch p.MIME {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		p.Kind = fileImage
		return
	}

	if bytes.IndexByte(start, 0) < 0 && utf8.Valid(whole(start)) {
		p.MIME, p.Kind = textType(p.Name), fileText
	} else if strings.HasPrefix(p.MIME, "text/") {
		p.MIME = "application/octet-stream" // a text in an encoding that is not named
	}
}

// whole is data without a character that was cut at the end.
func whole(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if c := data[len(data)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return data[:len(data)-i]
			}
			return data
		}
	}
	return data
}

// textType returns the type of a text by the name of its file.
func textType(name string) string {
	known := map[string]string{
		".md": "text/markdown", ".markdown": "text/markdown", ".json": "application/json", ".html": "text/html", ".htm": "text/html", ".svg": "image/svg+xml",
		".csv": "text/csv", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	}
	return cmp.Or(known[strings.ToLower(filepath.Ext(name))], "text/plain")
}
