package httpsafe

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pass sends on a request for an absolute URL.
func (s *service) pass(w http.ResponseWriter, r *http.Request) {
	if !r.URL.IsAbs() || r.URL.Host == "" {
		http.Error(w, "this is a proxy: ask for an absolute URL or use CONNECT", http.StatusBadRequest)
		return
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		s.refused(w, r, "", &BlockedError{Target: r.URL.Scheme, Reason: "only http and https URLs are allowed"})
		return
	}

	port := r.URL.Port()
	if port == "" {
		port = defaultPort(r.URL.Scheme)
	}

	target, err := parseTarget(net.JoinHostPort(r.URL.Hostname(), port))
	if err == nil {
		err = checkPort(target.Port)
	}

	var reach Reach
	if err == nil {
		reach, err = s.admit(r.Context(), target)
	}

	if err != nil {
		s.refused(w, r, target.Host, err)
		return
	}
	s.relay(w, r, r.URL.Scheme, target, reach)
}

// relay sends one request to a host and its answer back.
func (s *service) relay(w http.ResponseWriter, r *http.Request, scheme string, target HostRequest, reach Reach) {
	r.Host = target.Host
	class := ClassUnknown
	if reach == ReachRead {
		var err error
		if class, err = s.reading(r, target); err != nil {
			s.refused(w, r, target.Host, err)
			return
		}
	}

	if err := s.a.spend(r.Context(), weigh(r, target.Host, class)); err != nil {
		s.refused(w, r, target.Host, err)
		return
	}

	if archive, ok := looksUp(r, target.Host); ok && reach == ReachRead && s.a.contained() {
		if err := s.mustBeStored(r.Context(), target, archive); err != nil {
			s.refused(w, r, target.Host, err)
			return
		}
	}

	out := r.Clone(r.Context())
	address := target.String()
	if strconv.Itoa(int(target.Port)) == defaultPort(scheme) {
		address = strings.TrimSuffix(address, ":"+defaultPort(scheme))
	}

	out.URL = &url.URL{Scheme: scheme, Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	out.RequestURI, out.Host = "", address
	dropHops(out.Header)
	out.Trailer = nil // its names would go out with the header
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // else Go would add its own
	}
	if out.Header.Get("Accept-Encoding") == "" {
		out.Header.Set("Accept-Encoding", "identity") // else Go would unpack what comes
	}

	out.Body = http.NoBody
	if r.ContentLength != 0 {
		out.Body = &upload{ReadCloser: r.Body, s: s, ctx: r.Context(), use: Use{Host: target.Host, Class: class}, left: uploadLimit(reach)}
	}

	resp, err := s.p.transport.RoundTrip(out)
	if err != nil {
		s.refused(w, r, target.Host, err)
		return
	}

	defer func() { _ = resp.Body.Close() }()
	s.p.o.Log.DebugContext(r.Context(), "request of a command", "host", target.Host)
	dropHops(resp.Header)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	n, _ := io.Copy(flushing{w}, resp.Body)
	s.a.used.received.Add(n)
}

// reading checks a request to a host that may only be read, and takes from it
// what is more than reading. It returns whose host the request counts as.
func (s *service) reading(r *http.Request, target HostRequest) (Class, error) {
	if err := readOnly(r); err != nil {
		return ClassPackages, err
	}
	if !s.a.contained() {
		r.Header = readHeaders(r.Header)
		return ClassPackages, nil
	}

	if r.Header.Get("Authorization") != "" {
		return ClassPackages, &BlockedError{
			Target: target.Host,
			Reason: "a command that can read content from outside signs in nowhere: it reads what is public there, without Authorization",
		}
	}

	r.Header = containedHeaders(r)
	if packageHosts()[target.Host] == kindMirror {
		r.Header.Set(storedHeader, "true")
	}

	exposed := target
	exposed.Exposes = exposes(r, target.Host)
	if exposed.Exposes == "" {
		return ClassPackages, nil
	}

	_, err := s.a.Decide(r.Context(), exposed)
	return ClassUnknown, err
}

// mustBeStored refuses a question about a module version that the mirror does
// not have: it would be fetched from the host that its path names.
func (s *service) mustBeStored(ctx context.Context, target HostRequest, archive string) error {
	no := &BlockedError{
		Target: target.Host,
		Reason: "this version of the module is not stored at " + moduleMirror + ", and asking for its checksum would have it fetched from the host that its path names",
	}
	if archive == "" {
		return no
	}

	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+moduleMirror+archive, nil) //nolint:gosec // the host is fixed
	if err != nil {
		return no
	}

	ask.Header.Set(storedHeader, "true")
	ask.Header.Set("User-Agent", "nanobot")
	resp, err := s.p.transport.RoundTrip(ask)
	if err != nil {
		return err
	}

	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return no
	}
	return nil
}

// weigh returns what a request carries away: everything in it that its sender
// chose.
func weigh(r *http.Request, host string, class Class) Use {
	u := Use{Host: host, Class: class, Requests: 1, Bytes: len(r.Method) + len(r.URL.EscapedPath()) + len(r.URL.RawQuery)}
	for name, values := range r.Header {
		for _, v := range values {
			u.Lines = append(u.Lines, name+": "+v)
		}
	}
	slices.Sort(u.Lines) // so that the same request costs the same
	return u
}

// upload counts what is sent as the body of a request.
type upload struct {
	io.ReadCloser
	s    *service
	ctx  context.Context //nolint:containedctx // of the request
	use  Use
	left int64
}

// Read implements io.Reader.
func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if u.left -= int64(n); u.left < 0 {
		return 0, &BlockedError{Target: u.use.Host, Reason: "the body of the request is too long"}
	}

	use := u.use
	if use.Bytes = n; n > 0 {
		if serr := u.s.a.spend(u.ctx, use); serr != nil {
			return 0, serr
		}
		u.s.a.used.sent.Add(int64(n))
	}
	return n, err
}

// dropHops removes what is meant for one connection only.
func dropHops(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate",
		"Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Alt-Svc",
	} {
		h.Del(name)
	}
}

// flushing passes a slow stream on as it comes.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if fl, ok := f.ResponseWriter.(http.Flusher); ok {
		fl.Flush()
	}
	return n, err
}
