// Package speech turns recordings into text through a provider's service. It
// hides the providers' protocols, what they call audio formats, their limits
// and when a failed upload is worth repeating.
package speech

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Transcriber turns one recording into text. It is safe for concurrent use. A
// failure is an *Error when the recording or the setup is at fault, and an
// *llm.Error when the provider is; silence is an *Error too, never an empty
// Text.
type Transcriber interface {
	Transcribe(ctx context.Context, a Audio) (Text, error)
}

// Audio is a recording.
type Audio struct {
	Name     string        // file name; its extension tells the format
	MIME     string        // used when the name does not tell the format
	Size     int64         // in bytes; 0 if not known
	Duration time.Duration // 0 if not known; then only the size is bounded
	// Open starts reading from the beginning. It is called once per attempt.
	Open func() (io.ReadCloser, error)
}

// Text holds what was said.
type Text struct {
	Text     string
	Provider string
	Model    string
}

// Code classifies an Error.
type Code string

// The codes of Error.
const (
	MissingAudio  Code = "missing_audio"
	Disabled      Code = "disabled"
	NotConfigured Code = "not_configured"
	TooLong       Code = "duration"
	BadMIME       Code = "mime"
	TooLarge      Code = "size"
	Unreadable    Code = "decode" // the recording, or the provider's answer
	Empty         Code = "empty"  // no words were heard
)

// Error is a recording that is not transcribed. Message may be shown to users.
type Error struct {
	Code    Code
	Message string
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

func fault(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Options configure a Transcriber.
type Options struct {
	Disabled bool   // the user switched transcription off
	Provider string // see Providers; "" is groq
	Model    string // "" is the provider's usual one
	Language string // two or three lower-case letters; "" lets the provider guess
	// Key is the credential of the provider's block; without it the provider's
	// environment variable is read through Getenv. A server on this machine or
	// network needs none.
	Key     httpsafe.Secret
	Base    string // chat base or full URL; "" is the provider's own
	Headers map[string]httpsafe.Secret
	// MaxUpload is in bytes, 25 MiB when 0. MaxDuration is 2 minutes when 0.
	MaxUpload   int64
	MaxDuration time.Duration
	// Timeout bounds one attempt; 0 is 2 minutes.
	Timeout time.Duration
	Client  *http.Client // required, from httpsafe
	Getenv  func(string) string
}

// New makes a Transcriber, or says as an *Error what is missing. It does no I/O.
func New(o Options) (Transcriber, error) {
	if o.Disabled {
		return nil, fault(Disabled, "speech to text is switched off (transcription.enabled)")
	}

	row, ok := find(cmp.Or(o.Provider, "groq"))
	if !ok {
		return nil, fault(NotConfigured, "transcription.provider %q is not known; choose one of %s", o.Provider, strings.Join(Providers(), ", "))
	}
	if !validLanguage(o.Language) {
		return nil, fault(NotConfigured, "transcription.language %q must be a language code of two or three lower-case letters", o.Language)
	}
	if o.Client == nil {
		return nil, errors.New("speech: no HTTP client given")
	}

	if o.Key.IsZero() && o.Getenv != nil {
		o.Key = httpsafe.NewSecret(o.Getenv(row.env))
	}

	local := httpsafe.IsLocal(o.Base)
	if o.Key.IsZero() && !local {
		return nil, fault(NotConfigured, "speech to text has no key for %s; set providers.%s.apiKey or %s", row.name, row.name, row.env)
	}

	s := &service{o: o, row: row, url: endpoint(cmp.Or(o.Base, row.base), row.path)}
	s.o.Model = cmp.Or(o.Model, row.model)
	s.o.MaxUpload = cmp.Or(o.MaxUpload, 25<<20)
	s.o.MaxDuration = cmp.Or(o.MaxDuration, 2*time.Minute)
	s.o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	s.classify = wire.Classifier{Provider: row.name, BaseURL: s.url, Local: local, Secrets: []httpsafe.Secret{o.Key}}
	return s, nil
}

func validLanguage(s string) bool {
	return s == "" || len(s) >= 2 && len(s) <= 3 && !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
}

type service struct {
	o        Options
	row      row
	url      string
	classify wire.Classifier
}

// Transcribe checks the limits and asks the provider.
func (s *service) Transcribe(ctx context.Context, a Audio) (Text, error) {
	if a.Open == nil {
		return Text{}, fault(MissingAudio, "there is no recording")
	}
	if a.Duration > s.o.MaxDuration {
		return Text{}, fault(TooLong, "the recording is %s long; at most %s is transcribed (transcription.maxDurationSec)", a.Duration.Round(time.Second), s.o.MaxDuration)
	}
	if a.Size > s.o.MaxUpload {
		return Text{}, s.tooLarge()
	}

	format, ok := formatOf(a.Name, a.MIME)
	if !ok {
		return Text{}, fault(BadMIME, "%s is not a known audio format", strings.TrimSpace(a.Name+" "+a.MIME))
	}

	if a.Size <= 0 || s.row.inline {
		data, err := s.load(a)
		if err != nil {
			return Text{}, err
		}
		a.Size, a.Open = int64(len(data)), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
	}

	text, err := s.row.ask(ctx, s, a, format)
	if err != nil {
		return Text{}, err
	}
	if text = strings.TrimSpace(text); text == "" {
		return Text{}, fault(Empty, "%s heard no words in the recording", s.row.name)
	}
	return Text{Text: text, Provider: s.row.name, Model: s.o.Model}, nil
}

func (s *service) tooLarge() *Error {
	return fault(TooLarge, "the recording is larger than %d MB (transcription.maxUploadMb)", s.o.MaxUpload>>20)
}

// load reads a recording whose size is not known or that is sent inside JSON.
func (s *service) load(a Audio) (string, error) {
	r, err := a.Open()
	if err != nil {
		return "", &Error{Code: Unreadable, Message: "the recording cannot be read", Err: err}
	}

	defer func() { _ = r.Close() }()
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, s.o.MaxUpload+1))
	switch {
	case err != nil:
		return "", &Error{Code: Unreadable, Message: "the recording cannot be read", Err: err}
	case n > s.o.MaxUpload:
		return "", s.tooLarge()
	case n == 0:
		return "", fault(MissingAudio, "the recording is empty")
	}

	return b.String(), nil
}
