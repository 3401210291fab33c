package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func askZhipu(ctx context.Context, m *maker, o order) (result, error) {
	var answer listed
	err := m.post(ctx, "/images/generations", map[string]any{
		"model": m.o.Model, "prompt": o.prompt,
		"size": o.nearest("1280x1280", "1728x960", "960x1728", "1568x1056", "1056x1568", "1472x1088", "1088x1472"),
	}, &answer)
	return answer.result(), err
}

func isStep1X(model string) bool { return strings.Contains(model, "step-1x") }

func askStepFun(ctx context.Context, m *maker, o order) (result, error) {
	req := map[string]any{
		"model": m.o.Model, "prompt": o.prompt, "n": 1, "response_format": "b64_json",
		"size": o.nearest("1024x1024", "1280x800", "800x1280"),
	}
	if len(o.refs) > 0 {
		req["style_reference"] = map[string]string{"source_url": o.refs[0].dataURL()}
	}

	var answer listed
	err := m.post(ctx, "/images/generations", req, &answer)
	return answer.result(), err
}

func askMiniMax(ctx context.Context, m *maker, o order) (result, error) {
	req := map[string]any{"model": m.o.Model, "prompt": o.prompt, "n": 1, "aspect_ratio": o.ratio, "response_format": "base64"}
	var subjects []any
	for _, p := range o.refs {
		subjects = append(subjects, map[string]string{"type": "character", "image_file": p.dataURL()})
	}

	if subjects != nil {
		req["subject_reference"] = subjects
	}

	var answer struct {
		Data struct {
			Images []string `json:"image_base64"`
		} `json:"data"`
	}

	err := m.post(ctx, "/image_generation", req, &answer)
	return result{images: answer.Data.Images}, err
}

// askOllama speaks the server's own API, which lies beside the compatible one.
func askOllama(ctx context.Context, m *maker, o order) (result, error) {
	w, h := o.pixels()
	body, err := json.Marshal(map[string]any{"model": m.o.Model, "prompt": o.prompt, "width": w, "height": h, "steps": 0, "stream": false})
	if err != nil {
		return result{}, err
	}

	var answer struct {
		Image  string   `json:"image"`
		Images []string `json:"images"`
	}
	err = m.send(ctx, call{url: strings.TrimSuffix(m.base, "/v1") + "/api/generate", body: body}, &answer)
	if answer.Image != "" {
		answer.Images = append(answer.Images, answer.Image)
	}
	return result{images: answer.Images}, err
}

// askAiHubMix passes models of many vendors on, whose answers differ in shape.
func askAiHubMix(ctx context.Context, m *maker, o order) (result, error) {
	path := m.o.Model
	size := "auto"
	if isGPTImage(path) {
		size = openAISize(o)
		if !strings.Contains(path, "/") {
			path = "openai/" + path
		}
	}

	in := map[string]any{"prompt": o.prompt, "n": 1, "size": size}
	var refs []string
	for _, p := range o.refs {
		refs = append(refs, p.dataURL())
	}

	switch len(refs) {
	case 0:
	case 1:
		in["image"] = refs[0]
	default:
		in["image"] = refs
	}

	var answer map[string]any
	if err := m.post(ctx, "/models/"+strings.Trim(path, "/")+"/predictions", map[string]any{"input": in}, &answer); err != nil {
		return result{}, err
	}

	var res result
	collect(answer["output"], &res)
	collect(answer["data"], &res)
	return res, nil
}

// collect finds pictures in an answer of unknown shape, by the names vendors
// give them.
func collect(v any, into *result) {
	switch t := v.(type) {
	case string:
		if strings.HasPrefix(t, "https://") || strings.HasPrefix(t, "http://") || strings.HasPrefix(t, "data:image/") {
			into.images = append(into.images, t)
		}
	case []any:
		for _, item := range t {
			collect(item, into)
		}
	case map[string]any:
		for _, name := range []string{"b64_json", "bytesBase64", "bytesBase64Encoded"} {
			if s, ok := t[name].(string); ok && s != "" {
				into.images = append(into.images, s)
				return
			}
		}
		for _, name := range []string{"url", "image", "images", "output", "b64_json"} {
			collect(t[name], into)
		}
	}
}

// How often and how long a job at ModelScope is asked for.
const (
	polls     = 60
	pollEvery = 5 * time.Second
)

func askModelScope(ctx context.Context, m *maker, o order) (result, error) {
	req := map[string]any{
		"model": m.o.Model, "prompt": o.prompt,
		"size": o.nearest("1328x1328", "1664x928", "928x1664", "1472x1104", "1104x1472", "1584x1056", "1056x1584"),
	}
	var refs []string
	for _, p := range o.refs {
		refs = append(refs, p.dataURL())
	}

	if refs != nil {
		req["image_url"] = refs
	}

	body, err := json.Marshal(req)
	if err != nil {
		return result{}, err
	}

	var job struct {
		ID string `json:"task_id"`
	}
	if err := m.send(ctx, call{path: "/images/generations", body: body, header: map[string]string{"X-ModelScope-Async-Mode": "true"}}, &job); err != nil {
		return result{}, err
	}
	if job.ID == "" {
		return result{}, &llm.Error{Kind: llm.InvalidRequest, Provider: m.row.name, Message: "the provider accepted no task"}
	}
	return m.pollModelScope(ctx, job.ID)
}

func (m *maker) pollModelScope(ctx context.Context, id string) (result, error) {
	for range polls {
		if err := wait.For(ctx, pollEvery); err != nil {
			return result{}, err
		}

		var raw json.RawMessage
		err := m.send(ctx, call{path: "/tasks/" + url.PathEscape(id), header: map[string]string{"X-ModelScope-Task-Type": "image_generation"}}, &raw)
		if e := llmError(err); e != nil && e.Retryable() {
			continue // the task goes on; asking again is free
		}
		if err != nil {
			return result{}, err
		}

		var task struct {
			Status string   `json:"task_status"`
			Images []string `json:"output_images"`
		}
		if err := m.decode(raw, &task); err != nil {
			return result{}, err
		}

		switch task.Status {
		case "SUCCEED":
			return result{images: task.Images}, nil
		case "FAILED":
			return result{}, m.classify.Response(http.StatusOK, nil, raw)
		}
	}

	no := false
	return result{}, &llm.Error{
		Kind: llm.Timeout, Provider: m.row.name, ShouldRetry: &no,
		Message: fmt.Sprintf("no picture after %s", polls*pollEvery),
	}
}

// llmError returns the *llm.Error of a failed call, nil if there is none.
func llmError(err error) *llm.Error {
	e, _ := errors.AsType[*llm.Error](err)
	return e
}
