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

// Conversations are those of the agent, and its archive.
type Conversations struct {
	Now    Source
	Unread *Unread
	Log    *slog.Logger
}

// Routes implements web.Subject.
func (c Conversations) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"sessions":               c.list,
			"sessions/{key}/context": c.context,
			"sessions/{key}/export":  c.export,
		},
		Actions: map[string]web.Action{
			"session.rename":  web.Changing(c.rename, web.TopicSessions),
			"session.delete":  web.Changing(c.remove, web.TopicSessions),
			"session.archive": web.Changing(c.remove, web.TopicSessions),
			"session.restore": web.Changing(c.restore, web.TopicSessions),
			"session.erase":   web.Changing(c.erase, web.TopicSessions),
			"session.seen":    web.Changing(c.seen, web.TopicSessions),
		},
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

// list lists conversations, or the archive, the last changed first. What is
// looked for must be in the title, the preview, the key or, outside of the archive, in
// the messages.
func (c Conversations) list(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}

	limit, err := number(r, "limit", 0)
	if err != nil {
		return nil, err
	}

	form := r.URL.Query()
	infos, err := stored(ctx, now.Sessions, form.Get("archived") == "1")
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}

	if err != nil {
		c.Log.WarnContext(ctx, "some conversations cannot be read", "err", err)
	}

	from, err := after(infos, form.Get("cursor"))
	if err != nil {
		return nil, err
	}

	wanted := strings.ToLower(strings.TrimSpace(form.Get("query")))
	channel := form.Get("channel")
	within := map[string]bool{}
	if wanted != "" && form.Get("archived") == "" {
		within = c.containing(ctx, now.Index, wanted)
	}

	found := []conversation{}
	var unread map[string]int
	if form.Get("archived") == "" {
		unread = c.Unread.all(ctx)
	}

	total, last := 0, -1
	var cursor any
	for i := range infos {
		in := &infos[i]
		if name, _ := session.Split(in.Key); channel != "" && name != channel {
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
			Key:       in.Key,
			Title:     now.Secrets.Redact(cmp.Or(in.Title, firstWords(in.Preview))),
			Preview:   now.Secrets.Redact(in.Preview),
			CreatedAt: stamp(in.Created),
			UpdatedAt: stamp(in.Updated),
			Messages:  in.Messages,
			Bytes:     in.Bytes,
			Running:   in.ID == "" && now.Agent.BusyWith(in.Key),
			ArchiveID: in.ID,
			Unread:    unread[in.Key],
		})
	}

	return map[string]any{"sessions": found, "total": total, "cursor": cursor}, nil
}

// containing returns the conversations with all the words in their messages, as far as
// the best hits of the search tell. A search that fails only finds less.
func (c Conversations) containing(ctx context.Context, index *search.Index, words string) map[string]bool {
	out := map[string]bool{}
	if index == nil || len(words) > queryBytes {
		return out
	}

	res, err := index.Search(ctx, search.Query{Text: words, Everyone: true, Limit: hitsMost})
	if err != nil && !errors.Is(err, search.ErrEmpty) {
		c.Log.WarnContext(ctx, "the list is searched by title only", "err", err)
	}

	for _, hit := range res.Hits {
		if hit.Source == "session" && !hit.Partial {
			out[hit.Session] = true
		}
	}
	return out
}

// stored returns the conversations, or those of the archive.
func stored(ctx context.Context, all *session.Store, archived bool) (out []session.Archived, err error) {
	if archived {
		return session.ListArchive(ctx, all)
	}
	infos, err := all.List(ctx)
	for i := range infos {
		out = append(out, session.Archived{Info: infos[i]})
	}
	return out, err
}

// titleRunes is the length of a title that is made of the first words.
const titleRunes = 60

// firstWords returns the title of a conversation that has none.
func firstWords(preview string) string { return text.Label(preview, titleRunes) }

// cursorOf names a place in the list that stays where it is when conversations
// before it change.
func cursorOf(in *session.Archived) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(in.Updated.UnixNano(), 10) + " " + in.ID + in.Key))
}

// after returns the index behind a cursor.
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

