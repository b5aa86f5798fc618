package main

import (
	"context"
	"fmt"
	"testing"
)

// scope stands for the test that lambdatest expects around it, in a program that
// is none: what is started in it ends with it.
type scope struct {
	testing.TB // of which nothing else is used
	ended      []func()
}

// broken is what Fatalf panics with.
type broken struct{ text string }

func (s *scope) Helper()                           {}
func (s *scope) Name() string                      { return "chaos" }
func (s *scope) Context() context.Context          { return context.Background() }
func (s *scope) Cleanup(f func())                  { s.ended = append(s.ended, f) }
func (s *scope) Fatalf(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

// end ends what was started, the last first.
func (s *scope) end() {
	for len(s.ended) > 0 {
		last := s.ended[len(s.ended)-1]
		s.ended = s.ended[:len(s.ended)-1]
		last()
	}
}

// within runs f in a scope of its own and returns what broke it.
func within(f func(*scope) error) (err error) {
	s := &scope{}
	defer s.end()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			err = fmt.Errorf("%s", p.text)
		default:
			panic(p)
		}
	}()
	return f(s)
}
