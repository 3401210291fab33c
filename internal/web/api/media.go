package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// parts is the content of a message: a text, a list of parts, or nothing.
type parts []part

// part is one piece of a content, in the words of either protocol.
type part struct {
	Type       string   `json:"type"`
	Text       string   `json:"text"`
	Refusal    string   `json:"refusal"`
	ImageURL   location `json:"image_url"`
	InputAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File struct {
		upload
	} `json:"file"`
	upload
}

type upload struct {
	FileID   string `json:"file_id"`
	FileData string `json:"file_data"`
	FileURL  string `json:"file_url"`
	Filename string `json:"filename"`
}

// location is a URL, alone or in an object.
type location struct{ URL string }

// UnmarshalJSON takes both forms.
func (l *location) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		return json.Unmarshal(b, &struct{ URL *string }{&l.URL})
	}
	return json.Unmarshal(b, &l.URL)
}

// UnmarshalJSON takes both forms of a content.
func (p *parts) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.Equal(b, []byte("null")):
		return nil
	case len(b) > 0 && b[0] == '[':
		return json.Unmarshal(b, (*[]part)(p))
	case len(b) > 0 && b[0] == '"':
		*p = parts{{Type: "text"}}
		return json.Unmarshal(b, &(*p)[0].Text)
	}
	return badRequest("content", "The content of a message is a text or a list of parts.")
}

// Uploads says what becomes of pictures and files of clients.
type Uploads struct {
	// Dir keeps what clients send along. "" refuses pictures and files.
	Dir     string
	MaxFile int64 // bytes of one picture or file; 0 is 10 MiB
	// Fetch gets pictures that are named by address. It must be a guarded
	// client; nil refuses such addresses.
	Fetch *http.Client
	// Transcribe makes text of a recording; nil hands recordings over as files.
	Transcribe func(ctx context.Context, path string) (string, error)
}

// content reads a message and saves what came with it.
func (u *Uploads) content(ctx context.Context, c *call, m message) (string, []bus.Media, error) {
	var said []string
	var media []bus.Media
	if m.text != "" {
		said = append(said, m.text)
	}

	for _, p := range m.parts {
		text, file, err := u.piece(ctx, c, p)
		if err != nil {
			return "", nil, err
		}

		if text != "" {
			said = append(said, text)
		}
		if file != nil {
			media = append(media, *file)
		}
	}

	return strings.Join(said, "\n"), media, nil
}

// piece reads one part.
func (u *Uploads) piece(ctx context.Context, c *call, p part) (string, *bus.Media, error) {
	switch p.Type {
	case "text", "input_text", "output_text":
		return p.Text, nil, nil
	case "refusal":
		return p.Refusal, nil, nil
	case "image_url", "input_image":
		file, err := u.picture(ctx, c, p.ImageURL.URL)
		return "", file, err
	case "input_audio":
		return u.recording(ctx, c, p)
	case "file", "input_file":
		up := p.File.upload
		if p.Type == "input_file" {
			up = p.upload
		}

		if up.FileData == "" {
			return "", nil, badRequest("file", "Send files as file_data; file_id and file_url are not supported.")
		}

		data, err := inline(up.FileData)
		if err != nil {
			return "", nil, err
		}

		file, err := u.save(c, up.Filename, data)
		return "", file, err
	}
	return "", nil, badRequest("content", fmt.Sprintf("Parts of type %q are not supported.", p.Type))
}

// picture saves a picture that came along or is named by its address.
func (u *Uploads) picture(ctx context.Context, c *call, url string) (*bus.Media, error) {
	var data []byte
	var err error
	switch {
	case strings.HasPrefix(url, "data:"):
		data, err = inline(url)
	case strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://"):
		data, err = u.fetch(ctx, url)
	default:
		err = badRequest("image_url", "Pictures come as data: or http(s) addresses.")
	}

	if err != nil {
		return nil, err
	}

	kind := http.DetectContentType(data)
	ext := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/bmp": ".bmp"}[kind]
	if ext == "" {
		return nil, badRequest("image_url", "That is not a PNG, JPEG, GIF, WebP or BMP picture.")
	}

	file, err := u.save(c, "image"+ext, data)
	if file != nil {
		file.MIME = kind
	}
	return file, err
}

func (u *Uploads) recording(ctx context.Context, c *call, p part) (string, *bus.Media, error) {
	data, err := inline(p.InputAudio.Data)
	if err != nil {
		return "", nil, err
	}

	file, err := u.save(c, "audio."+p.InputAudio.Format, data)
	if err != nil || u.Transcribe == nil {
		return "", file, err
	}

	said, err := u.Transcribe(ctx, file.Path)
	if err != nil {
		return "", nil, &fault{
			status:  http.StatusBadGateway,
			code:    "transcription_failed",
			param:   "input_audio",
			message: "The recording could not be turned into text.",
			err:     err,
		}
	}

	return said, nil, nil
}

