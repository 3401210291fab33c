package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Info describes a stored conversation without its messages.
type Info struct {
	Key      string
	Created  time.Time
	Updated  time.Time // of the last message; compaction, a title and notes do not count
	Messages int       // in the current log
	Bytes    int64     // of the current log
	Title    string    // from the metadata
	Preview  string    // the first words of the conversation, at most 120 characters
	Own      bool      // the owner typed them
	Handle   string    // a short name for people and models
	OpenTurn bool      // a turn is running or was interrupted
}

const (
	previewRunes = 120
	headBytes    = 32 << 10 // where the preview is looked for
)

// listed holds what List found about a log, which holds until the log changes.
type listed struct {
	log  store.Info
	info Info
}

// List describes all conversations, the last changed first. It reads the
// beginning and the end of each log that changed since the last call, not the
// messages between, and takes no locks. Logs that cannot be read are left out and reported in the error,
// which comes with the others.
func (st *Store) List(ctx context.Context) ([]Info, error) {
	var infos []Info
	var errs []error
	known := map[string]bool{}
	st.mu.Lock()
	before := st.listed
	st.mu.Unlock()
	now := map[string]listed{}
	for e, err := range st.state.Logs(ctx, "") {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}

		was, ok := before[e.Name]
		info := was.info
		if ok = ok && err == nil && was.log.ID == e.ID && was.log.Size == e.Size && was.log.Changed.Equal(e.Changed); !ok && err == nil {
			info, err = st.describe(ctx, e.Name)
		}

		if err != nil {
			errs = append(errs, err)
			continue
		}

		now[e.Name] = listed{e, info}
		if info.Key != "" && !known[info.Key] {
			known[info.Key] = true
			infos = append(infos, info)
		}
	}

	st.mu.Lock()
	st.listed = now
	st.mu.Unlock()
	slices.SortStableFunc(infos, func(a, b Info) int {
		return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Key, b.Key))
	})
	return infos, errors.Join(errs...)
}

// describe reads the two ends of a log.
func (st *Store) describe(ctx context.Context, name string) (Info, error) {
	f, err := st.state.Log(ctx, name)
	if err != nil {
		return Info{}, err
	}

	defer f.Close() //nolint:errcheck // only read from
	fi, err := f.Info(ctx)
	if err != nil {
		return Info{}, err
	}

	info := Info{Bytes: fi.Size, Updated: fi.Changed, Created: fi.Changed}
	m, at, err := describeEnd(f, fi.Size)
	if err != nil {
		return Info{}, err
	}
	if err := info.head(f, fi.Size, &m); err != nil {
		return Info{}, err
	}

	if info.Key = m.key; info.Key == "" {
		info.Key = suggestedKey(name)
		if key, ok := keyOf(strings.TrimSuffix(name, suffixLog)); ok {
			info.Key = key
		}
	}

	if t, ok := parseTime(m.created); ok {
		info.Created = t
	}
	if t, ok := parseTime(m.updated); ok {
		info.Updated = t
	}

	if t, ok, err := lastMessage(f, fi.Size); err != nil {
		return Info{}, err
	} else if ok {
		info.Updated = t
	}

	info.OpenTurn = m.open != nil
	_ = json.Unmarshal(m.values[TitleKey], &info.Title)
	_ = json.Unmarshal(m.values[keyHandle], &info.Handle)
	info.Handle = handle(info.Key, info.Handle)
	from := int64(0)
	if m.replay != nil {
		info.Messages, from = m.replay.Count, at
	}

	n, err := countMessages(f, from, fi.Size)
	info.Messages += n
	return info, err
}

// describeEnd finds the last metadata line near the end and its offset.
func describeEnd(f io.ReaderAt, size int64) (metadata, int64, error) {
	for line, err := range diskio.LinesBackward(f, size) {
		if err != nil {
			return metadata{}, 0, err
		}

		if mayBeMetadata(line.Bytes) && line.Whole {
			if m, kind := parseMetadata(line.Bytes); kind == "metadata" {
				if !m.replay.fits(line.Offset) {
					m.replay = nil
				}
				return m, line.Offset, nil
			}
		}

		if size-line.Offset > metadataReach {
			break
		}
	}
	return metadata{}, 0, nil
}

// lastMessage returns when the last message near the end was written. Work on the
// log, such as a compaction, writes metadata behind it.
func lastMessage(f io.ReaderAt, size int64) (time.Time, bool, error) {
	for line, err := range diskio.LinesBackward(f, size) {
		if err != nil {
			return time.Time{}, false, err
		}

		if line.Whole && !mayBeMetadata(line.Bytes) {
			var r Record
			if r.UnmarshalJSON(line.Bytes) == nil && !r.Time.IsZero() {
				return r.Time, true, nil
			}
		}

		if size-line.Offset > metadataReach {
			break
		}
	}
	return time.Time{}, false, nil
}

// head takes the preview, and the metadata when the end had none, from the
// beginning of a log.
func (i *Info) head(f io.ReaderAt, size int64, m *metadata) error {
	for line, err := range diskio.Lines(io.NewSectionReader(f, 0, min(size, headBytes)), 0) {
		if err != nil || !line.Whole {
			return err
		}

		if mayBeMetadata(line.Bytes) {
			if first, kind := parseMetadata(line.Bytes); kind == "metadata" && m.key == "" {
				*m = first
				m.replay = nil
			}
			continue
		}

		var r Record
		if r.UnmarshalJSON(line.Bytes) != nil || r.Role != llm.User || r.Command || r.Internal || r.Hidden || r.Mark() {
			continue
		}

		text := r.Display()
		if text = strings.Join(strings.Fields(text), " "); text != "" {
			i.Preview, i.Own = firstRunes(text, previewRunes), r.Own()
			return nil
		}
	}
	return nil
}

