package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Limits of what one server may offer. Every offer costs room in every
// request, and resources and prompts are rarely wanted by the hundred.
const (
	maxTools       = 500
	maxUnasked     = 32 // resources and prompts that were not named one by one
	maxPages       = 100
	maxDescription = 4000 // characters
)

// offer is one thing of a server the model can use.
type offer struct {
	identity
	uri         string // of a resource
	alias       string // another name the configuration may use
	description string
	params      params
	hash        string // of the definition as the server sent it
	readOnly    bool   // changes nothing, as far as we believe it
	repeatable  bool   // may be sent twice
	accepted    bool   // the owner has looked at the definition
}

// listing holds what a server offers after policy.
type listing struct {
	offers []offer
	held   []string // withheld, because their definition changed
	digest string   // of all definitions, also those withheld
}

func (l listing) count(k kind) int {
	n := 0
	for _, o := range l.offers {
		if o.kind == k {
			n++
		}
	}
	return n
}

func (l listing) counts() string {
	return fmt.Sprintf("%d tools, %d resources, %d prompts", l.count(kindTool), l.count(kindResource), l.count(kindPrompt))
}

// readLists asks a server for everything it offers and applies the policy.
func (s *server) readLists(ctx context.Context, cs *sdk.ClientSession) (listing, error) {
	all, err := s.tools(ctx, cs)
	if err != nil {
		return listing{}, err
	}

	caps := cs.InitializeResult().Capabilities
	if caps != nil && caps.Resources != nil && s.wants(kindResource) {
		more, err := s.resources(ctx, cs)
		if err != nil {
			return listing{}, err
		}
		all = append(all, more...)
	}

	if caps != nil && caps.Prompts != nil && s.wants(kindPrompt) {
		more, err := s.prompts(ctx, cs)
		if err != nil {
			return listing{}, err
		}
		all = append(all, more...)
	}

	list := listing{offers: s.allowed(ctx, all)}
	s.pinned(ctx, &list)
	return list, nil
}

// pages follows a paged list until it ends, repeats itself or is long enough.
func pages[T any](limit int, fetch func(cursor string) (items []T, next string, err error)) (all []T, cut bool, err error) {
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		items, next, err := fetch(cursor)
		if wire, ok := answered(err); ok && wire.Code == jsonrpc.CodeMethodNotFound {
			return all, false, nil
		}
		if err != nil {
			return nil, false, err
		}

		all = append(all, items...)
		switch {
		case len(all) > limit:
			return all[:limit:limit], true, nil
		case next == "":
			return all, false, nil
		case seen[next]:
			return all, true, nil
		}

		seen[next] = true
		cursor = next
	}

	return all, true, nil
}

func (s *server) tools(ctx context.Context, cs *sdk.ClientSession) ([]offer, error) {
	list, cut, err := pages(maxTools, func(cursor string) ([]*sdk.Tool, string, error) {
		r, err := cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Tools, r.NextCursor, nil
	})
	if err != nil {
		return nil, err
	}

	if cut {
		s.log.WarnContext(ctx, "mcp server offers more tools than are taken", "limit", maxTools)
	}

	var out []offer
	for _, t := range list {
		if t == nil || strings.TrimSpace(t.Name) == "" {
			continue
		}

		o := offer{
			identity: identity{s.Name, kindTool, t.Name}, description: s.describe("", t.Description, t.Title),
			params: normalise(t.InputSchema), hash: hashOf(t.Description, t.InputSchema, t.Annotations),
		}
		if a := t.Annotations; a != nil {
			o.readOnly = s.Trusted && a.ReadOnlyHint
			o.repeatable = a.ReadOnlyHint || a.IdempotentHint
		}
		if len(o.params.notes) > 0 {
			s.log.WarnContext(ctx, "mcp tool cannot be described fully", "tool", text.Label(t.Name, 80), "why", strings.Join(o.params.notes, "; "))
		}
		out = append(out, o)
	}

	return out, nil
}

