// Package child keeps a program that runs beside us together with what it starts,
// so that all of it can be asked to end and be ended at once: a session of its own on
// Unix, a job object on Windows, which has no process groups. What a call of the
// shell starts may leave its session on purpose; package shell follows it itself.
package child
