package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// toolsFolder holds the module that pins the emulator.
const toolsFolder = "infra/tools"

// programs are what was built, by their absolute paths.
type programs struct {
	bootstrap string // the function, as Lambda runs it
	emulator  string
}

// build makes the function and the emulator side by side. The function goes to
// the folder; the emulator stays in Go's build cache, which makes it once.
func build(ctx context.Context, s *screen, root, folder string) (p programs, err error) {
	p.bootstrap = filepath.Join(folder, "bootstrap")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		s.say("building the Lambda function: CGO_ENABLED=0 go build -tags lambda.norpc -trimpath ./functions/dispatcher")
		// Not stamped with the commit: git refuses in a folder of somebody else.
		_, err := goCommand(ctx, root, folder, "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-buildvcs=false",
			"-o", p.bootstrap, "./functions/dispatcher")
		return err
	})
	g.Go(func() (err error) {
		s.say("building the Lambda runtime emulator (the first time this takes a minute or two)")
		// -n prints the path of the program, once it is built, and does not run it.
		p.emulator, err = goCommand(ctx, filepath.Join(root, toolsFolder), folder, "tool", "-n", "aws-lambda-rie")
		return err
	})
	err = g.Wait() // before p is read
	return p, err
}

// moduleRoot is the folder of the module that the demo was started in.
func moduleRoot(ctx context.Context) (string, error) {
	file, err := goCommand(ctx, ".", os.TempDir(), "env", "GOMOD")
	if err != nil {
		return "", err
	}
	root := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(root, toolsFolder, "go.mod")); err != nil {
		return "", errors.New("it builds the function from source: start it in the folder of the project")
	}
	return root, nil
}

// goCommand runs go in a folder and returns the last line that it printed. temp
// is where it puts temporary files, and how the janitor knows it.
func goCommand(ctx context.Context, dir, temp string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOTMPDIR="+temp)
	// Told so, it stops its compilers and removes its files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var complaints strings.Builder
	cmd.Stderr = &complaints
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, strings.TrimSpace(complaints.String()))
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1], nil
}
