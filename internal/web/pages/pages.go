// Package pages serves the web interface: the document, its scripts and styles,
// sign-in, and the way of a signed-in browser to the reads and the socket. It
// hides how a request is told to belong to a page, also below a path that a proxy
// added, and the headers that keep a page from doing anything but its work.
package pages

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// Options are what the pages need of the gateway.
type Options struct {
	Auth *auth.Server
	Site func() auth.Site
	Now  func() time.Time
	// API answers reads below /api/.
	API http.Handler
	// Socket takes the connection of a signed-in page, until gone is closed.
	Socket func(w http.ResponseWriter, r *http.Request, device string, gone <-chan struct{})
	// Upload takes a file of a device that is signed in.
	Upload func(w http.ResponseWriter, r *http.Request, device string)
	// Media hands out a file to who has its address: the path values sig and payload.
	Media http.HandlerFunc
	// Vouched reports whether a trusted proxy says who is signed in.
	Vouched func(r *http.Request) bool
}

// Server answers browsers.
type Server struct {
	o        Options
	files    func() *bundle
	promises downloads
}

// New returns a Server. It prepares its files when the first browser asks.
func New(o Options) *Server { return &Server{o: o, files: embedded()} }

// The last parts of the addresses of pages. A proxy may have put anything before them.
const (
	statePath  = "/webui/state"
	loginPath  = "/webui/login"
	logoutPath = "/webui/logout"
	socketPath = "/webui/socket"
	uploadPath = "/webui/upload"
	apiPath    = "/api/"
	mediaPath  = "/api/media/"
	assetsPath = "/assets/"

	// A service worker has the folder of its address as its scope, and an
	// installed page is known by the address of its manifest.
	workerName, manifestName = "sw.js", "manifest.webmanifest"
)

// Match returns the handler for a request of a browser to the pages. All others are not
// ours: programs use the same port.
func (s *Server) Match(r *http.Request) (http.Handler, bool) {
	at := r.URL.Path
	if path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
		return nil, false
	}

	switch upgrade := r.Header.Get("Upgrade") != ""; {
	case strings.HasSuffix(at, socketPath):
		return http.HandlerFunc(s.socket), true
	case upgrade:
		return nil, false
	case strings.HasSuffix(at, statePath):
		return s.guarded(http.MethodGet, s.state), true
	case strings.HasSuffix(at, loginPath):
		return s.guarded(http.MethodPost, s.o.Auth.Login), true
	case strings.HasSuffix(at, logoutPath):
		return s.guarded(http.MethodPost, s.o.Auth.Logout), true
	case strings.HasSuffix(at, uploadPath):
		return s.guarded(http.MethodPost, s.upload), true
	case strings.Contains(at, downloadPath):
		return http.HandlerFunc(s.download), true
	case r.Header.Get(auth.PageHeader) != "" && strings.Contains(at, apiPath):
		return s.guarded(http.MethodGet, s.read), true
	case strings.Contains(at, mediaPath) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return http.HandlerFunc(s.media), true
	case strings.Contains(at, assetsPath):
		return s.static(s.asset), true
	case strings.HasSuffix(at, "/"):
		return s.static(s.document(documentName)), true
	case path.Base(at) == workerName || path.Base(at) == manifestName:
		return s.static(s.document(path.Base(at))), true
	}

	return nil, false
}

// guarded answers only our own pages, and only by one method.
func (s *Server) guarded(method string, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w)
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != method {
			w.Header().Set("Allow", method)
			auth.Refuse(w, http.StatusMethodNotAllowed, "method", "use "+method)
			return
		}

		check := s.o.Site().Read
		if method != http.MethodGet {
			check = s.o.Site().Change
		}

		if p := check(r); p != auth.Fine {
			auth.RefusePage(w, p)
			return
		}
		h(w, r)
	})
}

// state tells a page whether it is signed in, and which build it should be.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	gateway, err := s.o.Auth.Gateway(r.Context())
	session, in, checkErr := s.o.Auth.Check(w, r)
	if err != nil || checkErr != nil {
		auth.Refuse(w, http.StatusInternalServerError, "internal", "the list of devices cannot be read; see the log")
		return
	}

	out := map[string]any{
		"gateway": gateway, "build": s.files().build, "signed_in": in || s.o.Vouched(r),
		"time": s.o.Now().UTC().Format(time.RFC3339Nano), "encrypted": s.o.Site().Encrypted(r),
	}
	if in {
		out["device"] = session.Device
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// read passes a read of a signed-in page on.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.session(w, r); !ok {
		return
	}
	// Names of reads hold no /api/ and keys are escaped, so the last one is ours.
	escaped := r.URL.EscapedPath()
	s.answer(w, r, escaped[max(0, strings.LastIndex(escaped, apiPath)):]+"?"+r.URL.RawQuery)
}

// answer passes a request on as a read of the API.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, read string) {
	u, err := url.ParseRequestURI(read)
	if err != nil || !strings.HasPrefix(u.Path, apiPath) {
		auth.Refuse(w, http.StatusBadRequest, "invalid", "the address is not as expected")
		return
	}

	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w = &packing{ResponseWriter: w}
	}

	next := r.Clone(r.Context())
	next.URL.Path = u.Path
	next.URL.RawPath = u.RawPath
	next.URL.RawQuery = u.RawQuery
	s.o.API.ServeHTTP(w, next)
}

// session returns the device of a request; without one the request is refused.
func (s *Server) session(w http.ResponseWriter, r *http.Request) (auth.Session, bool) {
	if s.o.Vouched(r) {
		return auth.Session{}, true
	}

	session, ok, err := s.o.Auth.Check(w, r)
	switch {
	case err != nil:
		auth.Refuse(w, http.StatusInternalServerError, "internal", "the list of devices cannot be read; see the log")
	case !ok:
		auth.Refuse(w, http.StatusUnauthorized, "signed_out", "sign in first; get a link with: nanobot web")
	}
	return session, ok && err == nil
}

// socket lets a signed-in page talk.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	protect(w)
	if p := s.o.Site().Socket(r); p != auth.Fine {
		auth.RefusePage(w, p)
		return
	}

	session, ok := s.session(w, r)
	if !ok {
		return
	}
	s.o.Socket(w, r, deviceOf(session), session.Gone)
}

// upload takes a file of a signed-in page.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	if session, ok := s.session(w, r); ok {
		s.o.Upload(w, r, deviceOf(session))
	}
}

// media hands out a file, below whatever path. The address is the permission.
func (s *Server) media(w http.ResponseWriter, r *http.Request) {
	at := r.URL.Path
	sig, payload, _ := strings.Cut(at[strings.LastIndex(at, mediaPath)+len(mediaPath):], "/")
	r.SetPathValue("sig", sig)
	r.SetPathValue("payload", payload)
	s.o.Media(w, r)
}

// deviceOf names a device; all that a proxy signs in are one.
func deviceOf(s auth.Session) string { return cmp.Or(s.ID, "proxy") }
