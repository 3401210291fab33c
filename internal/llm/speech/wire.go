package speech

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// askMultipart speaks the protocol most services share. The recording is
// streamed from its source, not copied into memory.
func askMultipart(ctx context.Context, s *service, a Audio, f format) (string, error) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	fields := [][2]string{{"model", s.o.Model}}
	if s.o.Language != "" {
		fields = append(fields, [2]string{"language", s.o.Language})
	}

	for _, kv := range fields {
		if err := w.WriteField(kv[0], kv[1]); err != nil {
			return "", err
		}
	}

	if _, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition("file", f.name)},
		"Content-Type":        {f.mime},
	}); err != nil {
		return "", err
	}

	split := form.Len()
	if err := w.Close(); err != nil {
		return "", err
	}

	head, tail := form.Bytes()[:split], form.Bytes()[split:]
	data, err := s.send(ctx, s.url, body{
		mime: w.FormDataContentType(), size: int64(form.Len()) + a.Size,
		open: func() (io.ReadCloser, error) {
			r, err := a.Open()
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), r, bytes.NewReader(tail)), r}, nil
		},
	})
	if err != nil {
		return "", err
	}
	return s.text(data)
}

// text reads {"text": ...}. Local servers may answer with the bare words.
func (s *service) text(data []byte) (string, error) {
	if t := bytes.TrimSpace(data); len(t) > 0 && t[0] != '{' && t[0] != '[' && t[0] != '<' && s.classify.Local {
		return string(t), nil
	}

	var answer struct {
		Text *string `json:"text"`
	}
	if err := s.decode(data, &answer); err != nil {
		return "", err
	}
	if answer.Text == nil {
		return "", fault(Unreadable, "%s answered without a text", s.row.name)
	}
	return *answer.Text, nil
}

// inlineAudio returns the recording in base64; Transcribe has bounded its size.
func inlineAudio(a Audio) (string, error) {
	r, err := a.Open()
	if err != nil {
		return "", err
	}

	defer func() { _ = r.Close() }()
	var b strings.Builder
	enc := base64.NewEncoder(base64.StdEncoding, &b)
	if _, err := io.Copy(enc, r); err != nil {
		return "", err
	}
	return b.String(), enc.Close()
}

// post sends the JSON that with makes of the recording in base64.
func (s *service) post(ctx context.Context, a Audio, with func(audio string) any) ([]byte, error) {
	audio, err := inlineAudio(a)
	if err != nil {
		return nil, &Error{Code: Unreadable, Message: "the recording cannot be read", Err: err}
	}
	b, err := jsonBody(with(audio))
	if err != nil {
		return nil, err
	}
	return s.send(ctx, s.url, b)
}

func askOpenRouter(ctx context.Context, s *service, a Audio, f format) (string, error) {
	data, err := s.post(ctx, a, func(audio string) any {
		req := map[string]any{"model": s.o.Model, "input_audio": map[string]string{"data": audio, "format": f.ext}}
		if s.o.Language != "" {
			req["language"] = s.o.Language
		}
		return req
	})
	if err != nil {
		return "", err
	}
	return s.text(data)
}

func askChat(ctx context.Context, s *service, a Audio, f format) (string, error) {
	data, err := s.post(ctx, a, func(audio string) any {
		req := map[string]any{"model": s.o.Model, "messages": []any{map[string]any{"role": "user", "content": []any{map[string]any{
			"type": "input_audio", "input_audio": map[string]string{"data": "data:" + f.mime + ";base64," + audio},
		}}}}}
		if s.o.Language != "" {
			req["asr_options"] = map[string]string{"language": s.o.Language}
		}
		return req
	})
	if err != nil {
		return "", err
	}

	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := s.decode(data, &answer); err != nil {
		return "", err
	}
	if len(answer.Choices) == 0 {
		return "", fault(Unreadable, "%s answered without a text", s.row.name)
	}
	return answer.Choices[0].Message.Content, nil
}

func askStepFun(ctx context.Context, s *service, a Audio, f format) (string, error) {
	data, err := s.post(ctx, a, func(audio string) any {
		how := map[string]any{"model": s.o.Model, "enable_itn": true}
		if s.o.Language != "" {
			how["language"] = s.o.Language
		}
		return map[string]any{"audio": map[string]any{
			"data": audio, "input": map[string]any{"transcription": how, "format": map[string]string{"type": f.ext}},
		}}
	})
	if err != nil {
		return "", err
	}

	for ev, err := range wire.SSE(bytes.NewReader(data)) {
		if err != nil {
			return "", err
		}

		var e struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(ev.Data, &e) != nil {
			continue
		}

		switch {
		case e.Type == "error" || ev.Name == "error":
			return "", s.classify.Response(http.StatusOK, nil, ev.Data)
		case e.Type == "transcript.text.done" || ev.Name == "transcript.text.done":
			return e.Text, nil
		}
	}

	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) || bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return "", s.classify.Response(http.StatusOK, nil, data)
	}
	return "", &llm.Error{Kind: llm.StreamTruncated, Provider: s.row.name, Message: "the answer ended before its text"}
}

// How often and how long a job at AssemblyAI is asked for.
const (
	polls     = 60
	pollEvery = 2 * time.Second
)

func askAssemblyAI(ctx context.Context, s *service, a Audio, _ format) (string, error) {
	data, err := s.send(ctx, s.url+"/upload", body{"application/octet-stream", a.Size, a.Open})
	if err != nil {
		return "", err
	}

	var up struct {
		URL string `json:"upload_url"`
	}
	if err := s.decode(data, &up); err != nil {
		return "", err
	}
	if up.URL == "" {
		return "", fault(Unreadable, "%s did not say where the recording is", s.row.name)
	}

	var models []string
	for m := range strings.SplitSeq(s.o.Model, ",") {
		if m = strings.TrimSpace(m); m != "" {
			models = append(models, m)
		}
	}

	order := map[string]any{"audio_url": up.URL, "speech_models": models}
	if s.o.Language != "" {
		order["language_code"] = s.o.Language
	}

	b, err := jsonBody(order)
	if err != nil {
		return "", err
	}
	if data, err = s.send(ctx, s.url+"/transcript", b); err != nil {
		return "", err
	}
	return s.poll(ctx, data)
}

// poll follows a job from the answer that created it.
func (s *service) poll(ctx context.Context, data []byte) (string, error) {
	var id string
	for n := 0; ; n++ {
		var job struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Text   string `json:"text"`
			Error  string `json:"error"`
		}
		if err := s.decode(data, &job); err != nil {
			return "", err
		}

		if n == 0 {
			id = job.ID
		}

		switch {
		case job.Status == "completed":
			return job.Text, nil
		case job.Status == "error" || id == "":
			return "", s.classify.Response(http.StatusOK, nil, data)
		case n == polls:
			return "", &llm.Error{Kind: llm.Timeout, Provider: s.row.name, Message: fmt.Sprintf("no transcript after %s", polls*pollEvery)}
		}

		if err := wait.For(ctx, pollEvery); err != nil {
			return "", err
		}

		var err error
		if data, err = s.send(ctx, s.url+"/transcript/"+url.PathEscape(id), body{}); err != nil {
			return "", err
		}
	}
}
