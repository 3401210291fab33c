package subject

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Skills are what the agent was taught, and how it is installed, changed and removed.
type Skills struct {
	Now   Source
	Clock func() time.Time
}

// Routes implements web.Subject.
func (k Skills) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"webui/skills":          k.list,
			"webui/skills/{name}":   k.one,
			"webui/skills/search":   k.catalogue,
			"webui/skills/trending": k.catalogue,
			"webui/skills/trends":   k.catalogue,
		},
		Actions: map[string]web.Action{
			"skill.install": web.Changing(k.install),
			"skill.update":  web.Changing(k.update),
			"skill.delete":  web.Changing(k.remove),
			"skill.check":   k.draft(skill.Check),
			"skill.write":   k.draft(skill.Write),
		},
	}
}

// taught is a skill as it is shown.
type taught struct {
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Source      skill.Source `json:"source,omitempty"`
	Available   bool         `json:"available"`
	Missing     string       `json:"missing,omitempty"`
	Disabled    bool         `json:"disabled"` // by the configuration
	Always      bool         `json:"always"`
	Changed     bool         `json:"changed"` // since it was installed
	SHA256      string       `json:"sha256,omitempty"`
	InstalledAt string       `json:"installed_at,omitempty"`
	From        string       `json:"from,omitempty"`
	Homepage    string       `json:"homepage,omitempty"`
	Emoji       string       `json:"emoji,omitempty"`
	Path        string       `json:"path,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
	Text        *string      `json:"text,omitempty"`
	File        string       `json:"file,omitempty"`    // the text with its front matter
	Version     string       `json:"version,omitempty"` // of File
}

// list lists the skills; of those that the configuration leaves out it knows
// the name only.
func (k Skills) list(ctx context.Context, _ *http.Request) (any, error) {
	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}

	out := []taught{}
	for _, s := range now.Skills.List() {
		t, err := describe(s, now.Place)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}

	for _, name := range now.Disabled {
		out = append(out, taught{Name: name, Disabled: true})
	}

	slices.SortStableFunc(out, func(a, b taught) int { return cmp.Compare(a.Name, b.Name) })
	return map[string]any{"skills": out}, nil
}

func (k Skills) one(ctx context.Context, r *http.Request) (any, error) {
	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}

	s, ok := now.Skills.Load(r.PathValue("name"))
	if !ok {
		return nil, web.Refuse(http.StatusNotFound, "there is no skill %.100q", r.PathValue("name"))
	}

	t, err := describe(s, now.Place)
	body := now.Secrets.Redact(s.Body)
	t.Text, t.File = &body, now.Secrets.Redact(s.File)
	if t.File == s.File { // else the text that comes back would lack a credential
		t.Version = skill.Version(s.File)
	}
	return t, err
}

// catalogue is for the reads about skills elsewhere, of which this program knows none.
func (k Skills) catalogue(ctx context.Context, r *http.Request) (any, error) {
	r.SetPathValue("name", path.Base(r.URL.Path))
	if s, err := k.one(ctx, r); err == nil { // a skill may have such a name
		return s, nil
	}
	return nil, web.Refuse(http.StatusNotImplemented, "this program has no catalogue of skills; install one from a file that you got elsewhere")
}

// describe returns a skill without its text.
func describe(s skill.Skill, at skill.Place) (taught, error) {
	t := taught{
		Name:        s.Name,
		Description: s.Description,
		Source:      s.Source,
		Available:   s.Available(),
		Missing:     s.Missing,
		Always:      s.Always,
		Homepage:    s.Homepage,
		Emoji:       s.Emoji,
		Path:        s.Path,
		Notes:       s.Notes,
	}
	if s.Source != skill.FromInstalled {
		return t, nil
	}

	rec, found, err := skill.FindInstalled(at, s.Name)
	if found {
		t.SHA256 = rec.SHA256
		t.Changed = rec.Changed()
		t.InstalledAt = stamp(rec.At)
		t.From = rec.From
	}
	return t, err
}

// skillWish is what the actions about skills are asked for.
type skillWish struct {
	Name    string `json:"name"`
	DataURL string `json:"data_url"` // an archive
	Path    string `json:"path"`     // of an archive or a folder in the workspace
	Always  *bool  `json:"always"`   // let it be in every prompt if it asks for that
	Force   bool   `json:"force"`    // replace what is there, whoever made it
}

func (k Skills) install(ctx context.Context, payload json.RawMessage) (any, error) {
	var in skillWish
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}

	src, err := in.parcel(now.Jail)
	if err != nil {
		return nil, err
	}
	return k.add(now, in.Force, src, in.Always != nil && *in.Always)
}

// update replaces an installed skill by another version of it.
func (k Skills) update(ctx context.Context, payload json.RawMessage) (any, error) {
	var in skillWish
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}

	rec, found, err := skill.FindInstalled(now.Place, in.Name)
	if err != nil {
		return nil, err
	}
	if _, known := now.Skills.Load(in.Name); !found && !known {
		return nil, web.Refuse(http.StatusNotFound, "there is no skill %.100q", in.Name)
	}

	switch {
	case !found && !in.Force:
		return nil, web.Refuse(http.StatusConflict, "%s was not installed but comes with the program or was written in the workspace; send force to put another in its place", in.Name)
	case found && rec.Changed() && !in.Force:
		return nil, web.Refuse(http.StatusConflict, "%s was changed since it was installed; send force to lose the changes", in.Name)
	}

	src, err := in.parcel(now.Jail)
	if err != nil {
		return nil, err
	}

	src.Only = in.Name
	always := rec.Always
	if in.Always != nil {
		always = *in.Always
	}
	return k.add(now, true, src, always)
}

// place returns where skills are installed; force lets them replace what is there.
func (p *Program) place(force bool) skill.Place {
	at := p.Place
	at.Force = force
	return at
}

// add installs a skill. Force replaces what is there.
func (k Skills) add(now *Program, force bool, src skill.Parcel, always bool) (any, error) {
	rec, problems, err := skill.InstallFrom(now.place(force), src, always, k.Clock())
	if err != nil {
		return nil, unfit(err)
	}

	out := map[string]any{"name": rec.Name, "problems": append([]skill.Problem{}, problems...)}
	if s, ok := now.Skills.Load(rec.Name); ok {
		if out["skill"], err = describe(s, now.Place); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (k Skills) remove(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Name  string `json:"name"`
		Force bool   `json:"force"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	now, err := k.Now(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := now.Skills.Load(in.Name); ok && s.Source == skill.FromBuiltin {
		return nil, web.Refuse(http.StatusConflict, "%s is built in; leave it out with agents.defaults.disabledSkills", in.Name)
	}
	if err := skill.Remove(now.place(in.Force), in.Name); err != nil {
		return nil, unfit(err)
	}
	return map[string]any{"name": in.Name, "deleted": true}, nil
}

// draft makes an action of what is done with the text of a skill.
func (k Skills) draft(do func(skill.Place, skill.Draft) ([]skill.Problem, error)) web.Action {
	return web.Changing(func(ctx context.Context, payload json.RawMessage) (any, error) {
		var in struct {
			Name    string `json:"name"`
			Text    string `json:"text"`
			Version string `json:"version"` // of the text that it replaces; "" makes a new skill
			Force   bool   `json:"force"`   // hide a built-in skill
		}
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}

		now, err := k.Now(ctx)
		if err != nil {
			return nil, err
		}

		problems, err := do(now.place(in.Force), skill.Draft{Name: in.Name, Text: in.Text, Version: in.Version})
		if err != nil {
			return nil, unfit(err)
		}
		return map[string]any{"name": in.Name, "problems": append([]skill.Problem{}, problems...), "version": skill.Version(in.Text)}, nil
	})
}

