package access

import "cmp"

// evidence is all that decides about a visitor, as it was found at one moment.
type evidence struct {
	visitor Visitor
	lists   peopleLists
	forUs   bool     // what was said in a group is for us
	late    bool     // it came while nobody was there, and is not answered any more
	rule    Decision // of the platform
	paired  Known    // what the list of paired people says of the visitor's ids
	pairs   bool     // people can pair here
}

// admission is what the gate does with a visitor.
type admission struct {
	verdict Verdict
	// id stands for the person; "" unless they are let in.
	id string
	// owner: they speak alone with us as the owner; else they are a guest.
	owner bool
	// named: nothing but a name let them in, which others may get.
	named bool
}

// decide says what happens to a visitor. It has no effect and looks at nothing
// else, so its table of tests is the whole of what the gate promises.
func decide(e evidence) admission {
	v := e.visitor
	switch {
	case len(v.IDs) == 0 || v.IDs[0] == "":
		return admission{verdict: NotForUs} // nobody in particular
	case !v.Direct && !e.forUs:
		return admission{verdict: NotForUs}
	case e.late:
		return admission{verdict: Late}
	case e.rule == Ignore:
		return admission{verdict: NotForUs}
	case e.rule == Refuse:
		return admission{verdict: Refused}
	}

	id, named := e.known()
	if e.rule == Admit {
		id = cmp.Or(id, v.IDs[0])
	}
	switch {
	case id != "":
		return admission{verdict: Allowed, id: id, owner: e.owner(), named: named}
	case v.Direct && e.pairs && !v.NoPairing:
		return admission{verdict: Invited}
	default:
		return admission{verdict: Refused}
	}
}

// known is the id by which a visitor may be here, "" if none is. What nobody can
// choose comes first.
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
// no reason: others can get it.
func (e evidence) owner() bool {
	v := e.visitor
	if v.Owner {
		return true // the channel itself has proof
	}
	if !v.Direct {
		return false // others read along
	}
	if e.paired.Owner {
		return true
	}
	for _, id := range v.IDs {
		if _, ok := byID(e.lists.owners(), id); ok {
			return true
		}
	}
	return false
}
