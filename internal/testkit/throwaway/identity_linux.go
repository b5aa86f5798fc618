package throwaway

import (
	"fmt"
	"os"
	"syscall"
)

// namespaceIdentities are the identities that need a user namespace: in it we
// are called uid and gid, have no rights of root, and own the same files as
// outside.
func namespaceIdentities(uid, gid int) []identity {
	return []identity{{
		name: fmt.Sprintf("as user %d in a user namespace", uid),
		attr: syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}},
		},
		uid: os.Geteuid(),
		gid: os.Getegid(),
	}}
}