// unfit is why a skill is not installed or removed, as a refusal.
func unfit(err error) error {
	if _, ok := errors.AsType[*skill.InvalidError](err); ok {
		return web.Refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	if _, ok := errors.AsType[*diskio.LockedError](err); ok {
		return web.Refuse(http.StatusConflict, "another program changes the skills right now; try again")
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*os.LinkError](err); ok {
		return err
	}

	switch {
	case errors.Is(err, skill.ErrNotFound):
		return web.Refuse(http.StatusNotFound, "%v", err)
	case errors.Is(err, skill.ErrStale):
		return web.Refuse(http.StatusConflict, "the skill has changed since it was read; look at it again")
	case errors.Is(err, skill.ErrThirdParty):
		return web.Refuse(http.StatusConflict, "the skill was installed and is not edited; install another version of it")
	case errors.Is(err, skill.ErrExists), errors.Is(err, skill.ErrOwn):
		return web.Refuse(http.StatusConflict, "%v; send force to do it anyway", err)
	}

	return web.Refuse(http.StatusUnprocessableEntity, "%v", err)
}

// parcel reads the skill that is to be installed: what was sent along, or
// something in the workspace or among the files that came with messages.
func (in *skillWish) parcel(within *diskio.Jail) (skill.Parcel, error) {
	switch {
	case (in.DataURL == "") == (in.Path == ""):
		return skill.Parcel{}, web.Refuse(http.StatusBadRequest, "send either data_url, an archive, or path, a place in the workspace")
	case in.DataURL != "":
		data, err := archive(in.DataURL)
		return skill.Parcel{Name: in.Name, From: "upload " + in.Name, Archive: data}, err
	}

	jail := within.Narrower(diskio.Narrow{Restrict: true})
	abs, err := jail.Path(in.Path)
	if err != nil {
		return skill.Parcel{}, barred(in.Path, err)
	}

	src := skill.Parcel{Name: filepath.Base(abs), From: abs}
	info, err := jail.Stat(in.Path)
	switch {
	case err != nil:
	case info.IsDir():
		src.Files, err = readFolder(jail, in.Path)
	default:
		src.Archive, err = readArchive(jail, in.Path)
	}

	if err != nil {
		return skill.Parcel{}, barred(in.Path, err)
	}
	return src, nil
}

// archive decodes a data: URL.
func archive(url string) ([]byte, error) {
	head, body, ok := strings.Cut(url, ",")
	if !ok || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, web.Refuse(http.StatusBadRequest, "data_url must be a data: URL in base64")
	}
	if base64.StdEncoding.DecodedLen(len(body)) > skill.MaxTotal+3 {
		return nil, web.Refuse(http.StatusRequestEntityTooLarge, "the archive has more than %d MiB", skill.MaxTotal>>20)
	}

	data, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(data) == 0 {
		return nil, web.Refuse(http.StatusBadRequest, "data_url holds no base64")
	}
	return data, nil
}

