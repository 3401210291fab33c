package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// changeSet is everything a run does to the disk, written down before it is done
// so that a process that dies in between can be finished by the next.
type changeSet struct {
	ID        string `json:"id"`
	Time      string `json:"time"`
	Subject   string `json:"subject"`
	Body      string `json:"body"`
	Cursor    int64  `json:"cursor,omitempty"` // 0: it stays
	Pages     []page `json:"pages"`
	Facts     []fact `json:"facts,omitempty"`
	Held      []Held `json:"held,omitempty"`
	Confirmed string `json:"settled,omitempty"` // a finding the owner confirmed
}

// errMeanwhile says that a file was changed by others during a run.
var errMeanwhile = errors.New("the file changed meanwhile")

// applyTime bounds the steps that must not be cut short by a cancelled run.
const applyTime = time.Minute

// apply does a change, all of it or nothing.
func (d *Dream) apply(ctx context.Context, c changeSet, rep *Report, root *diskio.Tree) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	for _, p := range c.Pages {
		if s, err := p.state(root); err != nil {
			return err
		} else if s != pageBefore {
			return fmt.Errorf("%s: %w", p.Name, errMeanwhile)
		}
	}

	if len(c.Pages) > 0 {
		if _, _, err := d.commit(ctx, "edit: by hand", "Changes that were there before a dream."); err != nil {
			return fmt.Errorf("keep the files as they were: %w", err)
		}
	}

	if err := d.begin(c); err != nil {
		d.removeJournal(ctx)
		return fmt.Errorf("note the change: %w", err)
	}

	committed := false
	err := d.perform(ctx, c, func(id string, changed bool) {
		if changed {
			rep.Commit, committed = id, true
		}
	})
	if err == nil {
		d.removeJournal(ctx)
		return nil
	}
	if back := d.revert(ctx, c, root, committed); back != nil {
		return errors.Join(err, fmt.Errorf("take the dream back: %w", back)) // the journal stays
	}

	d.removeJournal(ctx)
	return err
}

// commit records the files if versions are kept.
func (d *Dream) commit(ctx context.Context, subject, body string) (id string, changed bool, err error) {
	if d.o.Repo == nil {
		return "", false, nil
	}
	return d.o.Repo.Commit(ctx, subject, body)
}

func (d *Dream) begin(c changeSet) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := d.state().Put(context.Background(), fileJournal, data, store.Any, true); err != nil {
		return err
	}
	return d.broken("journal")
}

func (d *Dream) removeJournal(ctx context.Context) {
	if err := d.state().Remove(context.WithoutCancel(ctx), fileJournal); err != nil {
		// Doing it once more does nothing, so this is not a failure of the
		// run.
		d.o.Log.WarnContext(ctx, "cannot remove the journal of the dream", "err", err)
	}
}

// perform does the steps of a change; each may be done again.
func (d *Dream) perform(ctx context.Context, c changeSet, committed func(id string, changed bool)) error {
	for i := range c.Pages {
		if err := c.Pages[i].write(d.o.Files); err != nil {
			return fmt.Errorf("write %s: %w", c.Pages[i].Name, err)
		}
		if err := d.broken("file"); err != nil {
			return err
		}
	}

	id := ""
	if len(c.Pages) > 0 {
		var changed bool
		var err error
		if id, changed, err = d.commit(ctx, c.Subject, c.Body); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		committed(id, changed)
	}

	if err := d.broken("commit"); err != nil {
		return err
	}
	if err := d.saveFacts(c, id); err != nil {
		return fmt.Errorf("note where facts come from: %w", err)
	}
	if err := d.holdBack(c); err != nil {
		return fmt.Errorf("keep findings for the owner: %w", err)
	}
	if err := d.broken("notes"); err != nil {
		return err
	}
	if c.Cursor > 0 {
		return d.o.History.SetDreamCursor(ctx, c.Cursor)
	}
	return nil
}

// revert undoes what perform did to the files.
func (d *Dream) revert(ctx context.Context, c changeSet, root *diskio.Tree, committed bool) error {
	var errs []error
	for i := range c.Pages {
		p := &c.Pages[i]
		s, err := p.state(root)
		if err == nil && s == pageAfter {
			err = p.unwrite(d.o.Files)
		}
		errs = append(errs, err)
	}

	if committed {
		_, _, err := d.commit(ctx, "revert: dream that failed", "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// repair brings a change to its end that a process died in. Run does it too.
func (d *Dream) repair(ctx context.Context) error {
	if i, err := d.state().Stat(ctx, fileJournal); err == nil && !i.Exists() {
		return nil
	}

	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}

	defer leave()
	_, err = d.recover(ctx)
	return err
}

func (d *Dream) recover(ctx context.Context) (recovered bool, err error) {
	data, version, err := d.state().Doc(ctx, fileJournal)
	if err != nil || version == store.Missing {
		return false, err
	}

	var c changeSet
	if err := json.Unmarshal(data, &c); err != nil {
		d.o.Log.WarnContext(ctx, "the journal of the dream cannot be read", "err", err)
		return false, setAside(ctx, d.state(), fileJournal, data)
	}

	root, err := diskio.OpenTree(d.o.History.Workspace())
	if err != nil {
		return false, err
	}

	defer root.Close() //nolint:errcheck // nothing is pending
	mine := true
	for i := range c.Pages {
		s, err := c.Pages[i].state(root)
		mine = mine && err == nil && s != pageOther
	}

	if !mine { // a page was edited since: that edit stands, ours goes
		if err := d.revert(ctx, c, root, false); err != nil {
			return false, err
		}
		d.o.Log.WarnContext(ctx, "took back an interrupted dream", "id", c.ID)
		d.removeJournal(ctx)
		return true, nil
	}

	c.Subject = "dream: recovered"
	if err := d.perform(ctx, c, func(string, bool) {}); err != nil {
		return false, err
	}

	d.o.Log.InfoContext(ctx, "finished an interrupted dream", "id", c.ID)
	d.removeJournal(ctx)
	return true, nil
}

// setAside moves a document that cannot be read out of the way.
func setAside(ctx context.Context, s store.Store, name string, data []byte) error {
	_, err := s.Put(ctx, name+".bad", data, store.Any, true)
	if err == nil {
		err = s.Remove(ctx, name)
	}
	return err
}
