package throwaway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// identity is a way to run the programs of Postgres as somebody they accept.
type identity struct {
	name     string // for messages; empty: ourselves
	attr     syscall.SysProcAttr
	uid, gid int // who must own the files; -1: whoever makes them
}

// identities are the ways to try, the best first. Anybody but root is accepted
// as he is. Root's programs run as the user nobody; where the kernel or a
// container refuses that, or nobody may not read the programs, as a nobody in a
// user namespace, who is root outside it.
func identities() []identity {
	if os.Geteuid() != 0 {
		return []identity{{uid: -1, gid: -1}}
	}
	uid, gid := nobody()
	asNobody := identity{
		name: "as the user nobody",
		attr: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
		uid:  uid,
		gid:  gid,
	}
	return append([]identity{asNobody}, namespaceIdentities(uid, gid)...)
}

// nobody gives the numbers of the user of that name. It has to have a name:
// initdb looks it up.
func nobody() (uid, gid int) {
	if u, err := user.Lookup("nobody"); err == nil {
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil {
			return uid, gid
		}
	}
	return 65534, 65534 // the number on every Linux
}

func (id identity) note() string {
	if id.name == "" {
		return ""
	}
	return ", " + id.name
}

// command prepares a program of Postgres: in a group of its own, for the
// watchdog and against Ctrl-C, and without the PG* variables, which are meant
// for somebody else's server.
func (id identity) command(ctx context.Context, folder, program string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir = folder
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "HOME="+folder)
	attr := id.attr
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
	return cmd
}

// own gives a file or a folder with all that is in it to the identity.
func (id identity) own(path string) error {
	if id.uid < 0 {
		return nil
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id.uid, id.gid)
	})
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)*`)

// takeIdentity chooses the first identity that can read the binaries and work
// in the folder. It returns the version of Postgres, such as 15.14.
func (s *Server) takeIdentity(ctx context.Context) (version string, err error) {
	var refused []error
	for _, id := range identities() {
		err := id.own(s.folder.path)
		if err == nil {
			var text []byte
			text, err = id.command(ctx, s.folder.path, s.binaries.postgres(), "--version").Output()
			if err == nil {
				s.identity = id
				return versionNumber.FindString(string(text)), nil
			}
		}
		refused = append(refused, fmt.Errorf("run %s %s: %w", s.binaries.postgres(), id.name, err))
	}
	return "", errors.Join(refused...)
}
