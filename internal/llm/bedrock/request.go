package bedrock

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// dummyTool is offered when earlier turns used tools and now there are none,
// which the service would refuse. Calls of it are dropped.
const dummyTool = "unavailable"

// family holds what a model's id tells about it. Ids of profiles of one's own
// and of imported models tell nothing.
type family struct {
	claude wire.ClaudeVersion
	known  bool // a Claude whose version is understood
	nova   int  // major version, 0 if it is none
	oss    bool // gpt-oss
}

func familyOf(model string) family {
	id := strings.ToLower(model)
	f := family{claude: wire.ParseClaude(id), oss: strings.Contains(id, "gpt-oss")}
	f.known = f.claude.Major > 0 || f.claude.Preview

	if _, rest, ok := strings.Cut(id, "amazon.nova-"); ok {
		f.nova = 1
		if strings.HasPrefix(rest, "2-") {
			f.nova = 2
		}
	}
	return f
}

// rich reports whether the model takes the status of a tool result.
func (f family) rich() bool { return f.known && f.claude.AtLeast(3, 0) || f.nova > 0 }

// caches reports whether the model takes cache points.
func (f family) caches() bool {
	return f.nova > 0 || f.claude.Preview || f.claude.AtLeast(3, 7) || f.claude.Family == "haiku" && f.claude.AtLeast(3, 5)
}

// generation is the part of a request that depends on effort and model.
type generation struct {
	maxTokens   int // 0: leave it to the model
	temperature *float64
	fields      map[string]json.RawMessage // additionalModelRequestFields
	thinks      bool                       // no tool may be forced
}

func generationFor(req llm.Request, turns []wire.Turn, lim limits) generation {
	f := familyOf(req.Model)
	g := generation{maxTokens: max(0, req.MaxTokens), temperature: req.Temperature, fields: map[string]json.RawMessage{}}
	switch {
	case f.known:
		g.claude(req, turns)
	case f.nova == 2:
		g.nova(req.Effort)
	case f.oss && req.Effort != "" && req.Effort != "none" && req.Effort != "adaptive":
		g.fields["reasoning_effort"] = quoted(threeSteps(req.Effort))
	}

	if lim.maxTokens > 0 {
		g.maxTokens = min(g.maxTokens, lim.maxTokens)
	}
	if lim.noTemperature {
		g.temperature = nil
	}
	if g.temperature != nil {
		t := min(max(*g.temperature, 0), 1)
		g.temperature = &t
	}
	return g
}

// claude applies the shared table of thinking modes.
func (g *generation) claude(req llm.Request, turns []wire.Turn) {
	c := wire.GenerationForClaude(req)
	if c.Thinking == "enabled" && !wire.MayThink(turns) {
		req.Effort = ""
		c = wire.GenerationForClaude(req)
	}

	g.maxTokens = c.MaxTokens
	g.temperature = c.Temperature
	g.thinks = c.Thinks()

	switch c.Thinking {
	case "":
	case "enabled":
		g.fields["thinking"] = json.RawMessage(`{"type":"enabled","budget_tokens":` + strconv.Itoa(c.Budget) + `}`)
	default:
		g.fields["thinking"] = json.RawMessage(`{"type":"` + c.Thinking + `"}`)
	}

	if c.Effort != "" {
		g.fields["output_config"] = json.RawMessage(`{"effort":"` + c.Effort + `"}`)
	}
}

// nova switches the reasoning of the second generation; at the highest step it
// takes no limit of tokens and no temperature.
func (g *generation) nova(effort string) {
	switch effort {
	case "":
	case "none":
		g.fields["reasoningConfig"] = json.RawMessage(`{"type":"disabled"}`)
	default:
		step := threeSteps(effort)
		g.fields["reasoningConfig"] = json.RawMessage(`{"type":"enabled","maxReasoningEffort":"` + step + `"}`)
		if step == "high" {
			g.maxTokens, g.temperature = 0, nil
		}
	}
}

func threeSteps(effort string) string {
	switch effort {
	case "minimal", "minimum", "low":
		return "low"
	case "high", "xhigh", "max":
		return "high"
	}
	return "medium"
}

func quoted(s string) json.RawMessage { return text.AppendJSON(nil, s) }

// encode writes the request body. The same input gives the same bytes, and
// what seldom changes comes before the messages.
func (d *driver) encode(req llm.Request, turns wire.Turns, lim limits) []byte {
	f := familyOf(req.Model)
	list := turns.List
	if lim.apart {
		list = apart(list)
	}

	g := generationFor(req, list, lim)
	cache := f.caches() && !lim.noCache
	marker := `{"cachePoint":{"type":"default"}}`
	long := marker
	if d.longTTL && f.claude.AtLeast(4, 5) {
		long = `{"cachePoint":{"type":"default","ttl":"1h"}}`
	}

	e := encoder{b: make([]byte, 0, wire.SizeOf(req)), status: f.rich()}
	e.raw(`{`)
	e.inference(g)
	e.extras(d.extra, g)
	mark := ""
	if cache && f.nova == 0 { // Nova caches no tools
		mark = long
	}

	e.tools(req, g, lim, toolPlan{list: list, mark: mark, system: turns.System != ""})
	if turns.System != "" {
		e.raw(`"system":[{"text":`)
		e.string(turns.System)
		e.raw(`}`)
		if cache {
			e.raw(`,` + long)
		}
		e.raw(`],`)
	}

	var marks []wire.CacheMark
	if cache {
		marks = wire.CacheMarks(list)
	}

	e.messages(list, marks, marker)
	e.raw(`}`)
	return e.b
}

