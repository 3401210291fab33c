// Package image makes pictures, as the tool generate_image. It hides the protocols of
// the services that make pictures, checks that what they return is a picture, and
// stores it with a note of how it was made.
package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// maxPicture bounds one picture, made or given, in bytes.
const maxPicture = 10 << 20

// spareAttempts is how many requests may be made beyond one per picture.
const spareAttempts = 2

// Options configure the tool.
type Options struct {
	Provider string          // see Providers
	Model    string          // required
	Key      httpsafe.Secret // not needed by a server on this machine or network
	Base     string          // chat base; "" is the provider's own
	Headers  map[string]httpsafe.Secret
	// AspectRatio and Size apply when the model names none: "1:1" and "1K".
	AspectRatio string
	Size        string
	MaxPerTurn  int // pictures in one turn, 1-8; 0 is 4
	// Media is the directory pictures are stored under, SaveDir a relative
	// folder in it ("generated" when empty).
	Media   string
	SaveDir string
	// Read returns a reference picture the model named. It decides which files
	// may be read. nil means that references are not possible.
	Read func(path string) ([]byte, error)
	// Client talks to the provider, Download fetches results from addresses
	// the provider names and must be httpsafe.Guarded.
	Client   *http.Client
	Download *http.Client
	// Timeout bounds one request; 0 is 5 minutes.
	Timeout time.Duration
	Now     func() time.Time // nil is time.Now
}

// New makes the tool, or says what is wrong with its configuration.
func New(o Options) (tool.Tool, error) {
	r, err := find(o.Provider)
	if err != nil {
		return tool.Tool{}, err
	}

	o.SaveDir = cmp.Or(o.SaveDir, "generated")
	local := httpsafe.IsLocal(cmp.Or(o.Base, r.base))
	switch {
	case o.Model == "":
		return tool.Tool{}, errors.New("tools.imageGeneration.model is empty")
	case cmp.Or(o.Base, r.base) == "":
		return tool.Tool{}, fmt.Errorf("providers.%s.apiBase is empty", r.name)
	case o.Key.IsZero() && !local:
		return tool.Tool{}, fmt.Errorf("image generation has no key for %s; set providers.%s.apiKey", r.name, r.name)
	case !filepath.IsLocal(o.SaveDir):
		return tool.Tool{}, fmt.Errorf("tools.imageGeneration.saveDir %q must be a folder below the media directory", o.SaveDir)
	case o.Client == nil || o.Download == nil || o.Media == "":
		return tool.Tool{}, errors.New("image: Client, Download and Media are required")
	}

	o.AspectRatio, o.Size = cmp.Or(o.AspectRatio, "1:1"), cmp.Or(o.Size, "1K")
	o.MaxPerTurn = cmp.Or(o.MaxPerTurn, 4)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}

	base := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(cmp.Or(o.Base, r.base), "/"), "/chat/completions"), "/")
	m := &maker{o: o, row: r, base: base}
	m.classify = wire.Classifier{Provider: r.name, BaseURL: base, Local: local, Secrets: []httpsafe.Secret{o.Key}}
	return tool.Func(tool.Tool{
		Name: "generate_image", Sink: tool.SinkRemote,
		Description: "Make pictures from a description, or change given ones, with an image model. The files are stored; " +
			"the result lists their paths. Making a picture costs money and takes up to a minute: ask for as few as needed.",
	}, m.run), nil
}

type input struct {
	Prompt      string   `json:"prompt" desc:"What the picture shows, in detail." min:"1"`
	References  []string `json:"reference_images,omitempty" desc:"Paths of pictures to start from or to imitate." max:"8"`
	AspectRatio string   `json:"aspect_ratio,omitempty" desc:"Width to height, for example 1:1, 16:9 or 3:4."`
	Size        string   `json:"image_size,omitempty" desc:"1K, 2K, 4K or WIDTHxHEIGHT, as far as the model can."`
	Count       int      `json:"count,omitempty" desc:"How many pictures; 1 if left out." min:"1" max:"8"`
}

