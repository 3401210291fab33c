package child

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Job holds a program and what it starts. The zero value holds nothing.
type Job struct{ handle windows.Handle }

// Hold puts a process that has just begun into a job. Without a job, which an
// error leaves, only the process itself can be ended. What it started before
// Hold is not in the job.
func Hold(pid int) (Job, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return Job{}, err
	}

	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var process windows.Handle
		process, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid)) //nolint:gosec // a process id
		if err == nil {
			err = windows.AssignProcessToJobObject(job, process)
			_ = windows.CloseHandle(process)
		}
	}

	if err != nil {
		_ = windows.CloseHandle(job)
		return Job{}, err
	}
	return Job{job}, nil
}

// End kills all processes of the job. It may be called again.
func (j *Job) End() {
	if j.handle != 0 {
		_ = windows.TerminateJobObject(j.handle, 1)
		_ = windows.CloseHandle(j.handle)
		j.handle = 0
	}
}