// inline decodes data that came in the request: a data: address or just base64.
func inline(s string) ([]byte, error) {
	if head, body, ok := strings.Cut(s, ","); ok && strings.HasPrefix(head, "data:") {
		if !strings.HasSuffix(head, ";base64") {
			return nil, badRequest("content", "Data must be in base64.")
		}
		s = body
	}

	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	}

	if err != nil || len(data) == 0 {
		return nil, badRequest("content", "Data must be in base64 and must not be empty.")
	}
	return data, nil
}

// maxFiles bounds the files of one request: each costs an address to ask and a
// place on disk, however small the request is.
const maxFiles = 64

// fetchTime is how long a server may take to hand over a picture.
const fetchTime = 20 * time.Second

// fetch gets a picture from an address. The client guards against addresses
// that are none of a caller's business.
func (u *Uploads) fetch(ctx context.Context, url string) ([]byte, error) {
	if u.Fetch == nil {
		return nil, badRequest("image_url", "Pictures are not fetched here: send them as data: addresses.")
	}

	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	fail := func(err error) error {
		f := badRequest("image_url", "The picture cannot be fetched.")
		if b, ok := errors.AsType[*httpsafe.BlockedError](err); ok {
			f.message = "The picture cannot be fetched: " + b.Reason + "."
		}
		f.err = httpsafe.WithoutURL(err)
		return f
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fail(err)
	}

	resp, err := u.Fetch.Do(req)
	if err != nil {
		return nil, fail(err)
	}

	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fail(fmt.Errorf("status %s", resp.Status))
	}

	data, err := io.ReadAll(io.LimitReader(resp.Body, u.MaxFile+1))
	if err != nil {
		return nil, fail(err)
	}
	return data, nil
}

// save keeps a file of a request. The name is for people; on disk a random one
// goes before it, so that nothing is overwritten.
func (u *Uploads) save(c *call, name string, data []byte) (*bus.Media, error) {
	if u.Dir == "" {
		return nil, badRequest("content", "Pictures and files are not taken here.")
	}
	if len(c.files) >= maxFiles {
		return nil, &fault{status: http.StatusRequestEntityTooLarge, code: "too_many_files", message: fmt.Sprintf("A request may bring at most %d files.", maxFiles)}
	}
	if int64(len(data)) > u.MaxFile {
		return nil, &fault{status: http.StatusRequestEntityTooLarge, code: "file_too_large", message: fmt.Sprintf("A file may have at most %d bytes.", u.MaxFile)}
	}

	fail := func(err error) (*bus.Media, error) {
		return nil, &fault{status: http.StatusInternalServerError, code: "storage", message: "The file could not be kept.", err: err}
	}
	if err := os.MkdirAll(u.Dir, 0o700); err != nil {
		return fail(err)
	}

	name = safeName(name)
	path := filepath.Join(u.Dir, randomHex(12)+"_"+name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // safeName left no way out of the directory
	if err != nil {
		return fail(err)
	}

	c.files = append(c.files, path)
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fail(err)
	}
	return &bus.Media{Path: path, Name: name, Size: int64(len(data))}, nil
}

// safeName returns what is left of a name that a stranger chose: letters, digits
// and a few signs, no folders, at most 80 characters.
func safeName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	if len(name) > 80 {
		ext := filepath.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = text.Cut(strings.TrimSuffix(name, ext), 60) + ext
	}

	if strings.Trim(name, "._-") == "" {
		return "file"
	}
	return name
}

// readForm reads a request in the form of a web page: message, session_id,
// model, stream and files.
func (a *API) readForm(w http.ResponseWriter, r *http.Request, c *call) error {
	defer slowBody(http.NewResponseController(w))()
	form, err := r.MultipartReader()
	if err != nil {
		return badRequest("", "The form is not valid.")
	}

	fields := map[string]string{}
	var files []bus.Media
	for {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bodyFault(err)
		}

		file, err := a.o.Media.formPart(c, p, fields)
		if err != nil {
			return err
		}

		if file != nil {
			files = append(files, *file)
		}
	}

	session, err := a.session(r, fields["session_id"])
	if err != nil {
		return err
	}
	if c.model, err = a.model(fields["model"]); err != nil {
		return err
	}

	c.stream = fields["stream"] == "true"
	c.in.Media = files
	msgs := []message{{role: bus.RoleUser, text: fields["message"]}}
	return a.fill(r.Context(), c, a.pythons(session, msgs), msgs)
}

func (u *Uploads) formPart(c *call, p *multipart.Part, fields map[string]string) (*bus.Media, error) {
	data, err := io.ReadAll(io.LimitReader(p, u.MaxFile+1))
	if err != nil {
		return nil, bodyFault(err)
	}
	if p.FormName() == "files" {
		return u.save(c, p.FileName(), data)
	}
	fields[p.FormName()] = string(data)
	return nil, nil
}

// slowBody bounds the time a body may take to arrive, until the returned func
// is called.
func slowBody(rc *http.ResponseController) func() {
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // not every connection can
	return func() { _ = rc.SetReadDeadline(time.Time{}) }
}