type encoder struct {
	b      []byte
	status bool // tool results may say that they failed
}

func (e *encoder) raw(s string)    { e.b = append(e.b, s...) }
func (e *encoder) string(s string) { e.b = text.AppendJSON(e.b, s) }

func (e *encoder) inference(g generation) {
	if g.maxTokens <= 0 && g.temperature == nil {
		return
	}

	e.raw(`"inferenceConfig":{`)
	if g.maxTokens > 0 {
		e.raw(`"maxTokens":`)
		e.b = strconv.AppendInt(e.b, int64(g.maxTokens), 10)
	}

	if g.temperature != nil {
		if g.maxTokens > 0 {
			e.raw(`,`)
		}
		e.raw(`"temperature":`)
		e.b = strconv.AppendFloat(e.b, *g.temperature, 'f', -1, 64)
	}

	e.raw(`},`)
}

// extra is the user's ExtraBody, sorted into its places.
type extra struct{ top, fields map[string]json.RawMessage }

func parseExtra(raw json.RawMessage) (extra, error) {
	x := extra{top: map[string]json.RawMessage{}, fields: map[string]json.RawMessage{}}
	if len(raw) == 0 {
		return x, nil
	}

	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return x, errors.New("extraBody must be a JSON object")
	}

	if nested, ok := all["additionalModelRequestFields"]; ok {
		if json.Unmarshal(nested, &x.fields) != nil || x.fields == nil {
			return x, errors.New("extraBody.additionalModelRequestFields must be a JSON object")
		}
		delete(all, "additionalModelRequestFields")
	}

	for k, v := range all {
		switch k {
		case "guardrailConfig", "performanceConfig", "serviceTier", "requestMetadata", "promptVariables",
			"additionalModelResponseFieldPaths", "outputConfig":
			x.top[k] = v
		default:
			x.fields[k] = v
		}
	}

	return x, nil
}

// extras writes the user's additions; they win over ours.
func (e *encoder) extras(x extra, g generation) {
	e.members(x.top)
	fields := g.fields
	maps.Copy(fields, x.fields)
	if len(fields) == 0 {
		return
	}

	e.raw(`"additionalModelRequestFields":{`)
	e.members(fields)
	e.b = e.b[:len(e.b)-1] // the last comma
	e.raw(`},`)
}

func (e *encoder) members(m map[string]json.RawMessage) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e.string(k)
		e.raw(`:`)
		e.b = append(e.b, m[k]...)
		e.raw(`,`)
	}
}

type toolPlan struct {
	list   []wire.Turn
	mark   string // cache point, "" for none
	system bool   // a system prompt follows, whose cache point covers the tools
}

// tools writes the tools. The protocol has no way to forbid their use, so they
// are left out when none may be called.
func (e *encoder) tools(req llm.Request, g generation, lim limits, p toolPlan) {
	tools := req.Tools
	if req.ToolChoice == "none" {
		tools = nil
	}

	if len(tools) == 0 {
		if usesTools(p.list) {
			e.raw(`"toolConfig":{"tools":[{"toolSpec":{"name":"` + dummyTool + `","description":"Stands in for tools that are gone. Never call it.",` +
				`"inputSchema":{"json":{"type":"object","properties":{}}}}}]},`)
		}
		return
	}

	builtin := -1
	for i, t := range tools {
		if !strings.HasPrefix(t.Name, "mcp_") {
			builtin = i
		}
	}

	e.raw(`"toolConfig":{"tools":[`)
	for i, t := range tools {
		if i > 0 {
			e.raw(`,`)
		}

		e.raw(`{"toolSpec":{"name":`)
		e.string(t.Name)
		if t.Description != "" {
			e.raw(`,"description":`)
			e.string(t.Description)
		}

		e.raw(`,"inputSchema":{"json":`)
		if len(t.Schema) == 0 || string(t.Schema) == "null" {
			e.raw(`{"type":"object","properties":{}}`)
		} else {
			e.b = append(e.b, t.Schema...)
		}

		e.raw(`}}}`)
		if p.mark != "" && (i == builtin || i == len(tools)-1 && !p.system) {
			e.raw(`,` + p.mark)
		}
	}

	e.raw(`]`)
	if !g.thinks && !lim.noForce {
		switch req.ToolChoice {
		case "", "auto":
		case "required":
			e.raw(`,"toolChoice":{"any":{}}`)
		default:
			e.raw(`,"toolChoice":{"tool":{"name":`)
			e.string(req.ToolChoice)
			e.raw(`}}`)
		}
	}

	e.raw(`},`)
}

