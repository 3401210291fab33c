package access

import (
	"cmp"
	"slices"
	"time"
)

// evidence is all that decides about a visitor, as it was found at one moment.
type evidence struct {
	visitor Visitor
	section Lists       // the settings
	lists   peopleLists // allowFrom and owners of the settings, as the platform reads them
	rule    Decision    // of the platform
	talk    audience    // what the platform says; the empty one leaves it to groupPolicy
	now     time.Time
	began   time.Time // when the channel started
	paired  Known     // what the book says of the visitor's ids
	pairs   bool      // people can pair here
}

// audience is whom words in a group are for, if the platform decides it.
type audience uint8

const (
	byPolicy audience = iota
	toUs
	toOthers
)

// admission is what the gate does with a visitor.
type admission struct {
	verdict Verdict
	// id stands for the person; "" unless they are let in.
	id string
	// owner: they speak alone with us as the owner; else they are a guest.
	owner bool
	// redeem: they sent the code of an invitation, and are let in if the book takes it.
	redeem bool
	// alias: the book lacks one of their ids.
	alias bool
	// named: only a name let them in, which another person can get.
	named bool
	// demoted: they are named in owners, which made an owner in older versions.
	demoted bool
}

// decide says what happens to a visitor. It has no effect and looks at nothing
// else. TestDecide is the specification: it has a row for each rule of
// docs/how-to/channels/README.md.
func decide(e evidence) admission {
	v := e.visitor
	switch {
	case !v.identified():
		return admission{verdict: NotForUs}
	case !e.addressed():
		return admission{verdict: NotForUs}
	case e.late():
		return admission{verdict: Late}
	case e.rule == Ignore:
		return admission{verdict: NotForUs}
	case e.rule == Refuse:
		return admission{verdict: Refused}
	}

	redeem := v.Direct && e.paired.invitation
	if redeem {
		e.paired = Known{ID: v.IDs[0], Owner: true} // as the book will say
	}

	id, named := e.known()
	if e.rule == Admit {
		id = cmp.Or(id, v.IDs[0])
	}

	switch {
	case id != "":
		return admission{
			verdict: Allowed,
			id:      id,
			owner:   e.owner(),
			redeem:  redeem,
			alias:   e.paired.unnoted,
			named:   named,
			demoted: named && v.Direct && e.ownerByName(),
		}

	case v.Direct && e.pairs && !v.NoPairing:
		return admission{verdict: Invited}
	default:
		return admission{verdict: Refused}
	}
}

// identified reports whether the platform says who it is.
func (v Visitor) identified() bool { return len(v.IDs) > 0 && v.IDs[0] != "" }

// addressed reports whether the words are for us.
func (e evidence) addressed() bool {
	v := e.visitor
	switch {
	case v.Direct:
		return true
	case e.talk != byPolicy:
		return e.talk == toUs
	}

	switch e.section.GroupPolicy {
	case Open:
		return true
	case Allowlist:
		return slices.Contains(e.section.GroupAllowFrom, v.Route.ChatID)
	case Mention:
	}

	return v.Mentioned
}

// late reports whether the words came while the channel was offline, and are not
// to be answered any more.
func (e evidence) late() bool {
	v := e.visitor
	if v.At.IsZero() {
		return false
	}
	if !v.Backlog && !v.At.Before(e.began.Add(-clockSlack)) {
		return false // written since the start
	}
	since, wanted := e.section.backlog(e.now, v.Backlog)
	return !wanted || v.At.Before(since)
}

// backlog returns since when words count that were written while the channel was
// offline; false: none do. read says that the channel reads the platform's history
// for them; else the platform delivers them.
func (l Lists) backlog(now time.Time, read bool) (since time.Time, wanted bool) {
	if l.CatchUp != nil && !*l.CatchUp {
		return since, false
	}

	age := time.Duration(l.CatchUpMaxAgeS) * time.Second
	if age <= 0 && read {
		age = catchUpAge
	}

	if age <= 0 {
		return since, true
	}
	return now.Add(-age - clockSlack), true
}

// known returns the id by which a visitor may be here, "" if none is. Ids, which
// a person cannot choose, come before names.
func (e evidence) known() (id string, named bool) {
	v := e.visitor
	for _, id := range v.IDs {
		if entry, ok := byID(e.lists.AllowFrom, id); ok {
			return cmp.Or(entry.As, id), false
		}
		if entry, ok := byID(e.lists.Owners, id); ok {
			return cmp.Or(entry.As, id), false
		}
	}

	if e.paired.ID != "" {
		return e.paired.ID, false
	}
	if v.Owner {
		return v.IDs[0], false
	}

	for _, list := range [][]Entry{e.lists.AllowFrom, e.lists.Owners} {
		if entry, ok := byName(list, v.Names); ok {
			return cmp.Or(entry.As, v.IDs[0]), true
		}
	}

	if e.lists.open() {
		return v.IDs[0], false
	}
	return "", false
}

// owner reports whether a visitor who may be here speaks as the owner. A name is
// no reason, because another person can get it.
func (e evidence) owner() bool {
	v := e.visitor
	switch {
	case v.Owner:
		return true // the channel itself has proof
	case !v.Direct:
		return false // others read along
	case e.paired.Owner:
		return true
	}

	return slices.ContainsFunc(v.IDs, func(id string) bool {
		_, ok := byID(e.lists.owners(), id)
		return ok
	})
}

// ownerByName reports whether a name of the visitor stands where owners do.
func (e evidence) ownerByName() bool {
	_, ok := byName(e.lists.owners(), e.visitor.Names)
	return ok
}