func readArchive(jail *diskio.Jail, name string) ([]byte, error) {
	f, err := jail.Open(name)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(f, skill.MaxTotal+1))
	if err == nil && len(data) > skill.MaxTotal {
		err = web.Refuse(http.StatusRequestEntityTooLarge, "%s has more than %d MiB", name, skill.MaxTotal>>20)
	}
	return data, err
}

// readFolder reads the files of a folder; links in it are refused.
func readFolder(jail *diskio.Jail, name string) ([]skill.File, error) {
	dir, err := jail.OpenDir(name)
	if err != nil {
		return nil, err
	}
	var f folder
	err = f.gather(dir, "")
	return f.files, errors.Join(err, dir.Close())
}

// folder is what was read of one.
type folder struct {
	files []skill.File
	bytes int
}

// gather reads a folder and those in it, with an end to how much.
func (f *folder) gather(dir *diskio.Dir, at string) error {
	entries, err := dir.Entries()
	if err != nil {
		return err
	}

	for _, e := range entries {
		if len(f.files) > skill.MaxFiles || f.bytes > skill.MaxTotal || strings.Count(at, "/") > 32 {
			return web.Refuse(http.StatusRequestEntityTooLarge, "the folder has more than %d files or %d MiB", skill.MaxFiles, skill.MaxTotal>>20)
		}

		switch {
		case e.Name() == ".git" || e.Name() == "node_modules": // left out of skills in any case
		case e.IsDir():
			err = f.enter(dir, at, e.Name())
		default:
			err = f.add(dir, at, e)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (f *folder) enter(dir *diskio.Dir, at, name string) error {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(f.gather(sub, at+name+"/"), sub.Close())
}

func (f *folder) add(dir *diskio.Dir, at string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return web.Refuse(http.StatusUnprocessableEntity, "%s is a link or no regular file", at+e.Name())
	}

	data, _, err := dir.ReadFile(e.Name(), skill.MaxTotal, nil, nil)
	if err != nil {
		return err
	}

	f.files = append(f.files, skill.File{Path: at + e.Name(), Data: data, Exec: info.Mode()&0o111 != 0})
	f.bytes += len(data)
	return nil
}
