package subject

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of what is shown of memory.
const (
	changesDefault = 50
	changesMost    = 500
	forgetBytes    = 1000
)

// Memory is what is remembered.
type Memory struct{ Now Source }

// Routes implements web.Subject.
func (k Memory) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"memory":          k.readMemory(memoryShow),
			"memory/why":      k.readMemory(memoryWhy),
			"memory/log":      k.readMemory(memoryLog),
			"memory/diff":     k.readMemory(memoryDiff),
			"memory/findings": k.readMemory(memoryFindings),
		},
		Actions: map[string]web.Action{
			"memory.write":          k.changeMemory(writeMemory),
			"memory.restore":        k.changeMemory(restoreMemory),
			"memory.confirm":        k.changeMemory(confirmFinding),
			"memory.reject":         k.changeMemory(rejectFinding),
			"memory.forget_preview": web.Changing(k.previewForget),
			"memory.forget":         k.changeMemory(forget),
			"memory.dream":          web.Changing(k.dream, web.TopicMemory),
		},
	}
}

// remembered is the memory for the time of a request.
type remembered struct {
	*memory.Memory

	secrets *httpsafe.Registry
}

// readMemory opens the memory for a read.
func (k Memory) readMemory(fn func(context.Context, remembered, *http.Request) (any, error)) web.Read {
	return func(ctx context.Context, r *http.Request) (any, error) {
		return k.withMemory(ctx, func(m remembered) (any, error) { return fn(ctx, m, r) })
	}
}

// changeMemory opens the memory for an action.
func (k Memory) changeMemory(fn func(context.Context, remembered, json.RawMessage) (any, error)) web.Action {
	return web.Changing(func(ctx context.Context, payload json.RawMessage) (any, error) {
		ctx, cancel := lasting(ctx)
		defer cancel()
		return k.withMemory(ctx, func(m remembered) (any, error) { return fn(ctx, m, payload) })
	}, web.TopicMemory)
}

func (k Memory) withMemory(ctx context.Context, fn func(remembered) (any, error)) (out any, err error) {
	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if now.Memory == nil {
		return nil, web.Refuse(http.StatusNotImplemented, "there is no memory here")
	}

	m, done, err := now.Memory(ctx)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, done()) }()
	out, err = fn(remembered{m, now.Secrets})
	return out, memoryRefusal(err)
}

// memoryRefusal words what can go wrong with names and changes.
func memoryRefusal(err error) error {
	conflict, clash := errors.AsType[*gitstore.ConflictError](err)
	_, name := errors.AsType[*memory.NameError](err)
	switch {
	case name:
		return web.Refuse(http.StatusNotFound, "there is no such memory file; file is USER, SOUL or MEMORY, and a scope has only MEMORY")
	case clash:
		return web.Refuse(http.StatusConflict, "the same lines changed again later in %s; undo the later change first, or go back to before this one", strings.Join(conflict.Files, ", "))
	case errors.Is(err, gitstore.ErrNoCommit):
		return web.Refuse(http.StatusNotFound, "there is no such change of the memory")
	case errors.Is(err, gitstore.ErrAmbiguous):
		return web.Refuse(http.StatusConflict, "several changes begin like this; send the whole id")
	case errors.Is(err, gitstore.ErrFirst):
		return web.Refuse(http.StatusConflict, "this is the oldest change that is kept; there is nothing to go back to")
	case errors.Is(err, memory.ErrNoFinding):
		return web.Refuse(http.StatusNotFound, "there is no such finding")
	case errors.Is(err, memory.ErrDreaming):
		return web.Refuse(http.StatusConflict, "a dream is running and changes the memory; try again when it is done")
	case errors.Is(err, memory.ErrOrder):
		return web.Refuse(http.StatusConflict, "the finding reads like an instruction from outside; write it into the file yourself if you want that rule")
	case errors.Is(err, memory.ErrTooShort):
		return web.Refuse(http.StatusBadRequest, "text must have between 2 characters and %d bytes", forgetBytes)
	}

	return err
}

