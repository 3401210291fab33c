package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Names of the owner's files, relative to the workspace.
const (
	soulName   = "SOUL.md"
	userName   = "USER.md"
	memoryName = "memory/MEMORY.md"
)

// maxPage is the largest file that is edited, in bytes. Larger ones are not
// made by us.
const maxPage = 256 << 10

// page is a file as it was when a run began and as it is to be.
type page struct {
	Name    string `json:"name"`
	Existed bool   `json:"existed,omitempty"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after"`
}

func (p *page) changed() bool { return p.After != p.Before }

// fileOf returns the file a finding belongs to, "" for skills.
func fileOf(scope string, t Target) string {
	switch {
	case t == NewSkill:
		return ""
	case scope != "":
		return ScopeFile(scope)
	case t == UserFile:
		return userName
	case t == SoulFile:
		return soulName
	}
	return memoryName
}

// readPage reads a file of the workspace. Anything but a plain text file is an
// error: what is behind a link is not ours to change.
func readPage(root *diskio.Tree, name string) (*page, error) {
	data, err := root.ReadHead(name, maxPage+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &page{Name: name}, nil
	case err != nil:
		return nil, err
	case len(data) > maxPage:
		return nil, fmt.Errorf("%s is over %d KB", name, maxPage>>10)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s is not UTF-8 text", name)
	}

	return &page{Name: name, Existed: true, Before: string(data), After: string(data)}, nil
}

// state tells how the file on disk relates to the page.
type pageState int

const (
	pageBefore pageState = iota
	pageAfter
	pageOther // it was changed by others
)

func (p *page) state(root *diskio.Tree) (pageState, error) {
	now, err := readPage(root, p.Name)
	switch {
	case err != nil:
		return pageOther, err
	case now.Existed && now.Before == p.After:
		return pageAfter, nil
	case now.Existed == p.Existed && now.Before == p.Before:
		return pageBefore, nil
	}

	return pageOther, nil
}

// write makes the file what it is to be; unwrite makes it what it was.
func (p *page) write(files *change.Writer) error {
	return files.Write(p.Name, []byte(p.After))
}

func (p *page) unwrite(files *change.Writer) error {
	if p.Existed {
		return files.Write(p.Name, []byte(p.Before))
	}

	err := files.Remove(p.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	if dir := path.Dir(p.Name); strings.HasPrefix(dir, "skills/") {
		_ = files.Remove(dir) // only if it is empty
	}
	return nil
}

// lineCounts returns how many lines a change adds and removes, moved lines not
// counted.
func lineCounts(before, after string) (added, removed []string) {
	left := map[string]int{}
	for l := range strings.Lines(before) {
		left[strings.TrimRight(l, "\r\n")]++
	}

	for l := range strings.Lines(after) {
		l = strings.TrimRight(l, "\r\n")
		if left[l] > 0 {
			left[l]--
		} else if strings.TrimSpace(l) != "" {
			added = append(added, l)
		}
	}

	for l := range strings.Lines(before) {
		l = strings.TrimRight(l, "\r\n")
		if left[l] > 0 {
			left[l]--
			if strings.TrimSpace(l) != "" {
				removed = append(removed, l)
			}
		}
	}

	return added, removed
}

// Size guards of one run.
const (
	// MaxFile is how large a memory file may grow by itself, in bytes.
	MaxFile        = 32 << 10
	maxSkillBytes  = 24 << 10
	shrinkFrom     = 400  // smaller files may shrink freely, in bytes
	linesPerRemove = 12   // lines one removal may explain
	soulGrowth     = 1500 // bytes one run may add to SOUL.md
)

// guardError refuses the result of a run.
type guardError struct{ why string }

func (e *guardError) Error() string { return e.why }

// guard refuses a change of a size that the findings do not explain.
func guard(p *page, findings []finding) error {
	removes := 0
	for _, f := range findings {
		if f.Remove {
			removes++
		}
	}

	before, after := len(p.Before), len(p.After)
	_, removed := lineCounts(p.Before, p.After)
	switch {
	case after > MaxFile && after > before:
		return &guardError{fmt.Sprintf("%s would grow to %d KB; the limit is %d KB", p.Name, (after+1023)>>10, MaxFile>>10)}
	case p.Name == soulName && after-before > soulGrowth:
		return &guardError{fmt.Sprintf("%s would grow by %d bytes in one run; the limit is %d", p.Name, after-before, soulGrowth)}
	case before >= shrinkFrom && after < before/2 && len(removed) > removes*linesPerRemove:
		return &guardError{fmt.Sprintf("%s would shrink from %d to %d bytes, more than the findings explain", p.Name, before, after)}
	}

	return nil
}

// stamp returns how times are written into our own files.
func stamp(t time.Time) string { return t.Format(time.RFC3339) }
