package mattermosttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// refusal is an error as the API says it.
type refusal struct {
	ID     string `json:"id"`
	Text   string `json:"message"`
	Detail string `json:"detailed_error"`
	Code   int    `json:"status_code"`
}

func errSession() *refusal {
	return &refusal{"api.context.session_expired.app_error", "Invalid or expired session, please login again.", "", http.StatusUnauthorized}
}

func errRight() *refusal {
	return &refusal{"api.context.permissions.app_error", "You do not have the appropriate permissions.", "", http.StatusForbidden}
}

func errRoot() *refusal {
	return &refusal{"api.post.create_post.root_id.app_error", "Invalid RootId parameter.", "", http.StatusBadRequest}
}

func errNoPost() *refusal {
	return &refusal{"app.post.get.app_error", "Unable to get the post.", "", http.StatusNotFound}
}

func errLength() *refusal {
	return &refusal{"model.post.is_valid.message_length.app_error", "Post Message property is longer than the maximum permitted length.", "", http.StatusBadRequest}
}

func invalid(name string) *refusal {
	return &refusal{"api.context.invalid_body_param.app_error", "Invalid or missing " + name + " in request body.", "", http.StatusBadRequest}
}

func missing(what string) *refusal {
	return &refusal{"app." + what + ".get.app_error", "Unable to find the existing " + what + ".", "", http.StatusNotFound}
}

// request is one call of the API, by a user.
type request struct {
	*http.Request
	user string
	body []byte
}

// answer is what a handler returns: a value for JSON, or bytes as they are.
type answer struct {
	code int
	body any
}

type handler func(r *request) (answer, *refusal)

func ok(v any) (answer, *refusal)      { return answer{http.StatusOK, v}, nil }
func created(v any) (answer, *refusal) { return answer{http.StatusCreated, v}, nil }
func done() (answer, *refusal)         { return ok(map[string]string{"status": "OK"}) }

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /users/me":                                       s.getMe,
		"GET /users/{user}":                                   s.getUser,
		"GET /users/username/{name}":                          s.getUserByName,
		"GET /users/me/teams":                                 s.getTeams,
		"GET /users/me/channels":                              s.getChannels,
		"GET /config/client":                                  s.getConfig,
		"GET /channels/{channel}":                             s.getChannel,
		"GET /teams/{team}/channels/name/{name}":              s.getChannelByName,
		"POST /channels/direct":                               s.makeDirect,
		"GET /channels/{channel}/posts":                       s.getPosts,
		"POST /posts":                                         s.createPost,
		"GET /posts/{post}":                                   s.getPost,
		"PUT /posts/{post}/patch":                             s.patchPost,
		"DELETE /posts/{post}":                                s.deletePost,
		"GET /posts/{post}/thread":                            s.getThread,
		"POST /files":                                         s.upload,
		"GET /files/{file}":                                   s.getFile,
		"GET /files/{file}/info":                              s.getFileInfo,
		"GET /posts/{post}/files/info":                        s.getFileInfos,
		"POST /reactions":                                     s.react,
		"DELETE /users/{user}/posts/{post}/reactions/{emoji}": s.unreact,
		"POST /posts/{post}/actions/{action}":                 s.act,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.HandleFunc(method+" /api/v4"+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, pattern, h) })
	}

	s.mux.HandleFunc("GET /api/v4/websocket", s.socket)
}

// serve does a request, unless it shall fail.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, name string, h handler) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	if r.Method != http.MethodGet {
		s.Pass(r.Context())
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	defer s.news()
	w.Header().Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	call := Call{Name: name, Path: strings.TrimPrefix(r.URL.RequestURI(), "/api/v4")}
	if r.Header.Get("Content-Type") == "application/json" {
		call.Body = body
	}

	fail := s.failure(name)
	var a answer
	var no *refusal
	if fail == nil || fail.After {
		a, no = s.run(&request{Request: r, body: body}, h)
	}

	switch {
	case fail == nil && no == nil:
	case fail == nil:
		a = answer{no.Code, no}
	case fail.Code == 0 && !fail.Garbage:
		s.calls = append(s.calls, call)
		panic(http.ErrAbortHandler)
	default:
		a = answer{fail.Code, &refusal{ID: fail.ID, Text: fail.Text, Code: fail.Code}}
		if fail.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(fail.RetryAfter))
		}
		if fail.Garbage {
			a.body = []byte("<html>Bad gateway</html>")
			a.code = cmp.Or(fail.Code, http.StatusBadGateway)
		}
	}

	call.Code = a.code
	s.calls = append(s.calls, call)
	write(w, a)
}

