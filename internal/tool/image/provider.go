package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// row describes a provider.
type row struct {
	name, base string
	keyHeader  string // instead of Authorization
	refs       func(model string) bool
	ask        func(ctx context.Context, m *maker, o order) (result, error)
}

func (r row) takesRefs(model string) bool { return r.refs != nil && r.refs(model) }

func always(string) bool { return true }

func rows() []row {
	return []row{
		{name: "openrouter", base: "https://openrouter.ai/api/v1", refs: always, ask: askOpenRouter},
		{name: "openai", base: "https://api.openai.com/v1", refs: isGPTImage, ask: askOpenAI},
		{name: "gemini", base: "https://generativelanguage.googleapis.com/v1beta", keyHeader: "X-Goog-Api-Key", refs: func(m string) bool { return !isImagen(m) }, ask: askGemini},
		{name: "custom", ask: askCustom},
		{name: "zhipu", base: "https://open.bigmodel.cn/api/paas/v4", ask: askZhipu},
		{name: "stepfun", base: "https://api.stepfun.com/v1", refs: isStep1X, ask: askStepFun},
		{name: "minimax", base: "https://api.minimax.io/v1", refs: always, ask: askMiniMax},
		{name: "ollama", base: "http://localhost:11434", ask: askOllama},
		{name: "aihubmix", base: "https://aihubmix.com/v1", refs: always, ask: askAiHubMix},
		{name: "modelscope", base: "https://api-inference.modelscope.cn/v1", refs: always, ask: askModelScope},
	}
}

// Providers lists the names New knows.
func Providers() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

func find(name string) (row, error) {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
	all := rows()
	if i := slices.IndexFunc(all, func(r row) bool { return r.name == name }); i >= 0 {
		return all[i], nil
	}
	if name == "openai_codex" {
		return row{}, errors.New("tools.imageGeneration.provider openai_codex is not supported: making pictures needs an API key; choose openai or openrouter")
	}
	return row{}, fmt.Errorf("tools.imageGeneration.provider %q cannot make pictures here; choose one of %s", name, strings.Join(Providers(), ", "))
}

func askOpenRouter(ctx context.Context, m *maker, o order) (result, error) {
	content := any(o.prompt)
	if len(o.refs) > 0 {
		parts := []any{map[string]any{"type": "text", "text": o.prompt}}
		for _, p := range o.refs {
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]string{"url": p.dataURL()}})
		}
		content = parts
	}

	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
				Images  []struct {
					ImageURL struct {
						URL string `json:"url"`
					} `json:"image_url"`
				} `json:"images"`
			} `json:"message"`
		} `json:"choices"`
	}

	err := m.post(ctx, "/chat/completions", map[string]any{
		"model": m.o.Model, "messages": []any{map[string]any{"role": "user", "content": content}},
		"modalities": []string{"image", "text"}, "image_config": map[string]string{"aspect_ratio": o.ratio, "image_size": o.size},
	}, &answer)
	var res result
	for _, c := range answer.Choices {
		res.text += c.Message.Content
		for _, i := range c.Message.Images {
			res.images = append(res.images, i.ImageURL.URL)
		}
	}
	return res, err
}

func isGPTImage(model string) bool {
	return strings.Contains(model, "gpt-image") || strings.Contains(model, "chatgpt-image")
}

// listed is the answer of the images endpoints many services share.
type listed struct {
	Data []struct {
		Base64 string `json:"b64_json"`
		URL    string `json:"url"`
	} `json:"data"`
}

func (l listed) result() result {
	var res result
	for _, d := range l.Data {
		if d.Base64 != "" {
			res.images = append(res.images, d.Base64)
		} else if d.URL != "" {
			res.images = append(res.images, d.URL)
		}
	}
	return res
}