// Display returns the text of a record as people should see it, without the part
// marked in Runtime.
func (r Record) Display() string {
	if r.Mark() {
		return "(interrupted; there is no answer)"
	}
	text := r.Content.String()
	if r.Runtime != nil {
		text = strings.TrimRight(strings.TrimSuffix(text, r.Runtime.Suffix), "\n")
	}
	return text
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

func countMessages(f io.ReaderAt, from, size int64) (int, error) {
	n := 0
	for line, err := range diskio.Lines(io.NewSectionReader(f, from, size-from), from) {
		if err != nil {
			return n, err
		}
		if line.Whole && !mayBeMetadata(line.Bytes) && len(line.Bytes) > 0 && line.Bytes[0] == '{' {
			n++
		}
	}

	return n, nil
}

// Read yields the raw lines of a conversation as they are stored, metadata
// lines included, without taking it from its owner. A torn last line is left
// out. A line is valid until the next is asked for. The error is ErrNotFound
// when nothing is stored.
func (st *Store) Read(ctx context.Context, key string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		f, info, err := st.locate(ctx, key)
		if err != nil {
			yield(nil, err)
			return
		}

		defer f.Close() //nolint:errcheck // only read from
		for line, err := range store.Lines(f, 0, info.Size) {
			if err == nil {
				err = context.Cause(ctx)
			}

			if err != nil {
				yield(nil, err)
				return
			}
			if line.Whole && !yield(line.Bytes, nil) {
				return
			}
		}
	}
}

// Records yields the messages of a conversation like Read; lines that are not
// messages are left out.
func (st *Store) Records(ctx context.Context, key string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line, err := range st.Read(ctx, key) {
			if err != nil {
				yield(Record{}, err)
				return
			}

			if mayBeMetadata(line) {
				if _, kind := parseMetadata(line); kind != "" {
					continue
				}
			}

			var r Record
			if r.UnmarshalJSON(line) == nil && !yield(r, nil) {
				return
			}
		}
	}
}

// Metadata returns what the log of a conversation last said about it, without
// taking the conversation from its owner: what that one changed and did not
// write yet is not in it. The error is ErrNotFound when nothing is stored.
func (st *Store) Metadata(ctx context.Context, key string) (map[string]json.RawMessage, error) {
	f, info, err := st.locate(ctx, key)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read from
	m, _, err := describeEnd(f, info.Size)
	if err != nil {
		return nil, err
	}

	found := m.key != "" || len(m.values) > 0 // near the end
	if !found {                               // a long file of another program, or one very long message at the end
		for line, err := range st.Read(ctx, key) {
			if err != nil {
				return nil, err
			}
			if mayBeMetadata(line) {
				if last, kind := parseMetadata(line); kind == "metadata" {
					m = last
				}
			}
		}
	}

	delete(m.values, keyInbound)
	return m.values, nil
}

// Peek returns a copy of what is live in a conversation, as its log has it now. It
// takes nothing from the owner, and what is done to the copy stays in memory.
// The error is ErrNotFound when nothing is stored.
func (st *Store) Peek(key string) (*Session, error) {
	f, info, err := st.locate(context.Background(), key)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // only read from
	s, err := Ephemeral(key, st.opt.Now)
	if err != nil {
		return nil, err
	}
	if err := s.j.load(counted{f, &s.j.bytesRead}, info.Size); err != nil {
		return nil, err
	}

	s.j.size = info.Size
	return s, nil
}

// Export writes a conversation as one file that every version can read: its
// last metadata, then the messages as they are stored.
func (st *Store) Export(ctx context.Context, key string, w io.Writer) error {
	m := metadata{key: key}
	for line, err := range st.Read(ctx, key) {
		if err != nil {
			return err
		}
		if mayBeMetadata(line) {
			if last, kind := parseMetadata(line); kind == "metadata" {
				m = last
			}
		}
	}

	m.replay, m.ended = nil, nil
	if _, err := w.Write(append(m.appendLine(nil), '\n')); err != nil {
		return err
	}

	for line, err := range st.Read(ctx, key) {
		if err != nil {
			return err
		}

		if mayBeMetadata(line) {
			if _, kind := parseMetadata(line); kind == "metadata" {
				continue
			}
		}

		if _, err := w.Write(append(line[:len(line):len(line)], '\n')); err != nil {
			return err
		}
	}

	return nil
}

// locate opens the log that holds a key.
func (st *Store) locate(ctx context.Context, key string) (store.Log, store.Info, error) {
	name, err := fileName(key)
	if err != nil {
		return nil, store.Info{}, err
	}

	for _, n := range []string{hashName(key), name} {
		f, err := st.state.Log(ctx, n+suffixLog)
		if err != nil {
			return nil, store.Info{}, err
		}

		info, err := f.Info(ctx)
		stored := ""
		if err == nil && info.Exists() {
			stored, err = keyIn(io.NewSectionReader(f, 0, info.Size))
		}

		if err == nil && info.Exists() && (stored == key || stored == "") {
			return f, info, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, info, err
		}
	}

	return nil, store.Info{}, ErrNotFound
}
