package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Limits on arguments: a model that exceeds them is broken or hostile.
const (
	maxArgBytes = 1 << 20
	maxArgDepth = 64
	maxArgKeys  = 4096
)

// prepare turns the raw argument object into one that fits the schema, or
// explains every mismatch with its path. It leaves out parameters that the
// schema does not know; the remark names them.
func (s *schema) prepare(raw json.RawMessage) (fit json.RawMessage, remark string, err error) {
	if len(raw) > maxArgBytes {
		return nil, "", fmt.Errorf("arguments are %d bytes; at most %d are accepted", len(raw), maxArgBytes)
	}
	if err := checkDepth(raw); err != nil {
		return nil, "", err
	}

	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, "", fmt.Errorf("arguments are not valid JSON: %w", err)
	}

	m, ok := v.(map[string]any)
	if !ok {
		return nil, "", fmt.Errorf("named parameters are needed, got %s", kindOf(v))
	}

	var problems, unknown []string
	cast := s.cast(s.unwrap(m))
	s.prune("", cast, &unknown)
	s.validate("", cast, &problems)

	if len(unknown) > 0 {
		slices.Sort(unknown)
		const named = 8 // a model that invents more is told enough
		remark = fmt.Sprintf("ignored unknown parameters: %s (known: %s)", strings.Join(unknown[:min(len(unknown), named)], ", "), strings.Join(s.order, ", "))
	}

	if len(problems) > 0 {
		if remark != "" {
			problems = append(problems, remark)
		}
		return nil, "", errors.New(strings.Join(problems, "; "))
	}

	fit, err = marshal(cast)
	return fit, remark, err
}

// unwrap takes the arguments out of an object around them, once: {"arguments":
// {...}}, with or without the name of the tool, is a common slip.
func (s *schema) unwrap(m map[string]any) map[string]any {
	for _, k := range []string{"arguments", "parameters"} {
		_, named := m["name"]
		inner, ok := m[k]
		if !ok || s.props[k] != nil || len(m) > 2 || len(m) == 2 && (!named || s.props["name"] != nil) {
			continue
		}
		if u := asObject(inner); u != nil {
			return u
		}
	}
	return m
}

// prune removes what a closed object does not know. It stays out of shapes of
// which one must match: there the unknown decides which.
func (s *schema) prune(path string, v any, unknown *[]string) {
	if len(s.anyOf) > 0 {
		return
	}
	switch x := v.(type) {
	case []any:
		if s.items != nil {
			for i, e := range x {
				s.items.prune(fmt.Sprintf("%s[%d]", path, i), e, unknown)
			}
		}
	case map[string]any:
		for k, e := range x {
			switch p := s.props[k]; {
			case p != nil:
				p.prune(joinPath(path, k), e, unknown)
			case s.extra != nil:
				s.extra.prune(joinPath(path, k), e, unknown)
			case s.closed:
				*unknown = append(*unknown, text.Cut(strconv.Quote(joinPath(path, k)), 80))
				delete(x, k)
			}
		}
	}
}

func joinPath(path, k string) string {
	if path == "" {
		return k
	}
	return path + "." + k
}

func asObject(v any) map[string]any {
	if str, ok := v.(string); ok {
		d := json.NewDecoder(strings.NewReader(str))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return nil
		}
	}
	m, _ := v.(map[string]any)
	return m
}

func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// checkDepth bounds nesting and object size without building the value.
func checkDepth(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tokens []int // per open container
	for {
		t, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // syntax errors are reported by the real decode
		}

		if n := len(tokens); n > 0 {
			if tokens[n-1]++; tokens[n-1] > 2*maxArgKeys {
				return fmt.Errorf("an object or list has more than %d entries", maxArgKeys)
			}
		}

		if delim, ok := t.(json.Delim); ok {
			switch delim {
			case '{', '[':
				if tokens = append(tokens, 0); len(tokens) > maxArgDepth {
					return fmt.Errorf("arguments are nested deeper than %d levels", maxArgDepth)
				}
			default:
				tokens = tokens[:len(tokens)-1]
			}
		}
	}
}

