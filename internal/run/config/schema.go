package config

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Schema returns the JSON Schema (2020-12) of config.json, for editors. It is made
// from the Go types: descriptions, defaults, choices and ranges.
func Schema(known Sections) []byte {
	s := schemaOf(rootPlace(known), reflect.ValueOf(Default()))
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "nanobot configuration"
	return indent(plainJSON(s))
}

// schemaOf describes the setting at p; def is its default, invalid for none.
func schemaOf(p place, def reflect.Value) *jsonschema.Schema {
	s := &jsonschema.Schema{Description: p.tag.Get("doc")}
	t := p.typ
	if t != nil && t.Kind() == reflect.Pointer {
		t, def = t.Elem(), reflect.Value{}
	}

	own, open := p.platform()
	switch {
	case t == nil || t == reflect.TypeFor[Raw]():
		return s
	case own.IsValid():
		sectionSchema(s, p.as(own.Type(), p.tag), own)
		if open {
			s.AdditionalProperties, s.PatternProperties = &jsonschema.Schema{}, nil
		}
		return s

	case t == reflect.TypeFor[httpsafe.Secret]():
		s.Types, s.WriteOnly = []string{"string", "null"}, true
		return s
	}

	shown := def.IsValid()
	switch t.Kind() {
	case reflect.Struct:
		sectionSchema(s, p.as(t, p.tag), def)
		return s
	case reflect.Map:
		s.Types = []string{"object", "null"}
		s.AdditionalProperties = schemaOf(p.as(t.Elem(), elemTag(p.tag)), elementDefault(t.Elem()))
		return s
	case reflect.Slice:
		s.Types = []string{"array", "null"}
		s.Items = schemaOf(p.as(t.Elem(), elemTag(p.tag)), elementDefault(t.Elem()))
		shown = shown && def.Len() > 0
	default:
		scalarSchema(s, t, p.tag)
		shown = shown && (t.Kind() != reflect.String || def.Len() > 0) && len(p.path) > 0
	}

	if shown {
		s.Default = plainJSON(def.Interface())
	}
	return s
}

func scalarSchema(s *jsonschema.Schema, t reflect.Type, tag reflect.StructTag) {
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number",
	}[t.Kind()]
	s.Types = []string{kind, "null"}
	if enum := tag.Get("enum"); enum != "" {
		for word := range strings.SplitSeq(enum, "|") {
			s.Enum = append(s.Enum, word)
		}
		s.Enum = append(s.Enum, nil)
	}

	bound := func(name string) *float64 {
		if v, err := strconv.ParseFloat(tag.Get(name), 64); err == nil {
			return &v
		}
		return nil
	}

	s.Minimum, s.Maximum = bound("min"), bound("max")
}

// sectionSchema describes an object of settings. Keys that start with x- are
// free for notes; older names are there, marked as deprecated.
func sectionSchema(s *jsonschema.Schema, p place, def reflect.Value) {
	sh := p.shapes.of(p.typ)
	s.Types, s.Properties = []string{"object", "null"}, map[string]*jsonschema.Schema{}
	if p.typ.Field(0).Tag.Get("bare") != "" {
		s.Types = append(s.Types, "string")
	}

	put := func(name string, setting *jsonschema.Schema) {
		s.Properties[name], s.PropertyOrder = setting, append(s.PropertyOrder, name)
	}
	if len(p.path) == 0 {
		put("$schema", &jsonschema.Schema{Type: "string"})
	}

	for _, f := range sh.fields {
		var d reflect.Value
		if def.IsValid() {
			d = def.FieldByIndex(f.index)
		}

		at := p.at(f.name, f.typ, f.tag)
		put(f.name, marked(schemaOf(at, d), at))
		if f.alias != "" {
			put(f.alias, &jsonschema.Schema{Description: "Older name of " + f.name + ".", Deprecated: true})
		}
		if f.tag.Get("required") != "" {
			s.Required = append(s.Required, f.name)
		}
	}

	if p.typ == reflect.TypeFor[Channels]() {
		for _, name := range p.sections.platforms() {
			put(name, schemaOf(p.at(name, reflect.TypeFor[Channel](), ""), reflect.Value{}))
			if s.PatternProperties == nil {
				s.PatternProperties = map[string]*jsonschema.Schema{}
			}
			s.PatternProperties["^"+name+`\.`] = &jsonschema.Schema{Ref: "#/properties/channels/properties/" + name}
		}
	}

	switch rest := sh.rest; {
	case rest == nil:
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // false
		s.PatternProperties = map[string]*jsonschema.Schema{"^x-": {}}
	case rest.typ.Kind() == reflect.Map:
		s.AdditionalProperties = schemaOf(p.at("", rest.typ.Elem(), rest.tag), elementDefault(rest.typ.Elem()))
	default:
		s.AdditionalProperties = &jsonschema.Schema{} // true
	}
}
