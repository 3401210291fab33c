package config

import (
	"slices"

	"github.com/tailscale/hujson"
)

// migration changes one thing of an older layout in the raw text tree, where
// comments and order live. Each is idempotent. A migration reaches the disk
// only together with an edit the user asked for.
type migration struct {
	number int
	name   string
	apply  func(root *hujson.Object, warn func(off int, p Problem))
}

// migrations lists all of them in order. Numbers are never reused.
func migrations() []migration {
	return []migration{
		{1, "tools.exec.restrictToWorkspace moves to tools.restrictToWorkspace", func(root *hujson.Object, _ func(int, Problem)) {
			tools := object(root, "tools")
			move(object(tools, "exec"), "restrictToWorkspace", tools, "restrictToWorkspace")
		}},
		{2, "agents.defaults.memoryWindow is dropped", func(root *hujson.Object, warn func(off int, p Problem)) {
			if m := extract(object(object(root, "agents"), "defaults"), "memoryWindow"); m != nil {
				warn(m.Name.StartOffset, Problem{
					Path: "agents.defaults.memoryWindow", Message: "is no longer used",
					Hint: "remove it; contextWindowTokens decides how much is remembered",
				})
			}
		}},
		{3, "agents.defaults.dream.model becomes modelOverride", func(root *hujson.Object, _ func(int, Problem)) {
			dream := object(object(object(root, "agents"), "defaults"), "dream")
			move(dream, "model", dream, "modelOverride")
		}},
		{4, "tools.myEnabled and mySet move into tools.my", func(root *hujson.Object, _ func(int, Problem)) {
			tools := object(root, "tools")
			if find(tools, "myEnabled") < 0 && find(tools, "mySet") < 0 {
				return
			}

			if find(tools, "my") < 0 {
				at := max(find(tools, "myEnabled"), find(tools, "mySet"))
				tools.Members = slices.Insert(tools.Members, at, hujson.ObjectMember{
					Name: hujson.Value{
						BeforeExtra: tools.Members[at].Name.BeforeExtra, Value: hujson.String("my"),
						StartOffset: tools.Members[at].Name.StartOffset,
					},
					Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: &hujson.Object{}, StartOffset: tools.Members[at].Value.StartOffset},
				})
			}

			move(tools, "myEnabled", object(tools, "my"), "enable")
			move(tools, "mySet", object(tools, "my"), "allowSet")
		}},
	}
}

func (d *document) root() *hujson.Object {
	o, _ := d.value.Value.(*hujson.Object)
	return o
}

// find returns the index of the last member with the camelCase name or its
// snake_case form, camelCase first; -1 without one.
func find(o *hujson.Object, name string) int {
	if o == nil {
		return -1
	}

	for _, s := range []string{name, snake(name)} {
		for i, m := range slices.Backward(o.Members) {
			if literal(m.Name).String() == s {
				return i
			}
		}
	}

	return -1
}

// object returns the object under a key, nil when there is none.
func object(o *hujson.Object, name string) *hujson.Object {
	i := find(o, name)
	if i < 0 {
		return nil
	}
	sub, _ := o.Members[i].Value.Value.(*hujson.Object)
	return sub
}

// extract removes a member in all its spellings and returns the strongest one.
func extract(o *hujson.Object, name string) *hujson.ObjectMember {
	var first *hujson.ObjectMember
	for i := find(o, name); i >= 0; i = find(o, name) {
		m := o.Members[i]
		if first == nil {
			first = &m
		}
		removeMember(o, i)
	}
	return first
}

// move takes a member to a new place unless that is taken; then the old one is
// only removed, since the newer key counts.
func move(from *hujson.Object, name string, to *hujson.Object, newName string) {
	if from == nil || to == nil {
		return
	}
	m := extract(from, name)
	if m == nil || find(to, newName) >= 0 {
		return
	}
	m.Name.Value = hujson.String(newName)
	appendMember(to, *m, "  ")
}
