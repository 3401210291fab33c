package socket

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	uploadLife  = time.Hour        // of a file that no message uses
	uploadTime  = 30 * time.Minute // for one file to arrive
	maxUploads  = 16               // files of one device that wait
	uploadsName = "uploads"        // folder in the media store; files in it are not served
)

// uploads are files that came ahead of their message.
type uploads struct {
	mu    sync.Mutex
	files map[string]*upload
	busy  map[string]int // that are arriving, by owner
}

// upload is a file that waits for its message.
type upload struct {
	owner string
	media bus.Media
	timer *time.Timer
}

// begin makes room for a file of a device, unless it has too many.
func (u *uploads) begin(owner string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()

	n := u.busy[owner]
	for _, f := range u.files {
		if f.owner == owner {
			n++
		}
	}

	if n >= maxUploads {
		return false
	}

	if u.busy == nil {
		u.busy = map[string]int{}
	}

	u.busy[owner]++
	return true
}

func (u *uploads) release(owner string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy[owner]--; u.busy[owner] <= 0 {
		delete(u.busy, owner)
	}
}

// save stores a file under a new name until a message uses it or its time is over.
func (u *uploads) save(f *upload) (id string) {
	id = rand.Text()
	u.store(id, f)
	return id
}

func (u *uploads) store(id string, f *upload) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.files == nil {
		u.files = map[string]*upload{}
	}

	u.files[id] = f
	f.timer = time.AfterFunc(uploadLife, func() {
		if got, ok := u.claim(id, f.owner); ok {
			discard([]bus.Media{got.media})
		}
	})
}

// refund undoes store: the message was not accepted, and may come again with the
// files that were sent ahead.
func (u *uploads) refund(files []attachment, stored []bus.Media, owner, dir string) {
	for i, m := range stored {
		back := m
		if files[i].upload != "" {
			back.Path = filepath.Join(dir, filepath.Base(m.Path))
		}

		if back.Path == m.Path || os.Rename(m.Path, back.Path) != nil {
			discard([]bus.Media{m})
			continue
		}
		u.store(files[i].upload, &upload{owner: owner, media: back})
	}
}

// stat describes a file of an owner that no message has used.
func (u *uploads) stat(id, owner string) (mime string, size int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.files[id]
	if f == nil || f.owner != owner {
		return "", 0, false
	}
	return f.media.MIME, f.media.Size, true
}

// claim gives a file to the one message that uses it.
func (u *uploads) claim(id, owner string) (*upload, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.files[id]
	if f == nil || f.owner != owner {
		return nil, false
	}
	delete(u.files, id)
	f.timer.Stop()
	return f, true
}

// clear deletes all files, also those of a process that has ended.
func (u *uploads) clear(dir string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.files {
		f.timer.Stop()
	}
	u.files = nil
	_ = os.RemoveAll(dir) // the next start tries again
}

func uploadDir(d chat.Deps) string { return filepath.Join(d.Media.Dir, uploadsName) }

// ServeUpload takes a file of a signed-in page, ahead of the message that it
// belongs to. Only that device can use it.
func (c *Channel) ServeUpload(w http.ResponseWriter, r *http.Request, device string) {
	kind := r.Header.Get("X-Nanobot-Type")
	name, err := url.QueryUnescape(r.Header.Get("X-Nanobot-Name"))
	limit := int64(maxFileBytes)
	if kindOf(kind) == "video" {
		limit = maxVideoBytes
	}
	if c.d.Media != nil {
		limit = min(limit, c.d.Media.Max)
	}

	switch {
	case !c.running() || c.d.Media == nil:
		w.Header().Set("Retry-After", "5")
		refuseUpload(w, http.StatusServiceUnavailable, "gateway_starting", nil)
		return
	case kindOf(kind) == "" || err != nil:
		refuseUpload(w, http.StatusUnsupportedMediaType, "upload_type", nil)
		return
	case r.ContentLength == 0:
		refuseUpload(w, http.StatusBadRequest, "upload_empty", nil)
		return
	case r.ContentLength > limit:
		refuseUpload(w, http.StatusRequestEntityTooLarge, "upload_too_large", map[string]any{"limit": limit >> 20})
		return
	case !c.uploads.begin(device):
		refuseUpload(w, http.StatusTooManyRequests, "upload_too_many", map[string]any{"limit": maxUploads})
		return
	}

	defer c.uploads.release(device)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // a server without deadlines waits longer
	store := media.Store{Dir: uploadDir(c.d), Max: limit}
	m, err := store.Save(r.Context(), name, r.Body)
	switch {
	case errors.Is(err, media.ErrTooLarge):
		refuseUpload(w, http.StatusRequestEntityTooLarge, "upload_too_large", map[string]any{"limit": limit >> 20})
		return
	case err != nil:
		c.d.Log.WarnContext(r.Context(), "an upload was not kept", "channel", c.d.Name, "err", err)
		refuseUpload(w, http.StatusInternalServerError, "upload_failed", nil)
		return
	}

	declared, ok := media.Declared(m, kind)
	if m.Size == 0 || !ok {
		discard([]bus.Media{m})
		refuseUpload(w, http.StatusUnsupportedMediaType, "upload_type", nil)
		return
	}

	id := c.uploads.save(&upload{owner: device, media: declared})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"upload_id": id, "size": m.Size, "type": kind, "expires_in": int(uploadLife / time.Second)})
}

// refuseUpload answers as the API refuses; pages word the code.
func refuseUpload(w http.ResponseWriter, status int, code string, params map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"status": status, "code": code, "params": params, "message": code}})
}

// described fills in what is known about files that came ahead; reason says why
// they cannot be used.
func (u *uploads) described(files []attachment, owner string) (reason string) {
	used := map[string]bool{}
	for i := range files {
		f := &files[i]
		if f.upload == "" {
			continue
		}

		var ok bool
		if f.mime, f.size, ok = u.stat(f.upload, owner); !ok || owner == "" || used[f.upload] {
			return "upload_gone"
		}
		used[f.upload] = true
	}

	return overLimit(files)
}

// adopt puts a file that came ahead where those of messages are.
func (u *uploads) adopt(f attachment, owner, dir string) (bus.Media, string) {
	up, ok := u.claim(f.upload, owner)
	if !ok {
		return bus.Media{}, "upload_gone"
	}

	m := up.media
	m.Path = filepath.Join(dir, filepath.Base(up.media.Path))
	if os.Rename(up.media.Path, m.Path) != nil {
		return bus.Media{}, "upload_gone"
	}
	return m, ""
}