type maker struct {
	o        Options
	row      row
	base     string
	classify wire.Classifier
}

// order holds what a provider is asked for; it makes one picture or more.
type order struct {
	prompt, ratio, size string
	refs                []picture
}

type picture struct {
	data []byte
	mime string
}

// result is a provider's answer: pictures as data URLs, bare base64 or https
// URLs, and what it said beside them.
type result struct {
	images []string
	text   string
}

// quota counts the pictures of a turn.
type quota struct {
	mu   sync.Mutex
	turn string
	made int
}

// reserve counts n pictures towards the turn's allowance, or reports how many are left.
func (q *quota) reserve(turn string, n, limit int) (left int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.turn != turn {
		q.turn, q.made = turn, 0
	}

	if q.made+n > limit {
		return limit - q.made, false
	}

	q.made += n
	return limit - q.made, true
}

func (q *quota) giveBack(turn string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turn == turn {
		q.made -= n
	}
}

func (m *maker) run(ctx context.Context, c tool.Call, in input) (tool.Result, error) {
	count := max(in.Count, 1)
	job := order{prompt: strings.TrimSpace(in.Prompt), ratio: cmp.Or(in.AspectRatio, m.o.AspectRatio), size: cmp.Or(in.Size, m.o.Size)}
	if job.prompt == "" {
		return tool.Fail(tool.InvalidArgs, "prompt is empty"), nil
	}
	if _, _, ok := parseRatio(job.ratio); !ok {
		return tool.Fail(tool.InvalidArgs, "aspect_ratio %q is not of the form 16:9", job.ratio), nil
	}
	if bad := m.references(&job, in.References); bad != nil {
		return *bad, nil
	}

	q := tool.StateOf(c.State, func() *quota { return &quota{} })
	if left, ok := q.reserve(c.TurnID, count, m.o.MaxPerTurn); !ok {
		return tool.Fail(tool.DeniedPolicy, "%d pictures asked for, but only %d are left of the %d allowed in one turn (tools.imageGeneration.maxImagesPerTurn)", count, max(left, 0), m.o.MaxPerTurn), nil
	}

	made, text, err := m.make(ctx, job, count)
	q.giveBack(c.TurnID, count-len(made))
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	if len(made) == 0 {
		return failure(err, text), nil
	}
	return m.store(made, job.prompt, in.References, withMissing(text, err, count-len(made)))
}

// references reads the given pictures. A non-nil result says what is wrong.
func (m *maker) references(job *order, paths []string) *tool.Result {
	refuse := func(r tool.Result) *tool.Result { return &r }
	if len(paths) == 0 {
		return nil
	}
	if m.o.Read == nil || !m.row.takesRefs(m.o.Model) {
		return refuse(tool.Fail(tool.Unsupported, "%s with %s cannot use reference images; leave reference_images out", m.row.name, m.o.Model))
	}

	for _, p := range paths {
		data, err := m.o.Read(p)
		switch {
		case errors.Is(err, diskio.ErrOutside), errors.Is(err, diskio.ErrProtected), errors.Is(err, fs.ErrPermission):
			return refuse(tool.Fail(tool.DeniedPolicy, "%s: %v", p, err))
		case diskio.IsMissing(err):
			return refuse(tool.Fail(tool.NotFound, "%s does not exist", p))
		case err != nil:
			return refuse(tool.Fail(tool.InvalidArgs, "%s: %v", p, err))
		case len(data) > maxPicture:
			return refuse(tool.Fail(tool.TooLarge, "%s is larger than %d MB", p, maxPicture>>20))
		}

		mime := llm.PictureType(data)
		if mime == "" {
			return refuse(tool.Fail(tool.InvalidArgs, "%s is not a PNG, JPEG, WebP or GIF picture", p))
		}
		job.refs = append(job.refs, picture{data, mime})
	}

	return nil
}

