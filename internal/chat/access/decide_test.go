package access

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// decideNow is when the rows of TestDecide happen; the channel started two hours
// before.
var decideNow = time.Unix(1_700_000_000, 0)

// decideRow is a rule: what is known, and what is decided.
type decideRow struct {
	evidence
	want admission
}

// decideRules are the rules about who may talk to us, under the headings of
// docs/how-to/channels/README.md that have them. Ids are numbers here; names are
// words, or numbers that a person took as a name.
func decideRules() map[string]map[string]decideRow {
	alone := func(id string, names ...string) Visitor {
		return Visitor{IDs: []string{id}, Names: names, Direct: true}
	}
	inGroup := func(id string, names ...string) Visitor {
		return Visitor{IDs: []string{id}, Names: names, Route: bus.Route{ChatID: "chat"}}
	}
	mentioned := func(v Visitor) Visitor { v.Mentioned = true; return v }
	written := func(ago time.Duration, v Visitor) Visitor { v.At = decideNow.Add(-ago); return v }
	fromHistory := func(v Visitor) Visitor { v.Backlog = true; return v }

	allow := func(entries ...string) Lists { return Lists{AllowFrom: entries} }
	owners := func(entries ...string) Lists { return Lists{Owners: entries} }
	both := func(allowed, owner string) Lists {
		return Lists{AllowFrom: []string{allowed}, Owners: []string{owner}}
	}
	off := false

	refused, invited := admission{verdict: Refused}, admission{verdict: Invited}
	notForUs, late := admission{verdict: NotForUs}, admission{verdict: Late}
	guest := func(id string) admission { return admission{verdict: Allowed, id: id} }
	owner := func(id string) admission { return admission{verdict: Allowed, id: id, owner: true} }
	named := func(id string) admission { return admission{verdict: Allowed, id: id, named: true} }
	demoted := func(id string) admission {
		return admission{verdict: Allowed, id: id, named: true, demoted: true}
	}

	return map[string]map[string]decideRow{
		"Settings of every channel": {
			"allowFrom: an id":                      {evidence{visitor: alone("7"), section: allow("7")}, owner("7")},
			"allowFrom: the second id of a person":  {evidence{visitor: Visitor{IDs: []string{"8", "7"}, Direct: true}, section: allow("7")}, owner("7")},
			"allowFrom: another id":                 {evidence{visitor: alone("8"), section: allow("7")}, refused},
			"allowFrom: empty":                      {evidence{visitor: alone("7")}, refused},
			"allowFrom: all people":                 {evidence{visitor: alone("8"), section: allow("*", "7")}, guest("8")},
			"allowFrom: all people and this id":     {evidence{visitor: alone("7"), section: allow("*", "7")}, owner("7")},
			"allowFrom: all people, without an id":  {evidence{visitor: Visitor{Direct: true}, section: allow("*")}, notForUs},
			"allowFrom: all people, an empty id":    {evidence{visitor: alone(""), section: allow("*")}, notForUs},
			"owners: others":                        {evidence{visitor: alone("7"), section: both("7", "8")}, guest("7")},
			"owners: this id alone":                 {evidence{visitor: alone("7"), section: owners("7")}, owner("7")},
			"owners: all people are no owners":      {evidence{visitor: alone("8"), section: both("*", "*")}, guest("8")},
			"groupPolicy: empty is mention":         {evidence{visitor: mentioned(inGroup("7")), section: allow("7")}, guest("7")},
			"groupPolicy: mention, not named":       {evidence{visitor: inGroup("7"), section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Mention}}, notForUs},
			"groupPolicy: open":                     {evidence{visitor: inGroup("7"), section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Open}}, guest("7")},
			"groupPolicy: open, not in a list":      {evidence{visitor: inGroup("8"), section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Open}}, refused},
			"groupPolicy: allowlist, no group":      {evidence{visitor: mentioned(inGroup("7")), section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Allowlist}}, notForUs},
			"groupAllowFrom: this group":            {evidence{visitor: inGroup("7"), section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Allowlist, GroupAllowFrom: []string{"chat"}}}, guest("7")},
			"groupAllowFrom: a group is no person":  {evidence{visitor: inGroup("8"), section: Lists{GroupPolicy: Allowlist, GroupAllowFrom: []string{"chat"}}}, refused},
			"groupAllowFrom: without the allowlist": {evidence{visitor: inGroup("7"), section: Lists{AllowFrom: []string{"7"}, GroupAllowFrom: []string{"chat"}}}, notForUs},
			"catchUp: on, kept by the platform":     {evidence{visitor: written(48*time.Hour, alone("7")), section: allow("7")}, owner("7")},
			"catchUp: off, before the start":        {evidence{visitor: written(3*time.Hour, alone("7")), section: Lists{AllowFrom: []string{"7"}, CatchUp: &off}}, late},
			"catchUp: off, since the start":         {evidence{visitor: written(time.Hour, alone("7")), section: Lists{AllowFrom: []string{"7"}, CatchUp: &off}}, owner("7")},
			"catchUp: off, a stranger gets no code": {evidence{visitor: written(3*time.Hour, alone("8")), section: Lists{CatchUp: &off}, pairs: true}, late},
			"catchUp: off, in a group, to others":   {evidence{visitor: written(3*time.Hour, inGroup("7")), section: Lists{AllowFrom: []string{"7"}, CatchUp: &off}}, notForUs},
			"catchUpMaxAgeS: 600 of a history":      {evidence{visitor: fromHistory(written(9*time.Minute, alone("7"))), section: allow("7")}, owner("7")},
			"catchUpMaxAgeS: older than that":       {evidence{visitor: fromHistory(written(12*time.Minute, alone("7"))), section: allow("7")}, late},
			"catchUpMaxAgeS: set, younger":          {evidence{visitor: fromHistory(written(time.Hour, alone("7"))), section: Lists{AllowFrom: []string{"7"}, CatchUpMaxAgeS: 7200}}, owner("7")},
			"catchUpMaxAgeS: set, older":            {evidence{visitor: written(3*time.Hour, alone("7")), section: Lists{AllowFrom: []string{"7"}, CatchUpMaxAgeS: 60}}, late},
		},
		"Ids and names": {
			"a name":                                {evidence{visitor: alone("7", "ann"), section: allow("@ann")}, demoted("7")},
			"a name, while owners are others":       {evidence{visitor: alone("7", "ann"), section: both("@ann", "8")}, named("7")},
			"a name, in a group":                    {evidence{visitor: mentioned(inGroup("7", "ann")), section: allow("@ann")}, named("7")},
			"a name in other letters":               {evidence{visitor: alone("7", "Ann"), section: allow("@aNN")}, demoted("7")},
			"a name in letters that look like it":   {evidence{visitor: alone("7", "\u212Aim"), section: allow("@kim")}, refused},
			"a name of digits":                      {evidence{visitor: alone("8", "7"), section: allow("@7")}, demoted("8")},
			"a name that is an id":                  {evidence{visitor: alone("8", "7"), section: allow("7")}, refused},
			"a name that is an id, in a group":      {evidence{visitor: mentioned(inGroup("8", "7")), section: both("7", "7")}, refused},
			"a name that is an owner's id":          {evidence{visitor: alone("8", "7"), section: both("*", "7")}, guest("8")},
			"a name that is the star":               {evidence{visitor: alone("8", "*"), section: allow("7")}, refused},
			"an empty name":                         {evidence{visitor: alone("8", ""), section: allow("@", "")}, refused},
			"an id that is a name":                  {evidence{visitor: alone("7"), section: both("@7", "@7")}, refused},
			"a name in owners makes no owner":       {evidence{visitor: alone("7", "ann"), section: owners("@ann")}, demoted("7")},
			"a name in owners, an id in allowFrom":  {evidence{visitor: alone("7", "ann"), section: both("7", "@ann")}, guest("7")},
			"a name as older versions wrote it":     {evidence{visitor: alone("7", "ann"), section: allow("ann")}, demoted("7")},
			"an id and a name, as Python wrote it":  {evidence{visitor: alone("7", "ann"), section: allow("7|ann")}, owner("7")},
			"... after the name changed":            {evidence{visitor: alone("7", "anna"), section: allow("7|ann")}, owner("7")},
			"... and another person has the name":   {evidence{visitor: alone("8", "ann"), section: allow("7|ann")}, refused},
			"... and a person is named as all this": {evidence{visitor: alone("8", "7|ann"), section: allow("7|ann")}, refused},
		},
		"Who may talk to the bot": {
			"a stranger, alone":                  {evidence{visitor: alone("7"), pairs: true}, invited},
			"a stranger, without pairing":        {evidence{visitor: alone("7")}, refused},
			"a stranger, a code could go astray": {evidence{visitor: Visitor{IDs: []string{"7"}, Direct: true, NoPairing: true}, pairs: true}, refused},
			"a stranger, in a group":             {evidence{visitor: mentioned(inGroup("7")), pairs: true}, refused},
			"approved":                           {evidence{visitor: alone("8"), paired: Known{ID: "8"}}, guest("8")},
			"approved by another of their ids":   {evidence{visitor: alone("9"), paired: Known{ID: "8"}}, guest("8")},
			"approved, with an id that is new":   {evidence{visitor: alone("8"), paired: Known{ID: "8", unnoted: true}}, admission{verdict: Allowed, id: "8", alias: true}},
			"approved, and listed by name":       {evidence{visitor: alone("8", "ann"), paired: Known{ID: "8"}, section: allow("@ann")}, guest("8")},
			"approved as the owner":              {evidence{visitor: alone("8"), paired: Known{ID: "8", Owner: true}}, owner("8")},
			"an invitation":                      {evidence{visitor: alone("8"), paired: Known{invitation: true}, pairs: true}, admission{verdict: Allowed, id: "8", owner: true, redeem: true}},
			"an invitation, in a group":          {evidence{visitor: mentioned(inGroup("8")), paired: Known{invitation: true}, pairs: true}, refused},
			"an invitation, sent by a guest":     {evidence{visitor: alone("8"), paired: Known{ID: "8", unnoted: true, invitation: true}}, admission{verdict: Allowed, id: "8", owner: true, redeem: true}},
		},
		"Guests and group chats": {
			"the owner in a group":                {evidence{visitor: mentioned(inGroup("7")), section: both("7", "7")}, guest("7")},
			"the owner by approval, in a group":   {evidence{visitor: mentioned(inGroup("8")), paired: Known{ID: "8", Owner: true}}, guest("8")},
			"words of a group that are to others": {evidence{visitor: inGroup("7"), section: both("7", "7")}, notForUs},
		},
		// A platform's own settings come before all of these; its page says what they are.
		"Channels": {
			"the platform admits":                      {evidence{visitor: alone("8"), rule: Admit}, guest("8")},
			"the platform admits a name that is an id": {evidence{visitor: alone("8", "7"), rule: Admit, section: both("7", "7")}, guest("8")},
			"the platform admits a listed person":      {evidence{visitor: alone("7"), rule: Admit, section: allow("7")}, owner("7")},
			"the platform refuses":                     {evidence{visitor: alone("7"), rule: Refuse, section: allow("7"), pairs: true}, refused},
			"the platform refuses an invitation":       {evidence{visitor: alone("8"), rule: Refuse, paired: Known{invitation: true}, pairs: true}, refused},
			"the platform ignores":                     {evidence{visitor: alone("7"), rule: Ignore, section: allow("7")}, notForUs},
			"the platform takes the words for ours":    {evidence{visitor: inGroup("7"), talk: toUs, section: allow("7")}, guest("7")},
			"the platform takes them for others'":      {evidence{visitor: mentioned(inGroup("7")), talk: toOthers, section: Lists{AllowFrom: []string{"7"}, GroupPolicy: Open}}, notForUs},
			"proof of the channel":                     {evidence{visitor: Visitor{IDs: []string{"x"}, Direct: true, Owner: true}}, owner("x")},
		},
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for heading, rules := range decideRules() {
		for name, c := range rules {
			t.Run(heading+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := c.evidence
				e.lists = readLists(e.section, ReadNames(Digits))
				e.now, e.began = decideNow, decideNow.Add(-2*time.Hour)
				if got := decide(e); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		}
	}
}

// The rows of TestDecide are complete: they stand under headings of the page that
// people read, and each setting that decides has one.
func TestDecideHasARowForEachRule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/how-to/channels/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for heading, rules := range decideRules() {
		if !strings.Contains(string(page), "# "+heading+"\n") {
			t.Errorf("the page about channels has no heading %q", heading)
		}
		for name := range rules {
			all.WriteString(name + "\n")
		}
	}

	decidesNothing := map[string]bool{"groupHistory": true, "notifyDenied": true}
	for f := range reflect.TypeFor[Lists]().Fields() {
		setting := f.Tag.Get("json")
		if !decidesNothing[setting] && !strings.Contains(all.String(), setting+": ") {
			t.Errorf("%s has no row", setting)
		}
	}
}

// An entry that means less than it may seem is named.
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
// a person chose.
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