// cast converts what can be converted without loss and leaves the rest for
// validate to reject.
func (s *schema) cast(v any) any {
	if v == nil {
		return nil
	}
	if len(s.types) != 1 {
		return v
	}

	switch s.types[0] {
	case "integer":
		return castInteger(v)
	case "number":
		if str, ok := v.(string); ok {
			if f, err := strconv.ParseFloat(strings.TrimSpace(str), 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
				return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
			}
		}

	case "boolean":
		return castBool(v)
	case "string":
		switch x := v.(type) {
		case json.Number:
			return x.String()
		case bool:
			return strconv.FormatBool(x)
		case map[string]any, []any:
			if b, err := marshal(x); err == nil {
				return string(b)
			}
		}

	case "array":
		v = parseContainer(v, '[')
		if list, ok := v.([]any); ok && s.items != nil {
			out := make([]any, len(list))
			for i, e := range list {
				out[i] = s.items.cast(e)
			}
			return out
		}

	case "object":
		v = parseContainer(v, '{')
		if m, ok := v.(map[string]any); ok {
			return s.castObject(m)
		}
	}

	return v
}

func (s *schema) castObject(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if name, ok := s.aliases[k]; ok && s.props[k] == nil {
			if _, both := m[name]; both {
				continue
			}
			k = name
		}
		switch p := s.props[k]; {
		case p != nil && p.absent(v) && !slices.Contains(s.required, k):
			// null, or an empty text that is not a value, on an optional parameter
		case p != nil:
			out[k] = p.cast(v)
		case s.extra != nil:
			out[k] = s.extra.cast(v)
		default:
			out[k] = v
		}
	}

	return out
}

// absent reports whether a value only says that there is none.
func (s *schema) absent(v any) bool {
	if str, ok := v.(string); ok {
		return strings.TrimSpace(str) == "" && len(s.types) == 1 &&
			(s.types[0] != "string" || len(s.enum) > 0 && !slices.Contains(s.enum, any(str)))
	}
	return v == nil && !s.nullable
}

func castInteger(v any) any {
	switch x := v.(type) {
	case json.Number:
		if _, err := strconv.ParseInt(x.String(), 10, 64); err == nil {
			return x
		}
		if f, err := x.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	case string:
		t := strings.TrimSpace(x)
		if !strings.HasPrefix(t, "_") && !strings.HasSuffix(t, "_") && !strings.Contains(t, "__") {
			t = strings.ReplaceAll(t, "_", "")
		}
		if n, err := strconv.ParseInt(t, 10, 64); err == nil {
			return json.Number(strconv.FormatInt(n, 10))
		}
	}
	return v
}

func castBool(v any) any {
	var word string
	switch x := v.(type) {
	case string:
		word = strings.ToLower(strings.TrimSpace(x))
	case json.Number:
		word = x.String()
	}

	switch word {
	case "true", "1", "yes":
		return true
	case "false", "0", "no":
		return false
	}
	return v
}

func parseContainer(v any, open byte) any {
	str, ok := v.(string)
	if !ok {
		return v
	}

	t := strings.TrimSpace(str)
	if t == "" || t[0] != open {
		return v
	}

	d := json.NewDecoder(strings.NewReader(t))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return v
	}
	return out
}

// nulFree are the parameters in which a NUL byte can only be an attack.
func nulFree(name string) bool {
	switch name {
	case "path", "file_path", "command", "cmd", "working_dir", "workdir", "url", "pattern", "glob":
		return true
	}
	return false
}

