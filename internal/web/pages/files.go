package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// dist is what make web builds from web/src. Nearly every browser takes the files
// as they are there, compressed.
//
//go:embed dist
var dist embed.FS

const (
	documentName = "index.html"
	awayName     = "away.html" // shown by the service worker while the gateway is away
)

// bundle is the built interface.
type bundle struct {
	build string // a hash of all files: part of their addresses, so that they can be cached for ever
	files map[string]*file
}

// file is one of them.
type file struct {
	kind  string
	plain func() []byte
	gzip  func() []byte // nil: it was not worth it
}

// embedded returns the bundle in this program, made on first use.
func embedded() func() *bundle {
	return sync.OnceValue(func() *bundle {
		sub, err := fs.Sub(dist, "dist")
		if err != nil {
			panic(err) // the name is a constant
		}
		return load(sub)
	})
}

func load(from fs.FS) *bundle {
	b := &bundle{files: map[string]*file{}}
	sum := sha256.New()
	_ = fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "manifest.json" {
			return err
		}

		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}

		_, _ = sum.Write([]byte(name + "\x00" + strconv.Itoa(len(data)) + "\x00"))
		_, _ = sum.Write(data)
		b.files[strings.TrimSuffix(name, ".gz")] = stored(name, data)
		return nil
	})

	b.build = hex.EncodeToString(sum.Sum(nil))[:16]
	for _, name := range []string{documentName, awayName, workerName, manifestName} {
		if doc := b.files[name]; doc != nil {
			b.files[name] = newFile(name, bytes.ReplaceAll(doc.plain(), []byte("assets/BUILD/"), []byte("assets/"+b.build+"/")))
		}
	}
	return b
}

// stored returns a file as it is in the program.
func stored(name string, data []byte) *file {
	same := func() []byte { return data }
	base, compressed := strings.CutSuffix(name, ".gz")
	if !compressed {
		return &file{kind: kindOf(name), plain: same}
	}
	return &file{kind: kindOf(base), gzip: same, plain: sync.OnceValue(func() []byte {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil // make web-check compares what the files hold
		}
		plain, _ := io.ReadAll(z)
		return plain
	})}
}

// newFile returns a file that is made here.
func newFile(name string, data []byte) *file {
	return &file{
		kind:  kindOf(name),
		plain: func() []byte { return data },
		gzip: sync.OnceValue(func() []byte {
			var out bytes.Buffer
			z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			_, _ = z.Write(data)
			_ = z.Close()
			return out.Bytes()
		}),
	}
}

// kindOf returns the type of a file of ours. The machine's own tables do not decide it.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json", ".webmanifest":
		return "application/manifest+json"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	}
	return "application/octet-stream"
}

// static answers reads of files, which hold no secrets.
func (s *Server) static(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "use GET", http.StatusMethodNotAllowed)
		case !s.o.Site().Ours(r):
			http.Error(w, "The gateway does not know this host name. Add it to gateway.webui.hosts.", http.StatusForbidden)
		default:
			h(w, r)
		}
	})
}

// document returns the one page, or a file whose address stays the same in all builds.
func (s *Server) document(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		s.send(w, r, s.files().files[name])
	}
}

// asset is a script, a style or a picture of this build.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	b := s.files()
	_, name, _ := strings.Cut(r.URL.Path[strings.LastIndex(r.URL.Path, assetsPath)+1:], "/")
	build, name, _ := strings.Cut(name, "/")
	f := b.files[name]
	if build != b.build || f == nil || name == documentName {
		w.Header().Set("Cache-Control", "no-store")
		http.NotFound(w, r)
		return
	}

	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	s.send(w, r, f)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, f *file) {
	if f == nil {
		http.NotFound(w, r)
		return
	}

	h, body := w.Header(), f.plain
	h.Set("Content-Type", f.kind)
	h.Set("Vary", "Accept-Encoding")

	if f.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = f.gzip
		h.Set("Content-Encoding", "gzip")
	}

	data := body()
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(data)
	}
}

// packFrom is how many bytes JSON must have to be compressed.
const packFrom = 1 << 10

// packing compresses JSON, which reads write in one piece.
type packing struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (p *packing) WriteHeader(status int) {
	p.begun = true
	p.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (p *packing) Write(data []byte) (int, error) {
	h := p.Header()
	if p.begun || len(data) <= packFrom || h.Get("Content-Type") != "application/json" {
		p.begun = true
		return p.ResponseWriter.Write(data)
	}

	p.begun = true
	h.Set("Content-Encoding", "gzip")
	h.Set("Vary", "Accept-Encoding")
	z, _ := gzip.NewWriterLevel(p.ResponseWriter, gzip.BestSpeed) // a level that exists
	_, err := z.Write(data)
	return len(data), errors.Join(err, z.Close())
}

// protect keeps a page from loading, sending and being shown anything but its own.
func protect(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; "+
		"manifest-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types nanobot")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "microphone=(self), camera=(), geolocation=(), payment=(), usb=(), display-capture=()")
}
