// Package winjob keeps the processes of a program together on Windows, which has
// no process groups that can be ended: all that a program starts is in a job
// object with it, and ends with the job. The job ends with us, however we end.
package winjob