func (s *schema) validate(path string, v any, problems *[]string) {
	label := path
	if label == "" {
		label = "parameter"
	}

	bad := func(format string, args ...any) {
		*problems = append(*problems, label+" "+fmt.Sprintf(format, args...))
	}
	if v == nil && (s.nullable || len(s.types) == 0 || slices.Contains(s.types, "null")) {
		return
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return fits(t, v) }) {
		bad("must be %s, got %s", strings.Join(s.types, " or "), kindOf(v))
		return
	}

	if len(s.enum) > 0 && !slices.ContainsFunc(s.enum, func(e any) bool { return equal(e, v) }) {
		bad("must be one of %s", list(s.enum))
	}
	if s.constant != nil && !equal(*s.constant, v) {
		bad("must be %s", list([]any{*s.constant}))
	}

	if len(s.anyOf) > 0 && !slices.ContainsFunc(s.anyOf, func(a *schema) bool {
		var p []string
		a.validate(path, a.cast(v), &p)
		return len(p) == 0
	}) {
		bad("matches none of the allowed shapes")
	}

	switch x := v.(type) {
	case json.Number:
		s.validateNumber(x, bad)
	case string:
		s.validateString(path, x, bad)
	case []any:
		if s.minItems != nil && len(x) < *s.minItems {
			bad("must have at least %d items", *s.minItems)
		}
		if s.maxItems != nil && len(x) > *s.maxItems {
			bad("must have at most %d items", *s.maxItems)
		}

		if s.items != nil {
			for i, e := range x {
				s.items.validate(fmt.Sprintf("%s[%d]", path, i), e, problems)
			}
		}

	case map[string]any:
		s.validateObject(path, x, problems)
	}
}

func (s *schema) validateNumber(x json.Number, bad func(string, ...any)) {
	f, err := x.Float64()
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		bad("must be finite")
		return
	}

	if s.min != nil && f < *s.min {
		bad("must be >= %v", *s.min)
	}
	if s.max != nil && f > *s.max {
		bad("must be <= %v", *s.max)
	}
	if s.exMin != nil && f <= *s.exMin {
		bad("must be > %v", *s.exMin)
	}
	if s.exMax != nil && f >= *s.exMax {
		bad("must be < %v", *s.exMax)
	}
}

func (s *schema) validateString(path, x string, bad func(string, ...any)) {
	if !s.fitsLength(x) {
		if s.minLen != nil && utf8.RuneCountInString(x) < *s.minLen {
			bad("must have at least %d characters", *s.minLen)
		} else {
			bad("must have at most %d characters", *s.maxLen)
		}
	}

	name := path
	if i := strings.LastIndexAny(name, ".]"); i >= 0 {
		name = name[i+1:]
	}
	if nulFree(name) && strings.ContainsRune(x, 0) {
		bad("must not contain a NUL byte")
	}
}

func (s *schema) fitsLength(x string) bool {
	n := utf8.RuneCountInString(x)
	return (s.minLen == nil || n >= *s.minLen) && (s.maxLen == nil || n <= *s.maxLen)
}

func (s *schema) validateObject(path string, m map[string]any, problems *[]string) {
	for _, k := range s.required {
		if _, ok := m[k]; !ok {
			*problems = append(*problems, "missing required "+joinPath(path, k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch p := s.props[k]; {
		case p != nil:
			p.validate(joinPath(path, k), m[k], problems)
		case s.extra != nil:
			s.extra.validate(joinPath(path, k), m[k], problems)
		case s.closed: // only inside of anyOf; prune removed the others
			*problems = append(*problems, fmt.Sprintf("unexpected parameter %s (known: %s)", joinPath(path, k), strings.Join(s.order, ", ")))
		}
	}
}

func fits(typ string, v any) bool {
	switch x := v.(type) {
	case nil:
		return typ == "null"
	case bool:
		return typ == "boolean"
	case string:
		return typ == "string"
	case json.Number:
		if typ == "integer" {
			_, err := strconv.ParseInt(x.String(), 10, 64)
			return err == nil
		}
		return typ == "number"

	case []any:
		return typ == "array"
	case map[string]any:
		return typ == "object"
	}
	return false
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func equal(want, got any) bool {
	if n, ok := got.(json.Number); ok {
		f, err := n.Float64()
		w, isNum := want.(float64)
		return err == nil && isNum && f == w
	}

	if _, ok := got.(map[string]any); ok {
		return false
	}
	if _, ok := got.([]any); ok {
		return false
	}
	return want == got
}

func list(vs []any) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		b, _ := marshal(v)
		parts[i] = string(b)
	}
	return strings.Join(parts, ", ")
}
