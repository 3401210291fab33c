package diskio

import (
	"context"
	"io/fs"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
)

// Bounds of a walk.
const (
	maxWalkDepth   = 256 // also bounds how many descriptors a walk holds
	maxWalkWorkers = 8
	walkBatch      = 128 // files handed to a worker at once, so one huge directory is shared
)

// Walk describes a parallel walk below a directory. S is what a directory
// passes on to its children, for example its ignore rules. All funcs may be
// called from several goroutines at once; links are reported as files and never
// followed.
type Walk[S any] struct {
	// Enter is called once for every directory. rel is its slash path relative
	// to the start, "" for the start itself. It returns the directory's own
	// state and the entries to go on with: directories among them are entered,
	// the others are given to File. It may modify entries.
	Enter func(d *Dir, rel string, inherited S, entries []fs.DirEntry) (S, []fs.DirEntry)
	// File is called for every kept entry that is not a directory. worker is
	// below Workers and never used by two goroutines at once.
	File func(d *Dir, rel string, e fs.DirEntry, worker int)
	// Failed is told of directories that could not be read. The walk goes on.
	Failed func(rel string, err error)
}

// WalkWorkers returns how many workers a walk has on this machine.
func WalkWorkers() int { return min(max(runtime.GOMAXPROCS(0), 2), maxWalkWorkers) }

// Run walks and returns when everything was seen or ctx ended, then with its
// error. start is not closed.
func (w Walk[S]) Run(ctx context.Context, start *Dir, inherited S) error {
	q := &walkQueue[S]{}
	q.ready = sync.NewCond(&q.mu)
	q.push(walkItem[S]{dir: &sharedDir{Dir: start, keep: true}, state: inherited})
	stop := context.AfterFunc(ctx, q.abort)
	defer stop()
	var wg sync.WaitGroup
	for worker := range WalkWorkers() {
		wg.Go(func() {
			for {
				it, ok := q.pop()
				if !ok {
					return
				}
				w.step(ctx, q, it, worker)
				q.done()
			}
		})
	}

	wg.Wait()
	q.drain()
	return ctx.Err()
}

func (w Walk[S]) step(ctx context.Context, q *walkQueue[S], it walkItem[S], worker int) {
	if it.files != nil {
		w.files(ctx, it, worker)
		it.dir.release()
		return
	}

	d := it.dir
	if it.name != "" { // a child of it.dir that is yet to be opened
		child, err := it.dir.OpenDir(it.name)
		it.dir.release()
		if err != nil {
			w.Failed(it.rel, err)
			return
		}
		d = &sharedDir{Dir: child}
	}

	d.retain()
	defer d.release()
	entries, err := d.Entries()
	if err != nil {
		w.Failed(it.rel, err)
	}

	state, kept := w.Enter(d.Dir, it.rel, it.state, entries)
	var files []fs.DirEntry
	var sub []walkItem[S]
	for _, e := range kept {
		if !e.IsDir() {
			files = append(files, e)
			continue
		}

		rel := path.Join(it.rel, e.Name())
		if it.depth+1 > maxWalkDepth {
			w.Failed(rel, refuse(rel, ErrBadName, "nested too deeply"))
			continue
		}

		d.retain()
		sub = append(sub, walkItem[S]{dir: d, name: e.Name(), rel: rel, state: state, depth: it.depth + 1})
	}

	for len(files) > walkBatch {
		d.retain()
		sub = append(sub, walkItem[S]{dir: d, rel: it.rel, files: files[:walkBatch]})
		files = files[walkBatch:]
	}

	q.push(sub...)
	w.files(ctx, walkItem[S]{dir: d, rel: it.rel, files: files}, worker)
}

func (w Walk[S]) files(ctx context.Context, it walkItem[S], worker int) {
	for _, e := range it.files {
		if ctx.Err() != nil {
			return
		}
		w.File(it.dir.Dir, it.rel, e, worker)
	}
}

// walkItem is a directory to enter (name below dir, or dir itself) or a batch of files.
type walkItem[S any] struct {
	dir   *sharedDir
	name  string
	rel   string
	state S
	depth int
	files []fs.DirEntry
}

// sharedDir closes its directory when the last item that needs it is done.
type sharedDir struct {
	*Dir
	keep bool
	refs atomic.Int32
}

func (s *sharedDir) retain() { s.refs.Add(1) }

func (s *sharedDir) release() {
	if s.refs.Add(-1) == 0 && !s.keep {
		_ = s.Close()
	}
}

// walkQueue is a stack, so the walk goes deep first and few directories are
// open at a time.
type walkQueue[S any] struct {
	ready *sync.Cond

	mu      sync.Mutex
	items   []walkItem[S]
	busy    int
	aborted bool
}

func (q *walkQueue[S]) push(items ...walkItem[S]) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	q.ready.Broadcast()
}

func (q *walkQueue[S]) pop() (it walkItem[S], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	for len(q.items) == 0 && q.busy > 0 && !q.aborted {
		q.ready.Wait()
	}

	if q.aborted || len(q.items) == 0 {
		return it, false
	}

	last := len(q.items) - 1
	it = q.items[last]
	q.items[last] = walkItem[S]{}
	q.items = q.items[:last]
	q.busy++
	return it, true
}

func (q *walkQueue[S]) done() {
	q.mu.Lock()
	q.busy--
	idle := q.busy == 0 && len(q.items) == 0
	q.mu.Unlock()
	if idle {
		q.ready.Broadcast()
	}
}

func (q *walkQueue[S]) abort() {
	q.mu.Lock()
	q.aborted = true
	q.mu.Unlock()
	q.ready.Broadcast()
}

// drain closes what an aborted walk left behind. No worker runs any more.
func (q *walkQueue[S]) drain() {
	for _, it := range q.items {
		if it.name != "" || it.files != nil {
			it.dir.release()
		}
	}
	q.items = nil
}