func write(w http.ResponseWriter, a answer) {
	if data, raw := a.body.([]byte); raw {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.WriteHeader(a.code)
		_, _ = w.Write(data)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_, _ = io.WriteString(w, encode(a.body))
}

// run checks who calls. The scheme is Bearer in any letters.
func (s *Server) run(r *request, h handler) (answer, *refusal) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	r.user = s.tokens[token]
	if !strings.EqualFold(scheme, "Bearer") || r.user == "" {
		return answer{}, errSession()
	}

	for _, name := range []string{"user", "channel", "post", "file", "team"} {
		if v := r.PathValue(name); v != "" && v != "me" && !validID(v) {
			return answer{}, &refusal{"api.context.invalid_url_param.app_error", "Invalid or missing " + name + "_id parameter in request URL.", "", http.StatusBadRequest}
		}
	}
	return h(r)
}

func (s *Server) getMe(r *request) (answer, *refusal) { return ok(s.users[r.user]) }

func (s *Server) getUser(r *request) (answer, *refusal) {
	u := s.users[r.PathValue("user")]
	if u == nil {
		return answer{}, missing("user")
	}
	return ok(u)
}

func (s *Server) getUserByName(r *request) (answer, *refusal) {
	for _, u := range s.users {
		if u.Username == r.PathValue("name") {
			return ok(u)
		}
	}
	return answer{}, missing("user")
}

func (s *Server) getTeams(*request) (answer, *refusal) {
	return ok([]map[string]string{{"id": TeamID(), "name": TeamName, "display_name": "Main"}})
}

// member is a channel that the caller is in.
func (s *Server) member(r *request, id string) (*Channel, *refusal) {
	c := s.channels[id]
	switch {
	case c == nil:
		return nil, missing("channel")
	case !slices.Contains(c.members, r.user):
		return nil, errRight()
	}
	return c, nil
}

func (s *Server) getChannels(r *request) (answer, *refusal) {
	out := []*Channel{}
	for _, id := range slices.Sorted(maps.Keys(s.channels)) {
		if slices.Contains(s.channels[id].members, r.user) {
			out = append(out, s.channels[id])
		}
	}
	return ok(out)
}

func (s *Server) getConfig(*request) (answer, *refusal) {
	return ok(map[string]string{
		"MaxPostSize": strconv.Itoa(s.maxPost), "MaxFileSize": strconv.FormatInt(s.maxFile, 10), "Version": "11.0.0",
		"SiteName": "Mattermost", "PostEditTimeLimit": "-1",
	})
}

func (s *Server) getChannel(r *request) (answer, *refusal) {
	c, no := s.member(r, r.PathValue("channel"))
	if no != nil {
		return answer{}, no
	}
	return ok(c)
}

func (s *Server) getChannelByName(r *request) (answer, *refusal) {
	for _, c := range s.channels {
		if c.TeamID == r.PathValue("team") && c.Name == r.PathValue("name") {
			return ok(c)
		}
	}
	return answer{}, missing("channel")
}

func (s *Server) makeDirect(r *request) (answer, *refusal) {
	var ids []string
	if json.Unmarshal(r.body, &ids) != nil || len(ids) != 2 || !slices.Contains(ids, r.user) || s.users[ids[0]] == nil || s.users[ids[1]] == nil {
		return answer{}, invalid("user_ids")
	}
	return created(s.direct(ids[0], ids[1]))
}

// list is a list of posts as the API has them, newest first.
func (s *Server) list(posts []*Post) map[string]any {
	order, all := []string{}, map[string]Post{}
	for _, p := range posts {
		order = append(order, p.ID)
		all[p.ID] = public(*p)
	}
	return map[string]any{"order": order, "posts": all, "next_post_id": "", "prev_post_id": ""}
}