// restore brings a conversation back from the archive.
func (c Conversations) restore(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		return nil, web.Refuse(http.StatusBadRequest, "id is missing: say which conversation of the archive")
	}

	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}

	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	key, err := session.Restore(wait, now.Sessions, in.ID)
	if err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": key, "restored": true}, nil
}

// context returns what the model would be shown of a conversation, and its size.
func (c Conversations) context(ctx context.Context, r *http.Request) (any, error) {
	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := now.Agent.Context(ctx, r.PathValue("key"))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, web.Refuse(http.StatusNotImplemented, "this program cannot tell what its model is shown")
	}
	return shown, err
}

// decode reads a request about one conversation.
func (c Conversations) decode(ctx context.Context, payload json.RawMessage, in any, key *string) (*Program, error) {
	if err := web.Decode(payload, in); err != nil {
		return nil, err
	}
	if *key == "" {
		return nil, web.Refuse(http.StatusBadRequest, "key is missing: say which conversation")
	}
	return c.Now(ctx)
}

// rename gives a conversation a title; "" takes it away again. It does
// not wait for the end of a turn.
func (c Conversations) rename(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key   string `json:"key"`
		Title string `json:"title"`
	}
	now, err := c.decode(ctx, payload, &in, &in.Key)
	if err != nil {
		return nil, err
	}

	title := text.Label(in.Title, maxTitle)
	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	err = now.Sessions.Annotate(wait, in.Key, func(s *session.Session) error {
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

// remove moves a conversation to the archive. Jobs and triggers that
// deliver into it must go first, which it does itself when it is told to.
func (c Conversations) remove(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Key         string `json:"key"`
		Automations bool   `json:"delete_automations"`
	}
	now, err := c.decode(ctx, payload, &in, &in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := now.Sessions.Metadata(ctx, in.Key); err != nil {
		return nil, err
	}

	removed, err := now.unbind(ctx, in.Key, in.Automations)
	if err != nil {
		return nil, err
	}

	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	found, err := now.Archive.DeleteSession(wait, in.Key)
	if err == nil && !found {
		err = session.ErrNotFound
	}

	if err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": in.Key, "deleted": true, "automations_deleted": removed}, nil
}

// erase removes a conversation for good, or what the archive has under an id. It
// refuses what remove refuses.
func (c Conversations) erase(ctx context.Context, payload json.RawMessage) (any, error) {
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

	now, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}

	wait, cancel := context.WithTimeout(ctx, renameWait)
	defer cancel()
	if in.ID != "" {
		if err := now.Archive.EraseArchived(wait, in.ID); err != nil {
			return nil, elsewhere(ctx, err)
		}
		return map[string]any{"id": in.ID, "erased": true}, nil
	}

	removed, err := now.unbind(ctx, in.Key, in.Automations)
	if err != nil {
		return nil, err
	}
	if err := now.Archive.EraseSession(wait, in.Key); err != nil {
		return nil, elsewhere(ctx, err)
	}
	return map[string]any{"key": in.Key, "erased": true, "automations_deleted": removed}, nil
}

// unbind prepares a conversation for its end: nothing may run in it, and the jobs and
// triggers that deliver into it are removed if the person says so.
func (p *Program) unbind(ctx context.Context, key string, automations bool) (removed []string, err error) {
	if p.Agent.BusyWith(key) {
		return nil, web.Refuse(http.StatusConflict, "something is still running in this conversation; stop it first")
	}

	jobs := p.jobs()
	bound, err := jobs.automations(ctx, func(a *automation) bool { return !a.Protected && a.delivers(key) })
	if err != nil {
		return nil, err
	}
	if len(bound) > 0 && !automations {
		return nil, web.Refuse(http.StatusConflict, "this conversation gets the results of %s; delete them first, or send delete_automations", names(bound))
	}

	removed = []string{}
	for _, a := range bound {
		if err := jobs.remove(ctx, a.Kind, a.ID); err != nil && web.Refusal(err).Status != http.StatusNotFound {
			return nil, fmt.Errorf("remove %s: %w", a.ID, err)
		}
		removed = append(removed, a.ID)
	}
	return removed, nil
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
