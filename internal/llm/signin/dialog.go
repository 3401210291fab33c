package signin

import "time"

// Dialog is how a sign-in talks with the person at the terminal.
type Dialog struct {
	// Device asks for a code to type in a browser on any machine. Providers
	// that know no other way ignore it.
	Device bool
	// Notify shows what to do next. It is called from the goroutine of Login.
	Notify func(Step)
	// Pasted starts to deliver lines that the person types, in case the browser
	// runs on another machine and cannot come back to this one. It is called
	// only by a sign-in that can use them. nil: there is no person who can
	// type.
	Pasted func() <-chan string
	// Wait is how long a browser may take to come back; 0 means two minutes.
	Wait time.Duration
}

// Step is one thing to tell the person. Only the fields that apply are set.
type Step struct {
	URL  string // to open in a browser; always http or https
	Code string // to type there
	// Paste says that the address which the browser ends at may be typed here.
	Paste bool
	// Note is a remark, in one sentence.
	Note string
}

func (d Dialog) notify(s Step) {
	if d.Notify != nil {
		d.Notify(s)
	}
}