func (s *Server) getPosts(r *request) (answer, *refusal) {
	c, no := s.member(r, r.PathValue("channel"))
	if no != nil {
		return answer{}, no
	}

	q := r.URL.Query()
	since, _ := strconv.ParseInt(q.Get("since"), 10, 64)
	var found []*Post
	for _, p := range s.posts {
		if p.ChannelID == c.ID && (since > 0 && p.UpdateAt > since || since == 0 && p.DeleteAt == 0) {
			found = append(found, p)
		}
	}

	slices.SortStableFunc(found, func(a, b *Post) int { return cmp.Compare(b.CreateAt, a.CreateAt) })
	if since == 0 {
		page, _ := strconv.Atoi(q.Get("page"))
		per, _ := strconv.Atoi(cmp.Or(q.Get("per_page"), "60"))
		per = min(per, 200)
		found = found[min(page*per, len(found)):]
		found = found[:min(per, len(found))]
	}

	return ok(s.list(found))
}

func (s *Server) createPost(r *request) (answer, *refusal) {
	var p Post
	if json.Unmarshal(r.body, &p) != nil || p.ID != "" {
		return answer{}, invalid("post")
	}

	c, no := s.member(r, p.ChannelID)
	var root *Post
	if no == nil && p.RootID != "" {
		if root = s.post(p.RootID); root == nil || root.RootID != "" {
			return answer{}, errRoot()
		}
	}

	ids, _ := json.Marshal(p.FileIDs)
	props, _ := json.Marshal(p.Props)
	switch {
	case no != nil:
		return answer{}, errRight()
	case c.DeleteAt != 0:
		return answer{}, &refusal{"api.post.create_post.can_not_post_to_deleted.error", "Can not post to deleted channel.", "", http.StatusBadRequest}
	case root != nil && root.ChannelID != c.ID:
		return answer{}, &refusal{"api.post.create_post.channel_root_id.app_error", "Invalid ChannelId for RootId parameter.", "", http.StatusBadRequest}
	case utf8.RuneCountInString(p.Message) > s.maxPost:
		return answer{}, errLength()
	case len(ids) > 300:
		return answer{}, &refusal{"model.post.is_valid.file_ids.app_error", "Invalid file ids. Note that uploads are limited to 10 files maximum.", "", http.StatusBadRequest}
	case utf8.RuneCount(props) > 800000:
		return answer{}, &refusal{"model.post.is_valid.props.app_error", "Invalid props.", "", http.StatusBadRequest}
	case strings.HasPrefix(p.Type, "system_"):
		return answer{}, invalid("post.type")
	}

	if id := s.pending[p.PendingPostID]; id != "" && p.PendingPostID != "" {
		if old := s.post(id); old != nil {
			return created(public(*old))
		}
	}

	p.UserID, p.CreateAt = r.user, 0
	saved := s.add(p)
	s.publish("posted", *saved)
	s.Show(saved.ChannelID, saved.Message)
	out := public(*saved)
	if saved.PendingPostID != "" {
		s.pending[saved.PendingPostID] = saved.ID
	}

	saved.PendingPostID = "" // it is not kept
	return created(out)
}

// seen is a post that the caller may read.
func (s *Server) seen(r *request) (*Post, *refusal) {
	p := s.post(r.PathValue("post"))
	if p == nil {
		return nil, errNoPost()
	}
	if _, no := s.member(r, p.ChannelID); no != nil {
		return nil, no
	}
	return p, nil
}

func (s *Server) getPost(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	if no != nil {
		return answer{}, no
	}
	return ok(public(*p))
}

// patchPost changes a post of the caller. The real server says that it must not
// be changed if it does not exist, and replaces all props.
func (s *Server) patchPost(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	if no != nil || p.UserID != r.user {
		return answer{}, errRight()
	}

	var patch struct {
		Message *string        `json:"message"`
		Props   map[string]any `json:"props"`
	}
	if json.Unmarshal(r.body, &patch) != nil {
		return answer{}, invalid("post")
	}
	if patch.Message != nil && utf8.RuneCountInString(*patch.Message) > s.maxPost {
		return answer{}, errLength()
	}

	if patch.Props != nil {
		p.Props = patch.Props
	}
	if patch.Message != nil && *patch.Message == p.Message && patch.Props == nil {
		s.Unchanged()
	}
	if patch.Message != nil && *patch.Message != p.Message {
		s.edit(p, *patch.Message)
		s.Show(p.ChannelID, p.Message)
	}
	return ok(public(*p))
}

