package pages

import (
	"crypto/rand"
	"maps"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/web/auth"
)

const (
	downloadPath = "/webui/download/"

	downloadFor = time.Minute // how long an address waits for its request
)

// downloads are addresses of files. A link that a browser follows cannot carry
// our header, so each of them is good for one request of a signed-in browser.
type downloads struct {
	mu  sync.Mutex
	all map[string]promised
}

type promised struct {
	read  string // below /api/
	until time.Time
}

// Promise returns the address, relative to the document, from which a signed-in browser
// gets the answer of a read once, as a file.
func (s *Server) Promise(read string) string {
	d, now, token := &s.promises, s.o.Now(), rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(_ string, p promised) bool { return !now.Before(p.until) })
	if d.all == nil {
		d.all = map[string]promised{}
	}
	d.all[token] = promised{read, now.Add(downloadFor)}
	return downloadPath[1:] + token
}

// claim returns what an address stands for. The address is used up.
func (d *downloads) claim(token string, now time.Time) (read string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.all[token]
	delete(d.all, token)
	return p.read, ok && now.Before(p.until)
}

// download answers the request of a browser that follows an address of Promise.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	protect(w)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		auth.Refuse(w, http.StatusMethodNotAllowed, "method", "use GET")
		return
	}

	if p := s.o.Site().Follow(r); p != auth.Fine {
		auth.RefusePage(w, p)
		return
	}
	if _, ok := s.session(w, r); !ok {
		return
	}

	read, ok := s.promises.claim(path.Base(r.URL.Path), s.o.Now())
	if !ok {
		auth.Refuse(w, http.StatusNotFound, "not_found", "this address was used or is too old; start the download again")
		return
	}

	w.Header().Set("Content-Disposition", "attachment") // also what no file was made of
	s.answer(w, r, read)
}