// memoryFile is a file of the memory. A client that changes it says which version
// it has read.
type memoryFile struct {
	memory.FileView

	Version string `json:"version"`
}

// versionOf names a content.
func versionOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// memoryShow returns what is remembered of the owner, or of a scope.
func memoryShow(ctx context.Context, m remembered, r *http.Request) (any, error) {
	all, err := m.Overview(ctx, r.URL.Query().Get("scope"), false)
	if err != nil {
		return nil, err
	}

	files := []memoryFile{}
	for _, f := range all.Files {
		version := versionOf(f.Text)
		f.Text = m.secrets.Redact(f.Text)
		files = append(files, memoryFile{f, version})
	}
	return map[string]any{
		"files": files, "scopes": append([]memory.ScopeView{}, all.Scopes...), "findings": len(all.Waiting), "history": all.History,
		"last_change": all.Last, "last_dream": all.Dreamed, "uncommitted_files": all.Unsaved,
	}, nil
}

// memoryWhy says where the lines of a file come from.
func memoryWhy(ctx context.Context, m remembered, r *http.Request) (any, error) {
	file, err := m.FileNamed(r.URL.Query().Get("file"), r.URL.Query().Get("scope"))
	if err != nil {
		return nil, err
	}

	facts, err := m.Dream.Why(ctx, file)
	if err != nil {
		return nil, err
	}

	for i := range facts {
		facts[i].Text, facts[i].Finding = m.secrets.Redact(facts[i].Text), m.secrets.Redact(facts[i].Finding)
	}
	return map[string]any{"file": file, "facts": append([]memory.Fact{}, facts...)}, nil
}

// memoryLog lists changes, newest first; the cursor is the last one of a page.
func memoryLog(ctx context.Context, m remembered, r *http.Request) (any, error) {
	limit, err := number(r, "limit", changesDefault)
	if err != nil {
		return nil, err
	}

	limit = min(max(limit, 1), changesMost)
	cursor, most := r.URL.Query().Get("cursor"), limit+1
	if cursor != "" {
		most = 0
	}

	log, err := m.Repo.Log(ctx, most)
	if err != nil {
		return nil, err
	}

	if cursor != "" {
		i := 0
		for i < len(log) && log[i].ID != cursor {
			i++
		}
		if i == len(log) {
			return nil, web.Refuse(http.StatusBadRequest, "the cursor is not one of ours")
		}
		log = log[i+1:]
	}

	out := map[string]any{"cursor": nil}
	if len(log) > limit {
		log = log[:limit]
		out["cursor"] = log[limit-1].ID
	}

	for i := range log {
		log[i].Subject, log[i].Body = m.secrets.Redact(log[i].Subject), m.secrets.Redact(log[i].Body)
	}

	out["changes"] = append([]gitstore.Commit{}, log...)
	return out, nil
}

// memoryDiff shows a change, the difference between two, or what is not recorded
// yet.
func memoryDiff(ctx context.Context, m remembered, r *http.Request) (any, error) {
	id, to := r.URL.Query().Get("change"), r.URL.Query().Get("to")
	var of *gitstore.Commit
	var change gitstore.Change
	var err error
	if id != "" && to == "" {
		of = &gitstore.Commit{}
		*of, change, err = m.Repo.Show(ctx, id)
	} else {
		change, err = m.Repo.Diff(ctx, id, to)
	}

	if err != nil {
		return nil, err
	}
	return map[string]any{"change": of, "files": change.Files, "diff": clip(m.secrets.Redact(head(change.Diff, diffBytes)), diffBytes)}, nil
}

// memoryFindings returns those that came from outside and wait for the owner.
func memoryFindings(ctx context.Context, m remembered, _ *http.Request) (any, error) {
	held, err := m.Dream.Quarantine(ctx)
	if err != nil {
		return nil, err
	}
	for i := range held {
		held[i].Text = m.secrets.Redact(held[i].Text)
	}
	return map[string]any{"findings": append([]memory.Held{}, held...)}, nil
}

