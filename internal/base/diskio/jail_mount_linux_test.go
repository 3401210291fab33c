package diskio

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountedNames(t *testing.T) {
	t.Parallel()
	const table = `21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:21 / /proc rw - proc proc rw
23 22 0:21 /sys /proc/sys ro - proc proc rw
30 21 8:2 /@home /home rw - btrfs /dev/sdb rw
31 21 8:2 / /mnt/whole rw shared:4 master:1 - btrfs /dev/sdb rw
32 30 8:2 /@home/u/.ssh /home/u/ws/my\040keys rw - btrfs /dev/sdb rw
33 30 8:2 /@home/u/.ssh/old /home/u/ws/old rw - btrfs /dev/sdb rw
34 30 8:1 /etc /home/u/ws/etc rw - ext4 /dev/sda1 rw
35 30 0:21 / /home/u/ws/processes rw - proc proc rw
36 30 8:2 /@home/u/.ssh/ws /srv/ws rw - btrfs /dev/sdb rw
this is no line of the table
`
	all := parseMounts(table)
	if len(all) != 10 {
		t.Fatalf("%d mounts: %+v", len(all), all)
	}
	for name, tt := range map[string]struct {
		path, workspace string
		want            []string
	}{
		"folder": {"/home/u/.ssh", "/home/u/ws", []string{"/mnt/whole/@home/u/.ssh", "/home/u/ws/my keys", "/home/u/ws/old", "/srv/ws"}},
		"file":   {"/home/u/.ssh/id", "/home/u/ws", []string{"/mnt/whole/@home/u/.ssh/id", "/home/u/ws/my keys/id"}},
		"other":  {"/etc/passwd", "/home/u/ws", []string{"/home/u/ws/etc/passwd"}},
		"on a mount": {"/home/u/ws/etc/passwd", "/home/u/ws", []string{
			"/etc/passwd",
		}},
		"workspace in it":      {"/home/u/.ssh", "/srv/ws/deep", []string{"/mnt/whole/@home/u/.ssh", "/home/u/ws/my keys", "/home/u/ws/old"}},
		"around the workspace": {"/home/u", "/home/u/ws", []string{"/mnt/whole/@home/u", "/home/u/ws/my keys", "/home/u/ws/old", "/srv/ws"}},
		"of the workspace":     {"/home/u/.ssh", "/home/u/.ssh/old", []string{"/mnt/whole/@home/u/.ssh", "/home/u/ws/my keys", "/srv/ws"}},
		"nowhere else":         {"/var/x", "/home/u/ws", nil},
		"neighbour":            {"/home/u/.sshd", "/home/u/ws", []string{"/mnt/whole/@home/u/.sshd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, mountedNames(all, []string{tt.path}, tt.workspace)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"/home/u/ws/processes"}, processMounts(all)); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}
