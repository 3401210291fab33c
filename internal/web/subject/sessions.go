package subject

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	// maxTitle is the longest title of a conversation, in characters.
	maxTitle = 200
	// renameWait is how long another program may keep a conversation from being
	// renamed or deleted.
	renameWait = 5 * time.Second
)

func (d *API) sessionReads() map[string]web.Read {
	return map[string]web.Read{
		"sessions":                    d.sessions,
		"sessions/{key}/webui-thread": d.thread,
		"sessions/{key}/context":      d.context,
		"sessions/{key}/export":       d.export,
		"sessions/{key}/turns/{id}":   d.replay,
		"sessions/{key}/file-preview": d.preview,
		"sessions/{key}/automations":  d.sessionAutomations,
	}
}

func (d *API) sessionActions() map[string]web.Action {
	return map[string]web.Action{
		"session.rename": d.renameSession, "session.delete": d.deleteSession, "session.archive": d.deleteSession, "session.restore": d.restoreSession,
		"session.erase": d.eraseSession,
		"session.seen":  d.markSeen,
	}
}

// conversation is one line of the list.
type conversation struct {
	Key       string `json:"key"`
	Title     string `json:"title"`
	Preview   string `json:"preview"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
	Messages  int    `json:"messages"`
	Bytes     int64  `json:"bytes"`
	Running   bool   `json:"running"`
	Unread    int    `json:"unread,omitempty"`     // answers that no page has shown
	ArchiveID string `json:"archive_id,omitempty"` // of one in the archive
}

// sessions lists conversations, or the archive, the last changed first. What is
// looked for must be in the title, the preview, the key or, outside of the archive, in
// the messages.
func (d *API) sessions(ctx context.Context, r *http.Request) (any, error) {
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", 0)
	if err != nil {
		return nil, err
	}
	form := r.URL.Query()
	infos, err := h.stored(ctx, form.Get("archived") == "1")
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		d.Log.WarnContext(ctx, "some conversations cannot be read", "err", err)
	}
	from, err := after(infos, form.Get("cursor"))
	if err != nil {
		return nil, err
	}

	wanted := strings.ToLower(strings.TrimSpace(form.Get("query")))
	channel := form.Get("channel")
	within := map[string]bool{}
	if wanted != "" && form.Get("archived") == "" {
		within = h.containing(ctx, wanted, d.Log)
	}
	found := []conversation{}
	var unread map[string]int
	if d.Unread != nil && form.Get("archived") == "" {
		unread = d.Unread.all(ctx)
	}
	total, last := 0, -1
	var cursor any
	for i := range infos {
		in := &infos[i]
		if name, _, _ := strings.Cut(in.Key, ":"); channel != "" && name != channel {
			continue
		}
		if !within[in.Key] && !strings.Contains(strings.ToLower(in.Title+"\n"+in.Preview+"\n"+in.Key), wanted) {
			continue
		}
		if total++; i < from {
			continue
		}
		if limit > 0 && len(found) >= limit {
			cursor = cursorOf(&infos[last])
			continue
		}
		last = i
		found = append(found, conversation{
			Key: in.Key, Title: h.redact(cmp.Or(in.Title, firstWords(in.Preview))), Preview: h.redact(in.Preview), CreatedAt: stamp(in.Created), UpdatedAt: stamp(in.Updated),
			Messages: in.Messages, Bytes: in.Bytes, Running: in.ID == "" && h.running(in.Key), ArchiveID: in.ID, Unread: unread[in.Key],
		})
	}
	return map[string]any{"sessions": found, "total": total, "cursor": cursor}, nil
}

// containing are the conversations with all the words in their messages, as far as
// the best hits of the search tell. A search that fails only finds less.
func (h *Backend) containing(ctx context.Context, words string, log *slog.Logger) map[string]bool {
	out := map[string]bool{}
	if h.Search == nil || len(words) > queryBytes {
		return out
	}
	res, err := h.Search(ctx, search.Query{Text: words, Everyone: true, Limit: hitsMost})
	if err != nil && !errors.Is(err, search.ErrEmpty) {
		log.WarnContext(ctx, "the list is searched by title only", "err", err)
	}
	for _, hit := range res.Hits {
		if hit.Source == "session" && !hit.Partial {
			out[hit.Session] = true
		}
	}
	return out
}

// stored are the conversations, or those of the archive.
func (h *Backend) stored(ctx context.Context, archived bool) (out []session.Archived, err error) {
	if archived {
		return session.ListArchive(ctx, h.Sessions)
	}
	infos, err := h.Sessions.List(ctx)
	for i := range infos {
		out = append(out, session.Archived{Info: infos[i]})
	}
	return out, err
}

// titleRunes is the length of a title that is made of the first words.
const titleRunes = 60

// firstWords is the title of a conversation that has none.
func firstWords(preview string) string { return text.Label(preview, titleRunes) }

// cursorOf names a place in the list that stays where it is when conversations
// before it change.
func cursorOf(in *session.Archived) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(in.Updated.UnixNano(), 10) + " " + in.ID + in.Key))
}

// after is the index behind a cursor.
func after(infos []session.Archived, cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	at, key, ok := strings.Cut(string(raw), " ")
	ns, nerr := strconv.ParseInt(at, 10, 64)
	if err != nil || nerr != nil || !ok {
		return 0, web.Refuse(http.StatusBadRequest, "the cursor is not one of ours")
	}
	for i := range infos {
		if u := infos[i].Updated.UnixNano(); u < ns || u == ns && infos[i].ID+infos[i].Key > key {
			return i, nil
		}
	}
	return len(infos), nil
}

// restoreSession brings a conversation back from the archive.
func (d *API) restoreSession(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		return nil, web.Refuse(http.StatusBadRequest, "id is missing: say which conversation of the archive")
	}
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	key, err := session.Restore(wait, h.Sessions, in.ID)
	if err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": key, "restored": true}, nil
}

// context is what the model would be shown of a conversation, and its size.
func (d *API) context(ctx context.Context, r *http.Request) (any, error) {
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	if h.Context == nil {
		return nil, web.Refuse(http.StatusNotImplemented, "this program cannot tell what its model is shown")
	}
	return h.Context(ctx, r.PathValue("key"))
}

// conversation reads a request about one conversation.
func (d *API) conversation(ctx context.Context, payload json.RawMessage, in any, key *string) (Backend, error) {
	if err := web.Decode(payload, in); err != nil {
		return Backend{}, err
	}
	if *key == "" {
		return Backend{}, web.Refuse(http.StatusBadRequest, "key is missing: say which conversation")
	}
	return d.Backend(ctx)
}

// renameSession gives a conversation a title; "" takes it away again. It does
// not wait for the end of a turn.
func (d *API) renameSession(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key   string `json:"key"`
		Title string `json:"title"`
	}
	h, err := d.conversation(ctx, payload, &in, &in.Key)
	if err != nil {
		return nil, err
	}
	title := text.Label(in.Title, maxTitle)
	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	err = h.Sessions.Annotate(wait, in.Key, func(s *session.Session) error {
		if s.Len() == 0 && s.Created().IsZero() {
			return session.ErrNotFound
		}
		if title == "" {
			return errors.Join(s.SetMeta("title", nil), s.SetMeta("title_user_edited", nil))
		}
		return errors.Join(s.SetMeta("title", title), s.SetMeta("title_user_edited", true))
	})
	if err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": in.Key, "title": title}, nil
}

// elsewhere is the refusal for a conversation that another program works on.
func elsewhere(ctx context.Context, err error) error {
	if _, busy := errors.AsType[*session.BusyError](err); busy || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return web.Refuse(http.StatusConflict, "another program works on this conversation; try again when it is done")
	}
	return err
}

// deleteSession moves a conversation to the archive. Jobs and triggers that
// deliver into it must go first, which it does itself when it is told to.
func (d *API) deleteSession(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key         string `json:"key"`
		Automations bool   `json:"delete_automations"`
	}
	h, err := d.conversation(ctx, payload, &in, &in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := h.Sessions.Metadata(ctx, in.Key); err != nil {
		return nil, err
	}
	removed, err := h.unbind(ctx, in.Key, in.Automations)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	if err := h.drop(wait, in.Key); err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": in.Key, "deleted": true, "automations_deleted": removed}, nil
}

// eraseSession removes a conversation for good, or what the archive has under an id.
// It refuses what deleteSession refuses.
func (d *API) eraseSession(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key         string `json:"key"`
		ID          string `json:"id"`
		Automations bool   `json:"delete_automations"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if (in.Key == "") == (in.ID == "") {
		return nil, web.Refuse(http.StatusBadRequest, "key or id is missing: say which conversation, or which one of the archive")
	}
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	if in.ID != "" {
		if err := h.eraseArchived(wait, in.ID); err != nil {
			return nil, elsewhere(ctx, err)
		}
		return map[string]any{"id": in.ID, "erased": true}, nil
	}
	removed, err := h.unbind(ctx, in.Key, in.Automations)
	if err != nil {
		return nil, err
	}
	if err := h.erase(wait, in.Key); err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": in.Key, "erased": true, "automations_deleted": removed}, nil
}