// writeMemory replaces a file, if it is still the version that was read. What was
// there is kept as a change.
func writeMemory(ctx context.Context, m remembered, payload json.RawMessage) (any, error) {
	var in struct {
		File    string `json:"file"`
		Scope   string `json:"scope"`
		Text    string `json:"text"`
		Version string `json:"version"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	file, err := m.FileNamed(in.File, in.Scope)
	switch {
	case err != nil:
		return nil, err
	case len(in.Text) > memory.MaxFile:
		return nil, web.Refuse(http.StatusRequestEntityTooLarge, "a memory file has at most %d bytes", memory.MaxFile)
	case !utf8.ValidString(in.Text) || strings.ContainsRune(in.Text, 0):
		return nil, web.Refuse(http.StatusBadRequest, "text must be text")
	}

	old, err := m.Repo.ReadWork(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if versionOf(string(old)) != in.Version {
		return nil, web.Refuse(http.StatusConflict, "%s has changed since it was read; its version is now %s", file, versionOf(string(old)))
	}
	if m.secrets.Redact(string(old)) != string(old) { // what the client read lacks it
		return nil, web.Refuse(http.StatusConflict, "%s holds a credential, which is not shown; edit it with nanobot memory edit", file)
	}
	if _, _, err := m.Repo.Commit(ctx, "snapshot: before an edit by hand", ""); err != nil {
		return nil, err
	}

	if in.Text != "" && !strings.HasSuffix(in.Text, "\n") {
		in.Text += "\n"
	}

	if err := m.Repo.WriteWork(file, []byte(in.Text)); err != nil {
		return nil, err
	}

	id, _, err := m.Repo.Commit(ctx, "edit: by hand", "")
	if err != nil {
		return nil, err
	}
	return map[string]any{"file": file, "version": versionOf(in.Text), "change": id}, nil
}

// restoreMemory undoes a change and everything after it, or that change alone.
func restoreMemory(ctx context.Context, m remembered, payload json.RawMessage) (any, error) {
	var in struct {
		ID   string `json:"id"`
		Only bool   `json:"only"`
	}
	if err := decodeID(payload, &in, &in.ID); err != nil {
		return nil, err
	}
	if in.Only {
		return m.Repo.UndoOnly(ctx, in.ID)
	}
	return m.Repo.Restore(ctx, in.ID)
}

// confirmFinding writes a finding into its file.
func confirmFinding(ctx context.Context, m remembered, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := decodeID(payload, &in, &in.ID); err != nil {
		return nil, err
	}
	file, err := m.Dream.Confirm(ctx, in.ID)
	return map[string]any{"id": in.ID, "file": file}, err
}

// rejectFinding drops a finding.
func rejectFinding(ctx context.Context, m remembered, payload json.RawMessage) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := decodeID(payload, &in, &in.ID); err != nil {
		return nil, err
	}
	return map[string]any{"id": in.ID}, m.Dream.Reject(ctx, in.ID)
}

// decodeID reads a payload with an id.
func decodeID(payload json.RawMessage, in any, id *string) error {
	if err := web.Decode(payload, in); err != nil {
		return err
	}
	if *id == "" {
		return web.Refuse(http.StatusBadRequest, "id is missing")
	}
	return nil
}

// dream lets memory take in what was said since the last time.
func (k Memory) dream(ctx context.Context, payload json.RawMessage) (any, error) {
	if err := web.Decode(payload, &struct{}{}); err != nil {
		return nil, err
	}

	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if now.Dream == nil {
		return nil, web.Refuse(http.StatusNotImplemented, "there is no memory here")
	}

	rep, err := now.Dream.Run(ctx, true)
	if errors.Is(err, memory.ErrDreaming) {
		return nil, memoryRefusal(err)
	}
	if err != nil {
		return nil, web.Refuse(http.StatusBadGateway, "%s", now.Secrets.Redact(err.Error()))
	}
	return rep, nil
}
