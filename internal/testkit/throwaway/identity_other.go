//go:build !linux

package throwaway

// namespaceIdentities are none: user namespaces are Linux's own.
func namespaceIdentities(_, _ int) []identity { return nil }
