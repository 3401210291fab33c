package main

import (
	"log"

	waLog "go.mau.fi/whatsmeow/util/log"
)

// logger writes what the library warns of; nanobot puts it into its log.
type logger struct{ about string }

func (l logger) Warnf(format string, args ...any)  { log.Printf(l.about+": "+format, args...) }
func (l logger) Errorf(format string, args ...any) { log.Printf(l.about+": "+format, args...) }
func (logger) Infof(string, ...any)                {}
func (logger) Debugf(string, ...any)               {}
func (l logger) Sub(module string) waLog.Logger    { return logger{l.about + "/" + module} }