func (s *Server) deletePost(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	switch {
	case no != nil:
		return answer{}, no
	case p.UserID != r.user:
		return answer{}, errRight()
	}
	s.remove(p)
	return done()
}

func (s *Server) getThread(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	if no != nil {
		return answer{}, no
	}

	if p.RootID != "" {
		p = s.post(p.RootID)
	}

	per, _ := strconv.Atoi(r.URL.Query().Get("perPage"))
	direction := r.URL.Query().Get("direction")
	if per > 200 || direction != "" && direction != "up" && direction != "down" {
		return answer{}, &refusal{"api.context.invalid_url_param.app_error", "Invalid or missing perPage or direction parameter in request URL.", "", http.StatusBadRequest}
	}

	var all []*Post
	for _, q := range s.posts {
		if (q.ID == p.ID || q.RootID == p.ID) && q.DeleteAt == 0 {
			all = append(all, q)
		}
	}

	if direction == "up" {
		slices.Reverse(all)
	}

	more := per > 0 && len(all) > per
	if more {
		all = all[:per]
	}

	// The first post is there in any case, and once.
	all = slices.DeleteFunc(all, func(q *Post) bool { return q.ID == p.ID })
	out := s.list(append([]*Post{p}, all...))
	out["has_next"] = more
	return ok(out)
}

func (s *Server) upload(r *request) (answer, *refusal) {
	kind := r.Header.Get("Content-Type")
	_, boundary, found := strings.Cut(kind, "boundary=")
	if !found {
		return answer{}, invalid("multipart form")
	}

	form, err := multipart.NewReader(bytes.NewReader(r.body), strings.Trim(boundary, `"`)).ReadForm(64 << 20)
	if err != nil || len(form.Value["channel_id"]) != 1 || len(form.File["files"]) == 0 {
		return answer{}, invalid("channel_id or files")
	}

	c, no := s.member(r, form.Value["channel_id"][0])
	if no != nil {
		return answer{}, errRight()
	}

	infos := []*File{}
	for _, head := range form.File["files"] {
		if head.Size > s.maxFile {
			return answer{}, &refusal{"api.file.upload_file.too_large_detailed.app_error", fmt.Sprintf("Unable to upload file %s. %d bytes exceeds the maximum allowed %d bytes.", head.Filename, head.Size, s.maxFile), "", http.StatusRequestEntityTooLarge}
		}

		f, err := head.Open()
		if err != nil {
			return answer{}, invalid("files")
		}

		data, err := io.ReadAll(f)
		if err != nil || f.Close() != nil {
			return answer{}, invalid("files")
		}
		infos = append(infos, s.keep(r.user, c.ID, head.Filename, data))
	}

	return created(map[string]any{"file_infos": infos, "client_ids": append([]string{}, form.Value["client_ids"]...)})
}

// readable is a file that the caller may read.
func (s *Server) readable(r *request) (*File, *refusal) {
	f := s.files[r.PathValue("file")]
	if f == nil {
		return nil, missing("file_info")
	}
	if _, no := s.member(r, f.ChannelID); no != nil {
		return nil, no
	}
	return f, nil
}

func (s *Server) getFile(r *request) (answer, *refusal) {
	f, no := s.readable(r)
	if no != nil {
		return answer{}, no
	}
	return ok(f.Data)
}

func (s *Server) getFileInfo(r *request) (answer, *refusal) {
	f, no := s.readable(r)
	if no != nil {
		return answer{}, no
	}
	return ok(f)
}

func (s *Server) getFileInfos(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	if no != nil {
		return answer{}, no
	}
	out := []*File{}
	for _, id := range p.FileIDs {
		out = append(out, s.files[id])
	}
	return ok(out)
}

// emojis are those the server knows.
func emojis() []string { return []string{"eyes", "white_check_mark", "thumbsup", "+1", "x"} }

