package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// program is an installed n8n.
type program struct {
	node   string // the interpreter
	script string // n8n's own start
}

// manifests are what an install is made from.
var manifests = []string{"package.json", ".npmrc"}

// install returns the n8n that infra/n8n/package.json names, and puts it into the
// user's cache folder if it is not there: 3 GB, some minutes. It stays there.
func install(ctx context.Context, source string) (program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return program{}, err
	}
	folder := filepath.Join(cache, "outbox-dispatcher", "n8n")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return program{}, err
	}
	unlock, err := lock(ctx, filepath.Join(folder, ".lock"))
	if err != nil {
		return program{}, err
	}
	defer unlock()
	want, err := digest(source)
	if err != nil {
		return program{}, err
	}
	stamp := filepath.Join(folder, ".installed")
	if have, err := os.ReadFile(stamp); err != nil || string(have) != want {
		if err := fill(ctx, source, folder); err != nil {
			return program{}, err
		}
		if err := os.WriteFile(stamp, []byte(want), 0o600); err != nil {
			return program{}, err
		}
	}
	return find(folder)
}

// fill installs into the folder, from nothing.
func fill(ctx context.Context, source, folder string) error {
	say("installing n8n into %s: 3 GB, some minutes, once", folder)
	began := time.Now()
	if err := errors.Join(os.RemoveAll(filepath.Join(folder, ".installed")), os.RemoveAll(filepath.Join(folder, "node_modules"))); err != nil {
		return err
	}
	for _, name := range manifests {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-package-lock")
	npm.Dir, npm.Stdout, npm.Stderr = folder, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("npm install in %s: %w", folder, err)
	}
	say("installed after %s", since(began))
	return nil
}

// find looks for what the install left.
func find(folder string) (program, error) {
	p := program{script: filepath.Join(folder, "node_modules", "n8n", "bin", "n8n")}
	if _, err := os.Stat(p.script); err != nil {
		return program{}, err
	}
	// npm chose the one that fits this machine. Where none does, as on a Mac, the
	// machine's own has to be new enough for n8n.
	if nodes, _ := filepath.Glob(filepath.Join(folder, "node_modules", "node-*", "bin", "node")); len(nodes) > 0 {
		p.node = nodes[0]
		return p, nil
	}
	var err error
	p.node, err = exec.LookPath("node")
	return p, err
}

// digest tells one set of manifests from another.
func digest(source string) (string, error) {
	hash := sha256.New()
	for _, name := range manifests {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// lock keeps a second run out while one installs.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for %s, which another run holds: %w", path, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