func usesTools(turns []wire.Turn) bool {
	return slices.ContainsFunc(turns, func(t wire.Turn) bool {
		return slices.ContainsFunc(t.Parts, func(p wire.Part) bool { return p.Kind == wire.CallPart || p.Kind == wire.ResultPart })
	})
}

func (e *encoder) messages(turns []wire.Turn, marks []wire.CacheMark, marker string) {
	e.raw(`"messages":[`)
	for i, t := range turns {
		if i > 0 {
			e.raw(`,`)
		}

		e.raw(`{"role":`)
		e.string(string(t.Role))
		e.raw(`,"content":[`)

		for j, p := range t.Parts {
			if j > 0 {
				e.raw(`,`)
			}
			e.part(p)
			if slices.Contains(marks, wire.CacheMark{Turn: i, Part: j}) {
				e.raw(`,` + marker)
			}
		}

		e.raw(`]}`)
	}

	e.raw(`]`)
}

func (e *encoder) part(p wire.Part) {
	switch p.Kind {
	case wire.TextPart:
		e.text(p.Text)
	case wire.ImagePart:
		e.image(p.Text)
	case wire.RawPart:
		e.text("[An attachment was here that cannot be sent to this model.]")
	case wire.ThinkingPart:
		e.thinking(wire.ReadThinking(p.Raw))
	case wire.CallPart:
		e.raw(`{"toolUse":{"toolUseId":`)
		e.string(p.ID)
		e.raw(`,"name":`)
		e.string(p.Call.Name)
		e.raw(`,"input":` + wire.ReplayArguments(p.Call.Arguments) + `}}`)

	case wire.ResultPart:
		e.result(p)
	}
}

func (e *encoder) text(s string) {
	e.raw(`{"text":`)
	e.string(s)
	e.raw(`}`)
}

// thinking writes a stored thought. The data of a hidden one is base64 on both
// sides.
func (e *encoder) thinking(t wire.StoredThinking) {
	if t.Type == "redacted_thinking" {
		e.raw(`{"reasoningContent":{"redactedContent":`)
		e.string(t.Data)
		e.raw(`}}`)
		return
	}

	e.raw(`{"reasoningContent":{"reasoningText":{"text":`)
	e.string(t.Thinking)
	e.raw(`,"signature":`)
	e.string(t.Signature)
	e.raw(`}}}`)
}

func (e *encoder) result(p wire.Part) {
	e.raw(`{"toolResult":{"toolUseId":`)
	e.string(p.ID)
	e.raw(`,"content":[`)
	var parts []wire.Part
	if p.Result == nil {
		parts = []wire.Part{{Kind: wire.TextPart, Text: wire.NoResult}}
	} else if parts = wire.ContentParts(nil, p.Result.Content); len(parts) == 0 {
		parts = []wire.Part{{Kind: wire.TextPart, Text: wire.EmptyText}}
	}

	for i, q := range parts {
		if i > 0 {
			e.raw(`,`)
		}
		e.part(q)
	}

	e.raw(`]`)
	switch {
	case !e.status:
	case p.Result == nil || p.Result.IsError:
		e.raw(`,"status":"error"`)
	default:
		e.raw(`,"status":"success"`)
	}

	e.raw(`}}`)
}

// image writes the bytes of a data URL. The service fetches no links and knows
// four formats; for anything else a note stands in.
func (e *encoder) image(u string) {
	rest, isData := strings.CutPrefix(u, "data:")
	head, data, found := strings.Cut(rest, ",")
	media, isBase64 := strings.CutSuffix(head, ";base64")
	media, _, _ = strings.Cut(media, ";")
	format, ok := strings.CutPrefix(strings.ToLower(media), "image/")
	if format == "jpg" {
		format = "jpeg"
	}

	if !isData || !found || !isBase64 || !ok || !isBase64Text(data) || !slices.Contains([]string{"png", "jpeg", "gif", "webp"}, format) {
		e.text(llm.ImageNote)
		return
	}

	e.raw(`{"image":{"format":"` + format + `","source":{"bytes":`)
	e.string(data)
	e.raw(`}}}`)
}

// isBase64Text checks without decoding: one bad character makes the service
// refuse the whole request.
func isBase64Text(s string) bool {
	t := strings.TrimRight(s, "=")
	return len(s) > 0 && len(s)%4 == 0 && len(s)-len(t) <= 2 && !strings.ContainsFunc(t, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '+' && r != '/'
	})
}

// apart gives tool results a turn of their own, for models that refuse text
// beside them.
func apart(turns []wire.Turn) []wire.Turn {
	var out []wire.Turn
	for _, t := range turns {
		n := slices.IndexFunc(t.Parts, func(p wire.Part) bool { return p.Kind != wire.ResultPart })
		if t.Role != llm.User || n <= 0 {
			out = append(out, t)
			continue
		}

		out = append(out,
			wire.Turn{Role: llm.User, Parts: t.Parts[:n:n]},
			wire.Turn{Role: llm.Assistant, Parts: []wire.Part{{Kind: wire.TextPart, Text: "(I have the results.)"}}},
			wire.Turn{Role: llm.User, Parts: t.Parts[n:]})
	}

	return out
}
