package image_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/image"
)

func TestGateways(t *testing.T) {
	t.Parallel()
	ref := "data:image/png;base64," + b64(png)
	const withRef = `{"prompt":"a cat","reference_images":["ref.png"]}`
	for _, tt := range []struct {
		name, provider, model, base, args string
		exchange                          exchange
		code                              tool.Code
	}{
		{
			name: "zhipu", provider: "zhipu", model: "glm-image", base: "/v4", args: `{"prompt":"a cat","aspect_ratio":"16:9"}`,
			exchange: exchange{path: "POST /v4/images/generations", json: `{"model":"glm-image","prompt":"a cat","size":"1728x960"}`, answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`},
		},
		{
			name: "stepfun with a style", provider: "stepfun", model: "step-1x-medium", base: "/v1", args: withRef,
			exchange: exchange{
				path:   "POST /v1/images/generations",
				json:   `{"model":"step-1x-medium","prompt":"a cat","n":1,"size":"1024x1024","response_format":"b64_json","style_reference":{"source_url":"` + ref + `"}}`,
				answer: `{"data":[{"b64_json":"` + b64(png) + `"}]}`,
			},
		},
		{
			name: "minimax", provider: "minimax", model: "image-01", base: "/v1", args: withRef,
			exchange: exchange{
				path:   "POST /v1/image_generation",
				json:   `{"model":"image-01","prompt":"a cat","n":1,"aspect_ratio":"1:1","response_format":"base64","subject_reference":[{"type":"character","image_file":"` + ref + `"}]}`,
				answer: `{"data":{"image_base64":["` + b64(png) + `"]},"base_resp":{"status_code":0,"status_msg":"success"}}`,
			},
		},
		{
			name: "minimax error", provider: "minimax", model: "image-01", base: "/v1", args: `{"prompt":"a cat"}`, code: tool.DeniedPolicy,
			exchange: exchange{path: "POST /v1/image_generation", answer: `{"base_resp":{"status_code":1004,"status_msg":"invalid api key"}}`},
		},
		{
			name: "ollama", provider: "ollama", model: "flux", base: "/v1", args: `{"prompt":"a cat","aspect_ratio":"3:4","image_size":"2K"}`,
			exchange: exchange{path: "POST /api/generate", json: `{"model":"flux","prompt":"a cat","width":1536,"height":2048,"steps":0,"stream":false}`, answer: `{"image":"` + b64(png) + `","done":true}`},
		},
		{
			name: "aihubmix", provider: "aihubmix", model: "gpt-image-1", base: "/v1", args: withRef,
			exchange: exchange{
				path:   "POST /v1/models/openai/gpt-image-1/predictions",
				json:   `{"input":{"prompt":"a cat","n":1,"size":"1024x1024","image":"` + ref + `"}}`,
				answer: `{"output":{"b64_json":[{"bytesBase64":"` + b64(png) + `"}]}}`,
			},
		},
		{
			name: "aihubmix, another vendor", provider: "aihubmix", model: "vendor/flux", base: "/v1", args: `{"prompt":"a cat"}`,
			exchange: exchange{
				path: "POST /v1/models/vendor/flux/predictions",
				json: `{"input":{"prompt":"a cat","n":1,"size":"auto"}}`, answer: `{"output":["` + ref + `"]}`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, image.Options{Provider: tt.provider, Model: tt.model, Base: fake(t, tt.exchange) + tt.base})
			r, out := run(t, o, tt.args)
			var got made
			if r.Code != tt.code || tt.code == "" && (json.Unmarshal([]byte(out), &got) != nil || len(got.Artifacts) != 1) {
				t.Errorf("code %q, result %s", r.Code, out)
			}
		})
	}
	if _, err := image.New(image.Options{Provider: "openai-codex", Model: "m"}); err == nil || !strings.Contains(err.Error(), "API key") {
		t.Errorf("codex: %v", err)
	}
}
