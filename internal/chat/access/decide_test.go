package access

import "testing"

// The table is what the gate promises. Ids are numbers here; names are words, or
// numbers that somebody took as a name.
func TestDecide(t *testing.T) {
	t.Parallel()
	read := ReadNames(Digits)
	lists := func(allow, owners []string) peopleLists {
		return readLists(Lists{AllowFrom: allow, Owners: owners}, read)
	}
	alone := func(id string, names ...string) Visitor {
		return Visitor{IDs: []string{id}, Names: names, Direct: true}
	}
	inGroup := func(id string, names ...string) Visitor { return Visitor{IDs: []string{id}, Names: names} }
	only := func(s ...string) []string { return s }
	refused, invited := admission{verdict: Refused}, admission{verdict: Invited}
	guest := func(id string) admission { return admission{verdict: Allowed, id: id} }
	named := func(id string) admission { return admission{verdict: Allowed, id: id, named: true} }
	owner := func(id string) admission { return admission{verdict: Allowed, id: id, owner: true} }

	for name, c := range map[string]struct {
		e    evidence
		want admission
	}{
		"nobody is listed":                         {evidence{visitor: alone("7")}, refused},
		"nobody is listed, people may pair":        {evidence{visitor: alone("7"), pairs: true}, invited},
		"... but not where a code could go astray": {evidence{visitor: Visitor{IDs: only("7"), Direct: true, NoPairing: true}, pairs: true}, refused},
		"... and not in a group":                   {evidence{visitor: inGroup("7"), forUs: true, pairs: true}, refused},
		"nobody in particular":                     {evidence{visitor: alone(""), lists: lists(only("*"), nil)}, admission{verdict: NotForUs}},
		"without any id":                           {evidence{visitor: Visitor{Direct: true}, lists: lists(only("*"), nil)}, admission{verdict: NotForUs}},
		"too late":                                 {evidence{visitor: alone("7"), lists: lists(only("7"), nil), late: true}, admission{verdict: Late}},
		"a group, to others":                       {evidence{visitor: inGroup("7"), lists: lists(only("7"), nil)}, admission{verdict: NotForUs}},
		"a group, to others, and late":             {evidence{visitor: inGroup("7"), lists: lists(only("7"), nil), late: true}, admission{verdict: NotForUs}},
		"a group, to us":                           {evidence{visitor: inGroup("7"), lists: lists(only("7"), nil), forUs: true}, guest("7")},
		"an id in allowFrom":                       {evidence{visitor: alone("7"), lists: lists(only("7"), nil)}, owner("7")},
		"an id in allowFrom, owners are others":    {evidence{visitor: alone("7"), lists: lists(only("7"), only("8"))}, guest("7")},
		"an id in owners alone":                    {evidence{visitor: alone("7"), lists: lists(nil, only("7"))}, owner("7")},
		"an id, and everybody":                     {evidence{visitor: alone("7"), lists: lists(only("*", "7"), nil)}, owner("7")},
		"everybody":                                {evidence{visitor: alone("8"), lists: lists(only("*", "7"), nil)}, guest("8")},
		"everybody is no owner":                    {evidence{visitor: alone("8"), lists: lists(only("*"), only("*"))}, guest("8")},
		"an id as Python wrote it, with a name":    {evidence{visitor: alone("7", "ann"), lists: lists(only("7|ann"), nil)}, owner("7")},
		"... after the name changed":               {evidence{visitor: alone("7", "anna"), lists: lists(only("7|ann"), nil)}, owner("7")},
		"... by another person with the name":      {evidence{visitor: alone("8", "ann"), lists: lists(only("7|ann"), nil)}, refused},
		"... by a person named as all of it":       {evidence{visitor: alone("8", "7|ann"), lists: lists(only("7|ann"), nil)}, refused},
		"a name":                                   {evidence{visitor: alone("7", "ann"), lists: lists(only("@ann"), nil)}, named("7")},
		"a name in other letters":                  {evidence{visitor: alone("7", "Ann"), lists: lists(only("@aNN"), nil)}, named("7")},
		"a name in letters that look like it":      {evidence{visitor: alone("7", "\u212Aim"), lists: lists(only("@kim"), nil)}, refused},
		"a name, as older versions wrote it":       {evidence{visitor: alone("7", "ann"), lists: lists(only("ann"), nil)}, named("7")},
		"a name in owners makes no owner":          {evidence{visitor: alone("7", "ann"), lists: lists(nil, only("@ann"))}, named("7")},
		"... nor an owner of those in allowFrom":   {evidence{visitor: alone("7", "ann"), lists: lists(only("7"), only("@ann"))}, guest("7")},
		"a name that is an id":                     {evidence{visitor: alone("8", "7"), lists: lists(only("7"), nil)}, refused},
		"a name that is an owner's id":             {evidence{visitor: alone("8", "7"), lists: lists(only("*"), only("7"))}, guest("8")},
		"a name that is an id, in a group":         {evidence{visitor: inGroup("8", "7"), lists: lists(only("7"), only("7")), forUs: true}, refused},
		"an id that is a name":                     {evidence{visitor: alone("7"), lists: lists(only("@7"), only("@7"))}, refused},
		"a name of digits":                         {evidence{visitor: alone("8", "7"), lists: lists(only("@7"), nil)}, named("8")},
		"who calls himself everybody":              {evidence{visitor: alone("8", "*"), lists: lists(only("7"), nil)}, refused},
		"an empty name":                            {evidence{visitor: alone("8", ""), lists: lists(only("@", ""), nil)}, refused},
		"paired":                                   {evidence{visitor: alone("8"), paired: Known{ID: "8"}}, guest("8")},
		"paired as the owner":                      {evidence{visitor: alone("8"), paired: Known{ID: "8", Owner: true}}, owner("8")},
		"paired as the owner, in a group":          {evidence{visitor: inGroup("8"), forUs: true, paired: Known{ID: "8", Owner: true}}, guest("8")},
		"paired by another of one's ids":           {evidence{visitor: alone("9"), paired: Known{ID: "8"}}, guest("8")},
		"paired, and listed by name":               {evidence{visitor: alone("8", "ann"), paired: Known{ID: "8"}, lists: lists(only("@ann"), nil)}, guest("8")},
		"proof of the channel":                     {evidence{visitor: Visitor{IDs: only("x"), Direct: true, Owner: true}}, owner("x")},
		"the platform admits":                      {evidence{visitor: alone("8"), rule: Admit}, guest("8")},
		"the platform admits a name that is an id": {evidence{visitor: alone("8", "7"), rule: Admit, lists: lists(only("7"), only("7"))}, guest("8")},
		"the platform admits who is listed":        {evidence{visitor: alone("7"), rule: Admit, lists: lists(only("7"), nil)}, owner("7")},
		"the platform refuses":                     {evidence{visitor: alone("7"), rule: Refuse, lists: lists(only("7"), nil), pairs: true}, refused},
		"the platform ignores":                     {evidence{visitor: alone("7"), rule: Ignore, lists: lists(only("7"), nil)}, admission{verdict: NotForUs}},
		"the second id":                            {evidence{visitor: Visitor{IDs: only("8", "7"), Direct: true}, lists: lists(only("7"), nil)}, owner("7")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := decide(c.e); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// An entry that means less than it may seem is told to whoever wrote it.
func TestDoubts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		l    Lists
		read Reader
		want int
	}{
		"ids":               {Lists{AllowFrom: []string{"7", "*", "7|ann"}, Owners: []string{"7"}}, ReadNames(Digits), 0},
		"a marked name":     {Lists{AllowFrom: []string{"@ann"}}, ReadNames(Digits), 0},
		"a bare name":       {Lists{AllowFrom: []string{"ann"}}, ReadNames(Digits), 1},
		"an owner by name":  {Lists{Owners: []string{"@ann", "7"}}, ReadNames(Digits), 1},
		"all are owners":    {Lists{Owners: []string{"*"}}, ReadNames(Digits), 1},
		"nothing":           {Lists{AllowFrom: []string{"", "@"}}, ReadNames(Digits), 2},
		"no names there":    {Lists{AllowFrom: []string{"@ann"}}, nil, 1},
		"ids of any form":   {Lists{AllowFrom: []string{"ou_1", "$:x"}, Owners: []string{"ou_1"}}, nil, 0},
		"owner by no names": {Lists{Owners: []string{"@ann"}}, nil, 1},
	} {
		if got := doubts(c.l, c.read); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}

// What a platform says is never divided: a bar may be a part of an id that
// somebody chose.
func TestBarInAnID(t *testing.T) {
	t.Parallel()
	b := page{
		Approved: map[string][]string{"x": {"123|ann", "boss@example.org"}},
		Owners:   map[string][]string{"x": {"boss@example.org"}},
	}
	for id, want := range map[string]string{
		"123": "123", "123|ann": "123|ann", "123|eve": "", "boss@example.org": "boss@example.org", "boss@example.org|@evil.example": "", "ann": "",
	} {
		if got := b.approved("x", []string{id}); got != want {
			t.Errorf("%q is known as %q, want %q", id, got, want)
		}
		if got := b.owner("x", []string{id}); got != (id == "boss@example.org") {
			t.Errorf("%q is an owner: %v", id, got)
		}
	}
}