func (s *server) resources(ctx context.Context, cs *sdk.ClientSession) ([]offer, error) {
	limit := maxTools
	if s.EnabledResources == nil || slices.Contains(s.EnabledResources, "*") {
		limit = maxUnasked
	}

	list, cut, err := pages(limit, func(cursor string) ([]*sdk.Resource, string, error) {
		r, err := cs.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Resources, r.NextCursor, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list resources of the MCP server: %w", err)
	}

	if cut {
		s.log.WarnContext(ctx, "mcp server offers more resources than are taken; name the ones you want in enabledResources", "limit", limit)
	}

	var out []offer
	for _, r := range list {
		if r == nil || r.URI == "" {
			continue
		}

		name := r.Name
		if strings.TrimSpace(name) == "" {
			name = r.URI
		}

		out = append(out, offer{
			identity: identity{s.Name, kindResource, name}, uri: r.URI, params: normalise(nil),
			description: s.describe("Reads the resource "+text.Label(r.URI, 200)+". ", r.Description, r.Title),
			hash:        hashOf(r.URI, r.Description), readOnly: true, repeatable: true,
		})
	}

	return twins(out), nil
}

// twins tells resources of one name apart by what they point to.
func twins(list []offer) []offer {
	n := map[string]int{}
	for _, o := range list {
		n[o.raw]++
	}

	for i, o := range list {
		if n[o.raw] > 1 {
			list[i].alias = o.raw
			list[i].raw += " " + o.uri
		}
	}
	return list
}

func (s *server) prompts(ctx context.Context, cs *sdk.ClientSession) ([]offer, error) {
	limit := maxTools
	if s.EnabledPrompts == nil || slices.Contains(s.EnabledPrompts, "*") {
		limit = maxUnasked
	}

	list, cut, err := pages(limit, func(cursor string) ([]*sdk.Prompt, string, error) {
		r, err := cs.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Prompts, r.NextCursor, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list prompts of the MCP server: %w", err)
	}

	if cut {
		s.log.WarnContext(ctx, "mcp server offers more prompts than are taken; name the ones you want in enabledPrompts", "limit", limit)
	}

	var out []offer
	for _, p := range list {
		if p == nil || strings.TrimSpace(p.Name) == "" {
			continue
		}

		props, required := map[string]any{}, []any{}
		for _, a := range p.Arguments {
			if a == nil || a.Name == "" {
				continue
			}
			props[a.Name] = map[string]any{"type": "string", "description": a.Description}
			if a.Required {
				required = append(required, a.Name)
			}
		}

		out = append(out, offer{
			identity:    identity{s.Name, kindPrompt, p.Name},
			params:      normalise(map[string]any{"type": "object", "properties": props, "required": required}),
			description: s.describe("Gets a prompt. ", p.Description, p.Title),
			hash:        hashOf(p.Description, p.Arguments), readOnly: s.Trusted, repeatable: true,
		})
	}

	return out, nil
}

// describe returns the description the model reads: whose words they are comes
// first, and what cannot be seen is gone.
func (s *server) describe(what, description, title string) string {
	if strings.TrimSpace(description) == "" {
		description = title
	}
	return text.Ellipsis("["+text.Label(s.Name, 40)+"] "+what+strings.TrimSpace(text.Clean(description)), maxDescription)
}

func hashOf(parts ...any) string {
	b, _ := json.Marshal(parts) // decoded JSON can be encoded
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// policy returns the list of names that are enabled for a kind.
func (s *server) policy(k kind) []string {
	own := s.EnabledTools
	switch k {
	case kindResource:
		own = s.EnabledResources
	case kindPrompt:
		own = s.EnabledPrompts
	}

	if own == nil && k != kindTool && slices.Contains(s.EnabledTools, "*") {
		return []string{"*"}
	}
	return own
}

func (s *server) wants(k kind) bool { return len(s.policy(k)) > 0 }

// allowed keeps what the configuration enables, and says which of its entries
// fit nothing.
func (s *server) allowed(ctx context.Context, all []offer) []offer {
	var out []offer
	used := map[string]bool{}
	for _, o := range all {
		ok := false
		for _, entry := range s.policy(o.kind) {
			if entry == "*" || o.called(entry) {
				used[string(o.kind)+" "+entry] = true
				ok = true
			}
		}

		if ok {
			out = append(out, o)
		}
	}

	for _, k := range []kind{kindTool, kindResource, kindPrompt} {
		for _, entry := range s.policy(k) {
			if entry == "*" || used[string(k)+" "+entry] {
				continue
			}

			var names []string
			for _, o := range all {
				if o.kind == k && len(names) < 50 {
					names = append(names, text.Label(o.raw, 80))
				}
			}

			s.log.WarnContext(ctx, "an enabled name fits nothing the mcp server offers", "kind", k.label(), "name", entry, "available", strings.Join(names, ", "))
		}
	}

	return out
}

// called reports whether an entry of the configuration means this offer.
func (o offer) called(entry string) bool {
	name := offeredName(o.server, o.kind, o.raw)
	return entry == o.raw || entry == name || entry != "" && (entry == o.uri || entry == o.alias) ||
		entry == name[:min(len(name), maxName-9)]+"_"+o.suffix()
}