func (s *Server) react(r *request) (answer, *refusal) {
	var q struct {
		User  string `json:"user_id"`
		Post  string `json:"post_id"`
		Emoji string `json:"emoji_name"`
	}

	p := &Post{}
	if json.Unmarshal(r.body, &q) == nil {
		p = s.post(q.Post)
	}

	switch {
	case q.Emoji == "" || len(q.Emoji) > 64 || !validID(q.Post):
		return answer{}, &refusal{"api.reaction.save_reaction.invalid.app_error", "Reaction is not valid.", "", http.StatusBadRequest}
	case q.User != r.user:
		return answer{}, &refusal{"api.reaction.save_reaction.user_id.app_error", "You cannot save reaction for the other user.", "", http.StatusForbidden}
	case p == nil:
		return answer{}, errNoPost()
	case !slices.Contains(emojis(), q.Emoji):
		return answer{}, &refusal{"app.emoji.get_by_name.no_result", "We couldn't find the emoji.", "", http.StatusNotFound}
	}

	if _, no := s.member(r, p.ChannelID); no != nil {
		return answer{}, errRight()
	}

	if mark := r.user + " " + q.Emoji; !slices.Contains(s.reactions[p.ID], mark) {
		s.reactions[p.ID] = append(s.reactions[p.ID], mark)
	}
	return ok(map[string]any{"user_id": q.User, "post_id": q.Post, "emoji_name": q.Emoji, "create_at": s.now()})
}

func (s *Server) unreact(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	switch {
	case no != nil:
		return answer{}, no
	case r.PathValue("user") != r.user && r.PathValue("user") != "me":
		return answer{}, errRight()
	}
	s.reactions[p.ID] = slices.DeleteFunc(s.reactions[p.ID], func(m string) bool { return m == r.user+" "+r.PathValue("emoji") })
	return done()
}

// public is a post as clients see it: where its buttons lead is a secret between
// the server and who made them.
func public(p Post) Post {
	list, _ := p.Props["attachments"].([]any)
	if len(list) == 0 {
		return p
	}

	var out []any
	for _, raw := range list {
		a, _ := raw.(map[string]any)
		a = maps.Clone(a)
		actions, _ := a["actions"].([]any)
		var shown []any
		for _, raw := range actions {
			act, _ := raw.(map[string]any)
			act = maps.Clone(act)
			delete(act, "integration")
			shown = append(shown, act)
		}

		a["actions"] = shown
		out = append(out, a)
	}

	p.Props = maps.Clone(p.Props)
	p.Props["attachments"] = out
	return p
}

// act is a person who presses a button: the server calls who made it.
func (s *Server) act(r *request) (answer, *refusal) {
	p, no := s.seen(r)
	if no != nil {
		return answer{}, no
	}

	list, _ := p.Props["attachments"].([]any)
	for _, raw := range list {
		a, _ := raw.(map[string]any)
		actions, _ := a["actions"].([]any)
		for _, raw := range actions {
			if act, _ := raw.(map[string]any); act["id"] == r.PathValue("action") {
				return s.press(r, p, act)
			}
		}
	}

	return answer{}, &refusal{"api.post.do_action.action_id.app_error", "Invalid action id.", "", http.StatusNotFound}
}

func (s *Server) press(r *request, p *Post, action map[string]any) (answer, *refusal) {
	integration, _ := action["integration"].(map[string]any)
	address, _ := integration["url"].(string)
	name := ""
	if u := s.users[r.user]; u != nil {
		name = u.Username
	}

	body := encode(map[string]any{
		"user_id": r.user, "user_name": name, "channel_id": p.ChannelID, "team_id": "", "post_id": p.ID,
		"trigger_id": "t", "type": "button", "data_source": "", "context": integration["context"],
	})
	s.mu.Unlock() // who is called may call back
	defer s.mu.Lock()
	failed := &refusal{"api.post.do_action.action_integration.app_error", "Action integration error.", "", http.StatusBadRequest}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return answer{}, failed
	}

	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 30 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, failed
	}

	defer res.Body.Close() //nolint:errcheck // read only
	var said struct {
		Update *Post `json:"update"`
	}
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&said) != nil {
		return answer{}, failed
	}

	if said.Update != nil {
		s.mu.Lock()
		p.Props = said.Update.Props
		s.edit(p, said.Update.Message)
		s.mu.Unlock()
	}
	return done()
}