func askOpenAI(ctx context.Context, m *maker, o order) (result, error) {
	model := strings.TrimPrefix(m.o.Model, "openai/")
	req := map[string]any{"model": model, "prompt": o.prompt, "n": 1}
	switch {
	case strings.Contains(model, "dall-e-3"):
		req["size"], req["response_format"] = o.nearest("1024x1024", "1792x1024", "1024x1792"), "b64_json"
	case strings.Contains(model, "dall-e"):
		req["size"], req["response_format"] = o.nearest("1024x1024"), "b64_json"
	default:
		req["size"] = openAISize(o)
	}

	var answer listed
	if len(o.refs) > 0 {
		body, mime, err := editForm(model, o)
		if err != nil {
			return result{}, err
		}
		err = m.send(ctx, call{path: "/images/edits", body: body, mime: mime}, &answer)
		return answer.result(), err
	}

	err := m.post(ctx, "/images/generations", req, &answer)
	return answer.result(), err
}

func openAISize(o order) string { return o.nearest("1024x1024", "1536x1024", "1024x1536") }

func editForm(model string, o order) (body []byte, mime string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, kv := range [][2]string{{"model", model}, {"prompt", o.prompt}, {"n", "1"}, {"size", openAISize(o)}} {
		if err := w.WriteField(kv[0], kv[1]); err != nil {
			return nil, "", err
		}
	}

	for i, p := range o.refs {
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {multipart.FileContentDisposition("image[]", fmt.Sprintf("image%d.%s", i+1, extension(p.mime)))},
			"Content-Type":        {p.mime},
		})
		if err != nil {
			return nil, "", err
		}
		if _, err := part.Write(p.data); err != nil {
			return nil, "", err
		}
	}

	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

func askCustom(ctx context.Context, m *maker, o order) (result, error) {
	w, h := o.pixels()
	var answer listed
	err := m.post(ctx, "/images/generations", map[string]any{"model": m.o.Model, "prompt": o.prompt, "n": 1, "size": sizeText(w, h)}, &answer)
	return answer.result(), err
}

func isImagen(model string) bool { return strings.Contains(model, "imagen") }

// askGemini speaks the native API; a base of the compatible one is corrected.
func askGemini(ctx context.Context, m *maker, o order) (result, error) {
	model := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(m.o.Model, "gemini/"), "google/"), "models/")
	at := strings.TrimSuffix(m.base, "/openai") + "/models/" + url.PathEscape(model)
	if isImagen(model) {
		return askImagen(ctx, m, o, at)
	}

	parts := []any{map[string]any{"text": o.prompt}}
	for _, p := range o.refs {
		parts = append(parts, map[string]any{"inlineData": map[string]string{"mimeType": p.mime, "data": base64.StdEncoding.EncodeToString(p.data)}})
	}

	look := map[string]string{"aspectRatio": o.ratio}
	if !strings.HasPrefix(model, "gemini-2") { // the older models know one size only
		look["imageSize"] = o.size
	}

	body, err := json.Marshal(map[string]any{
		"contents":         []any{map[string]any{"role": "user", "parts": parts}},
		"generationConfig": map[string]any{"responseModalities": []string{"TEXT", "IMAGE"}, "imageConfig": look},
	})
	if err != nil {
		return result{}, err
	}

	var answer struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string `json:"text"`
					Thought bool   `json:"thought"`
					Inline  struct {
						Data string `json:"data"`
					} `json:"inlineData"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}

	err = m.send(ctx, call{url: at + ":generateContent", body: body}, &answer)
	var res result
	for _, c := range answer.Candidates {
		for _, p := range c.Content.Parts {
			switch {
			case p.Thought:
			case p.Inline.Data != "":
				res.images = append(res.images, p.Inline.Data)
			default:
				res.text += p.Text
			}
		}
	}

	return res, err
}

func askImagen(ctx context.Context, m *maker, o order, at string) (result, error) {
	body, err := json.Marshal(map[string]any{
		"instances":  []any{map[string]string{"prompt": o.prompt}},
		"parameters": map[string]any{"sampleCount": 1, "aspectRatio": o.ratio},
	})
	if err != nil {
		return result{}, err
	}

	var answer struct {
		Predictions []struct {
			Data string `json:"bytesBase64Encoded"`
		} `json:"predictions"`
	}

	err = m.send(ctx, call{url: at + ":predict", body: body}, &answer)
	var res result
	for _, p := range answer.Predictions {
		res.images = append(res.images, p.Data)
	}
	return res, err
}
