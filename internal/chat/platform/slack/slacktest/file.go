package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
)

func (s *Server) uploadURL(p map[string]string) (object, error) {
	size, err := strconv.Atoi(p["length"])
	if err != nil || size <= 0 || p["filename"] == "" {
		return nil, refusal("invalid_arguments")
	}
	if size > 1<<30 {
		return nil, refusal("file_upload_size_restricted")
	}

	s.serial++
	f := &File{ID: fmt.Sprintf("F0OUT%d", s.serial), Name: p["filename"], Data: make([]byte, 0, size)}
	s.files[f.ID] = f
	return object{"file_id": f.ID, "upload_url": s.http.URL + "/upload/" + f.ID + "?length=" + p["length"]}, nil
}

// upload takes the bytes of a file, as they are or as a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" {
		part, err := multipart.NewReader(r.Body, params["boundary"]).NextPart()
		if err != nil {
			http.Error(w, "no part", http.StatusBadRequest)
			return
		}
		body = part
	}

	data, err := io.ReadAll(body)
	s.mu.Lock()
	defer s.mu.Unlock()

	f := s.files[strings.TrimPrefix(r.URL.Path, "/upload/")]
	if err != nil || f == nil || r.Method != http.MethodPost || strconv.Itoa(len(data)) != r.URL.Query().Get("length") {
		http.Error(w, "not what was announced", http.StatusBadRequest)
		return
	}

	f.Data = data
	_, _ = io.WriteString(w, "OK - "+strconv.Itoa(len(data)))
}

func (s *Server) completeUpload(p map[string]string) (object, error) {
	var list []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if json.Unmarshal([]byte(p["files"]), &list) != nil || len(list) == 0 {
		return nil, refusal("invalid_arguments")
	}

	m := &Message{TS: s.nextTS(), Thread: p["thread_ts"], User: BotUser, Text: p["initial_comment"], Plain: unescape(p["initial_comment"]), Params: p}
	files := []object{}
	for _, one := range list {
		f := s.files[one.ID]
		if f == nil || len(f.Data) == 0 {
			return nil, refusal("file_not_found")
		}
		m.Files = append(m.Files, *f)
		files = append(files, object{"id": f.ID, "title": one.Title, "name": f.Name})
	}

	if p["channel_id"] != "" {
		c, err := s.target(p["channel_id"])
		if err != nil {
			return nil, err
		}
		if m.Thread != "" && s.message(c.ID, m.Thread) == nil {
			return nil, refusal("invalid_arguments")
		}

		m.Channel = c.ID
		s.messages = append(s.messages, m)
	}

	return object{"files": files}, nil
}

// download serves a file, or to strangers the page to sign in, as Slack does.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/files-pri/"), "/")
	s.mu.Lock()
	s.calls = append(s.calls, Call{Method: "download", Params: map[string]string{"id": id}})
	f := s.files[id]
	fail := s.failure("download")
	scopes := strings.Join(s.scopes, ",")
	s.mu.Unlock()

	switch {
	case fail != nil:
		fail.answer(w)
	case f == nil:
		http.NotFound(w, r)
	case r.Header.Get("Authorization") != "Bearer "+BotToken || !strings.Contains(scopes, "files:read"):
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><head><title>Sign in</title></head></html>")
	default:
		_, _ = w.Write(f.Data)
	}
}