// make asks until count pictures are there, with a bounded number of requests.
// err says why some are missing.
func (m *maker) make(ctx context.Context, job order, count int) (made []picture, text string, err error) {
	var last error // of the request just made
	for range count + spareAttempts {
		if last != nil && !m.pause(ctx, last) {
			break
		}

		var got []picture
		var said string
		got, said, last = m.attempt(ctx, job, count-len(made))
		made = append(made, got...)
		text = cmp.Or(said, text)
		err = cmp.Or(last, err)
		if len(made) == count {
			return made, text, nil
		}
	}

	return made, text, err
}

// attempt makes one request and fetches at most limit pictures of its answer.
func (m *maker) attempt(ctx context.Context, job order, limit int) (got []picture, text string, err error) {
	res, err := m.row.ask(ctx, m, job)
	if err != nil {
		return nil, "", err
	}
	if len(res.images) == 0 {
		return nil, res.text, errNoPicture
	}

	for _, src := range res.images[:min(len(res.images), limit)] {
		p, fetchErr := m.fetch(ctx, src)
		if fetchErr != nil {
			err = fetchErr
			continue
		}
		got = append(got, p)
	}

	return got, res.text, err
}

var errNoPicture = errors.New("the model answered without a picture")

// pause waits before another request after err; it reports whether one makes
// sense.
func (m *maker) pause(ctx context.Context, err error) bool {
	if errors.Is(err, errNoPicture) {
		return true
	}
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || !e.Retryable() || e.RetryAfter > 30*time.Second {
		return false
	}
	return wait.For(ctx, max(2*time.Second, e.RetryAfter)) == nil
}

// withMissing adds to a text how many pictures are missing, and why.
func withMissing(text string, err error, missing int) string {
	if missing == 0 {
		return text
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%d fewer than asked for: %v)", text, missing, err))
}

// failure words an error for the model.
func failure(err error, text string) tool.Result {
	if text != "" {
		text = fmt.Sprintf(" It said: %q", text[:min(len(text), 500)])
	}

	code := tool.Internal
	if b, ok := errors.AsType[*httpsafe.BlockedError](err); ok {
		return tool.Fail(tool.DeniedSSRF, "the picture cannot be fetched: %v", b)
	}

	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case ok && slices.Contains([]llm.Kind{llm.Auth, llm.Permission, llm.Billing, llm.Configuration}, e.Kind):
		return tool.Fail(tool.DeniedPolicy, "%v. The user must fix this; trying again does not help", err)
	case ok && e.Kind == llm.Timeout:
		code = tool.TimedOut
	case ok && (e.Kind == llm.InvalidRequest || e.Kind == llm.UnsupportedParam || e.Kind == llm.ContentFilter || e.Kind == llm.Refused):
		code = tool.InvalidArgs
	case errors.Is(err, errTooLarge):
		code = tool.TooLarge
	}

	r := tool.Fail(code, "no picture was made: %v.%s", err, text)
	r.MayHaveRun = true
	return r
}

// artifact holds what is known about a stored picture; also its sidecar file.
type artifact struct {
	ID       string   `json:"id"`
	Path     string   `json:"path"`
	MIME     string   `json:"mime"`
	Prompt   string   `json:"prompt"`
	Model    string   `json:"model"`
	Provider string   `json:"provider"`
	Sources  []string `json:"source_images"`
	Created  string   `json:"created_at"`
}

func (m *maker) store(made []picture, prompt string, sources []string, text string) (tool.Result, error) {
	out := struct {
		Artifacts []artifact `json:"artifacts"`
		Text      string     `json:"text,omitempty"`
		NextStep  string     `json:"next_step"`
	}{Text: text, NextStep: "Show the user the pictures by sending these paths as media, or name the paths in your answer."}
	for _, p := range made {
		a, err := m.save(p, prompt, sources)
		if err != nil {
			return tool.Fail(tool.Internal, "the picture was made but cannot be stored: %v", err), nil
		}
		out.Artifacts = append(out.Artifacts, a)
	}

	b, err := json.Marshal(out)
	if err != nil {
		return tool.Result{}, err
	}

	res := tool.Text(string(b))
	res.Trusted = text == "" // else the provider speaks in it
	return res, nil
}