func (h *Backend) erase(ctx context.Context, key string) error {
	if h.Erase == nil {
		return session.Erase(ctx, h.Sessions, key)
	}
	return h.Erase(ctx, key)
}

func (h *Backend) eraseArchived(ctx context.Context, id string) error {
	if h.EraseArchived == nil {
		return session.EraseArchived(ctx, h.Sessions, id)
	}
	return h.EraseArchived(ctx, id)
}

// unbind prepares a conversation for its end: nothing may run in it, and the jobs and
// triggers that deliver into it are removed if the person says so.
func (h *Backend) unbind(ctx context.Context, key string, automations bool) (removed []string, err error) {
	if h.running(key) {
		return nil, web.Refuse(http.StatusConflict, "something is still running in this conversation; stop it first")
	}
	bound, err := h.automations(ctx, func(a *automation) bool { return !a.Protected && a.delivers(key) })
	if err != nil {
		return nil, err
	}
	if len(bound) > 0 && !automations {
		return nil, web.Refuse(http.StatusConflict, "this conversation gets the results of %s; delete them first, or send delete_automations", names(bound))
	}
	removed = []string{}
	for _, a := range bound {
		if err := h.remove(ctx, a.Kind, a.ID); err != nil && web.Refusal(err).Status != http.StatusNotFound {
			return nil, fmt.Errorf("remove %s: %w", a.ID, err)
		}
		removed = append(removed, a.ID)
	}
	return removed, nil
}

// drop moves a conversation to the archive.
func (h *Backend) drop(ctx context.Context, key string) error {
	if h.Delete == nil {
		return h.Sessions.Delete(ctx, key)
	}
	found, err := h.Delete(ctx, key)
	if err == nil && !found {
		return session.ErrNotFound
	}
	return err
}

// names lists automations in a sentence.
func names(all []automation) string {
	var b strings.Builder
	for i := range all {
		switch {
		case i == 10:
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q (%s)", all[i].Name, all[i].ID)
	}
	return b.String()
}

func (h *Backend) running(key string) (busy bool) {
	if h.Running != nil {
		busy, _ = h.Running(key)
	}
	return busy
}

func (h *Backend) redact(s string) string {
	if h.Redact == nil {
		return s
	}
	return h.Redact(s)
}

// stamp writes a moment for clients; "" if there is none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// number reads a whole number of 0 or more from the query.
func number(r *http.Request, name string, def int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, web.Refuse(http.StatusBadRequest, "%s must be a whole number, not %.40q", name, s)
	}
	return n, nil
}
